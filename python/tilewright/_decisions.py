"""What was decided for the last call, and forcing a decision in tests."""

from __future__ import annotations

import ctypes
import difflib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from . import _library
from .layout import LAYOUTS

FORCE_VARIABLE = "TILEWRIGHT_FORCE_TILE"


@dataclass(frozen=True)
class Decision:
    """One call of a family's product as it ran.

    `path` is "custom" (one fused kernel, `tile` names it), "fallback" (dequantise, then linear) or "torch" (plain
    torch: a CPU tensor, or no native library). `forced`: force_tile chose; `tuned`: a loaded table did. `serial` counts
    the calls of this thread on that path kind. `layout`: of the weight of gemm_4bit, "packed" or "prepacked".
    """

    serial: int
    M: int
    N: int
    K: int
    dtype: torch.dtype
    device: str
    arch: str | None
    path: str
    tile: str | None
    forced: bool
    tuned: bool = False
    family: str = "gemm_4bit"
    layout: str | None = None


class _Last(threading.local):
    serial = 0
    plain: Decision | None = None


_last = _Last()
_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def record_plain_torch(
    a: torch.Tensor, n: int, k: int, family: str = "gemm_4bit", m: int | None = None,
    dtype: torch.dtype | None = None, layout: str | None = None,
) -> None:  # fmt: skip
    """Notes a call that plain torch answered. m, dtype: of the problem where `a` does not say."""
    _last.serial += 1
    M = a.numel() // k if m is None else m
    _last.plain = Decision(
        _last.serial, M, n, k, dtype or a.dtype, str(a.device), None, "torch", None, False, family=family, layout=layout
    )


def last_decision(native: _library.Native, device_type: str = "cuda") -> Decision | None:
    """The last decision of this thread for tensors of `device_type`; None before the first."""
    if device_type != "cuda" or not native.loaded:
        return _last.plain
    record = _library.DecisionRecord()
    native.library.tilewright_last_decision(ctypes.byref(record))
    if record.serial == 0:
        return None
    custom = record.path == 1
    family = _library.FAMILIES[record.family]
    return Decision(
        serial=record.serial,
        M=record.m,
        N=record.n,
        K=record.k,
        dtype=_DTYPES[record.dtype],
        device=f"cuda:{record.device}",
        arch=native.library.tilewright_arch_name(record.arch).decode(),
        path="custom" if custom else "fallback",
        tile=native.tile_names(family)[record.tile] if custom else None,
        forced=record.by == _library.BY_FORCE,
        tuned=record.by == _library.BY_TABLE,
        family=family,
        layout=LAYOUTS[record.layout] if family == "gemm_4bit" else None,
    )


def force_number(native: _library.Native, name: str, family: str = "gemm_4bit") -> int:
    """The number of a tile name, or of "fallback". ValueError, with the nearest names, if there is no such tile."""
    if name == "fallback":
        return _library.FORCE_FALLBACK
    names = native.tile_names(family)
    if name in names:
        return names.index(name)
    if not native.loaded:
        raise ValueError(f"tile={name!r}; no tile can be forced: {native.reason}")
    near = difflib.get_close_matches(name, names, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"allowed: fallback, {', '.join(names)}"
    raise ValueError(f"tile={name!r} is not in this build; {hint}")


@contextmanager
def force_tile(native: _library.Native, name: str | None, family: str = "gemm_4bit") -> Iterator[None]:
    """Makes every product of a family in the process on CUDA use one tile; None lifts an outer force."""
    if family not in _library.FAMILIES:
        raise ValueError(f"family={family!r}; allowed: {', '.join(_library.FAMILIES)}")
    number = _library.FORCE_NOTHING if name is None else force_number(native, name, family)
    if not native.loaded:
        yield
        return
    force, code = native.library.tilewright_force_family_tile, _library.FAMILIES.index(family)
    before = force(code, number)
    try:
        yield
    finally:
        force(code, before)


def apply_environment(native: _library.Native) -> None:
    """Forces the tile named by TILEWRIGHT_FORCE_TILE, if it is set."""
    name = os.environ.get(FORCE_VARIABLE)
    if not name:
        return
    try:
        number = force_number(native, name)
    except ValueError as error:
        raise ValueError(f"{FORCE_VARIABLE}: {error}") from None
    if native.loaded:
        native.library.tilewright_force_family_tile(0, number)
