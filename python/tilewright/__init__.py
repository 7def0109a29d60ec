"""Tilewright: 4-bit weight GEMM kernels for torch, generated from declarative specs.

Importing registers torch.ops.tilewright. It asks no driver and creates no CUDA context.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from . import _decisions, _ops, checkpoint
from ._decisions import Decision
from ._version import __version__
from .convert import ConvertReport, convert
from .explain import Reasons, explain
from .gemm import dequantize_4bit, gemm_4bit, quantize_4bit
from .info import build_info
from .linear import Linear4bit
from .state import QuantState

__all__ = [
    "ConvertReport",
    "Decision",
    "Linear4bit",
    "QuantState",
    "Reasons",
    "__version__",
    "build_info",
    "checkpoint",
    "convert",
    "dequantize_4bit",
    "explain",
    "force_tile",
    "gemm_4bit",
    "last_decision",
    "quantize_4bit",
]


def force_tile(name: str | None) -> AbstractContextManager[None]:
    """Context manager: every gemm_4bit call of the process on CUDA uses the named tile, or "fallback"; None lifts
    an outer force.

    For tests and measurements; the environment variable TILEWRIGHT_FORCE_TILE does the same from the start.
    ValueError for a name that this build lacks; a call that the tile cannot answer raises RuntimeError.
    """
    return _decisions.force_tile(_ops.NATIVE, name)


def last_decision(device_type: str = "cuda") -> Decision | None:
    """How the last gemm_4bit call of this thread on that kind of device was answered; None before the first."""
    return _decisions.last_decision(_ops.NATIVE, device_type)


_decisions.apply_environment(_ops.NATIVE)
