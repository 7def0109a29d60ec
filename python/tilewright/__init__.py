"""Tilewright: low-precision GEMM kernels for torch, generated from declarative specs.

Importing registers torch.ops.tilewright. It asks no driver and creates no CUDA context.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

from . import _decisions, _ops, _tuned, checkpoint
from ._decisions import Decision
from ._tuned import TunedTable, TunedTableError
from ._version import __version__
from .convert import ConvertReport, convert
from .explain import Reasons, explain
from .fp8 import dequantize_fp8, gemm_fp8, gemm_fp8_grouped, quantize_fp8, scaled_mm
from .gemm import dequantize_4bit, gemm_4bit, quantize_4bit
from .info import build_info
from .layout import can_prepack, prepack, unpack
from .linear import Linear4bit
from .linear_fp8 import LinearFP8, LinearNVFP4
from .nvfp4 import NVFP4Tensor, dequantize_nvfp4, gemm_nvfp4, quantize_nvfp4
from .state import QuantState

__all__ = [
    "ConvertReport",
    "Decision",
    "Linear4bit",
    "LinearFP8",
    "LinearNVFP4",
    "NVFP4Tensor",
    "QuantState",
    "Reasons",
    "TunedTable",
    "TunedTableError",
    "__version__",
    "build_info",
    "can_prepack",
    "checkpoint",
    "convert",
    "dequantize_4bit",
    "dequantize_fp8",
    "dequantize_nvfp4",
    "explain",
    "force_tile",
    "gemm_4bit",
    "gemm_fp8",
    "gemm_fp8_grouped",
    "gemm_nvfp4",
    "last_decision",
    "load_tuned",
    "prepack",
    "quantize_4bit",
    "quantize_fp8",
    "quantize_nvfp4",
    "scaled_mm",
    "unpack",
]


def force_tile(name: str | None, family: str = "gemm_4bit") -> AbstractContextManager[None]:
    """Context manager: every product of a family in the process on CUDA uses the named tile, or "fallback"; None lifts
    an outer force.

    For tests and measurements; for gemm_4bit the environment variable TILEWRIGHT_FORCE_TILE does the same from the
    start. ValueError for a name that this build lacks; a call that the tile cannot answer raises RuntimeError.
    """
    return _decisions.force_tile(_ops.NATIVE, name, family)


def last_decision(device_type: str = "cuda") -> Decision | None:
    """How the last product of this thread on that kind of device was answered; None before the first."""
    return _decisions.last_decision(_ops.NATIVE, device_type)


def load_tuned(path: str | os.PathLike[str] | None) -> TunedTable | None:
    """Put a table of choices measured on this kind of card (`tilewright calibrate` writes it) in front of the rules;
    None takes it away. The environment variable TILEWRIGHT_TUNED does the same from the start.

    TunedTableError, with the reason, for a file that is no table, and for one of another build, driver or card; the
    choices in use stay as they were. Nothing is ever measured here, and no table is loaded while a CUDA graph is being
    captured. A call that no entry describes is decided by the rules; force_tile stands in front of both.
    """
    return _tuned.load(_ops.NATIVE, path)


_decisions.apply_environment(_ops.NATIVE)
_tuned.apply_environment(_ops.NATIVE)
