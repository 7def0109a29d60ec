"""The FP8 and NVFP4 ops in plain torch: schemas, kernels, fake kernels. `_ops` registers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import _checks_fp8, _decisions, reference_fp8, reference_nvfp4
from .reference_fp8 import FP8_TYPES

OptionalTensor = torch.Tensor | None


@dataclass(frozen=True)
class Op:
    """An op: its name, its schema behind the name, what computes it, and what gives its result's shape."""

    name: str
    arguments: str
    kernel: Callable[..., Any]
    fake: Callable[..., Any]


def _gemm_fp8(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: OptionalTensor = None,
    out_dtype: int = 1,
    fast_accum: bool = False,
) -> torch.Tensor:
    kind, dtype = _checks_fp8.check_gemm_fp8(a, b, scale_a, scale_b, bias, out_dtype)
    M, N, K = a.shape[0], b.shape[0], a.shape[1]
    _decisions.record_plain_torch(a, N, K, "gemm_fp8", M, dtype)
    per_row = scale_b.reshape(N, 1) if kind == 1 else scale_b
    return reference_fp8.gemm(a, b, scale_a, per_row, bias, dtype)


def _gemm_fp8_fake(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: OptionalTensor = None,
    out_dtype: int = 1,
    fast_accum: bool = False,
) -> torch.Tensor:
    _, dtype = _checks_fp8.check_gemm_fp8(a, b, scale_a, scale_b, bias, out_dtype)
    return a.new_empty((a.shape[0], b.shape[0]), dtype=dtype)


def _gemm_fp8_grouped(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    group_ends: OptionalTensor = None,
    group_rows: OptionalTensor = None,
    bias: OptionalTensor = None,
    out_dtype: int = 1,
    fast_accum: bool = False,
) -> torch.Tensor:
    kind, dtype = _checks_fp8.check_gemm_fp8_grouped(a, b, scale_a, scale_b, group_ends, group_rows, bias, out_dtype)
    G, N, K = b.shape
    _decisions.record_plain_torch(a, N, K, "gemm_fp8", a.numel() // K, dtype)
    per_row = scale_b.reshape(G, N, 1) if kind == 1 else scale_b
    return reference_fp8.gemm_grouped(a, b, scale_a, per_row, group_ends, group_rows, bias, dtype)


def _gemm_fp8_grouped_fake(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    group_ends: OptionalTensor = None,
    group_rows: OptionalTensor = None,
    bias: OptionalTensor = None,
    out_dtype: int = 1,
    fast_accum: bool = False,
) -> torch.Tensor:
    _, dtype = _checks_fp8.check_gemm_fp8_grouped(a, b, scale_a, scale_b, group_ends, group_rows, bias, out_dtype)
    return a.new_empty((*a.shape[:-1], b.shape[1]), dtype=dtype)


def _quantize_fp8(
    x: torch.Tensor, granularity: int, fp8_type: int = 0, scale: OptionalTensor = None
) -> tuple[torch.Tensor, torch.Tensor]:
    _checks_fp8.check_quantize_fp8(x, granularity, fp8_type, scale)
    return reference_fp8.quantize(x, granularity, fp8_type, scale)


def _quantize_fp8_fake(
    x: torch.Tensor, granularity: int, fp8_type: int = 0, scale: OptionalTensor = None
) -> tuple[torch.Tensor, torch.Tensor]:
    _checks_fp8.check_quantize_fp8(x, granularity, fp8_type, scale)
    return x.new_empty(x.shape, dtype=FP8_TYPES[fp8_type]), reference_fp8.empty_scale(x, granularity)


def _gemm_nvfp4(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    global_a: torch.Tensor,
    global_b: torch.Tensor,
    bias: OptionalTensor = None,
    out_dtype: int = 1,
) -> torch.Tensor:
    dtype = _checks_fp8.check_gemm_nvfp4(a, b, scale_a, scale_b, global_a, global_b, bias, out_dtype)
    _decisions.record_plain_torch(a, b.shape[0], 2 * a.shape[1], "gemm_nvfp4", a.shape[0], dtype)
    return reference_nvfp4.gemm(a, b, scale_a, scale_b, global_a, global_b, bias, dtype)


def _gemm_nvfp4_fake(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    global_a: torch.Tensor,
    global_b: torch.Tensor,
    bias: OptionalTensor = None,
    out_dtype: int = 1,
) -> torch.Tensor:
    dtype = _checks_fp8.check_gemm_nvfp4(a, b, scale_a, scale_b, global_a, global_b, bias, out_dtype)
    return a.new_empty((a.shape[0], b.shape[0]), dtype=dtype)


def _quantize_nvfp4(
    x: torch.Tensor, global_scale: OptionalTensor = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _checks_fp8.check_quantize_nvfp4(x, global_scale)
    return reference_nvfp4.quantize(x, global_scale)


def _quantize_nvfp4_fake(
    x: torch.Tensor, global_scale: OptionalTensor = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _checks_fp8.check_quantize_nvfp4(x, global_scale)
    M, K = x.shape
    codes = x.new_empty((M, K // 2), dtype=torch.uint8)
    scales = x.new_empty((reference_nvfp4.scale_bytes(M, K),), dtype=torch.uint8)
    return codes, scales, x.new_empty((), dtype=torch.float32)


OPS = (
    Op(
        "gemm_fp8",
        "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias=None, int out_dtype=1, "
        "bool fast_accum=False) -> Tensor",
        _gemm_fp8,
        _gemm_fp8_fake,
    ),
    Op(
        "gemm_fp8_grouped",
        "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? group_ends=None, Tensor? group_rows=None, "
        "Tensor? bias=None, int out_dtype=1, bool fast_accum=False) -> Tensor",
        _gemm_fp8_grouped,
        _gemm_fp8_grouped_fake,
    ),
    Op(
        "quantize_fp8",
        "(Tensor x, int granularity, int fp8_type=0, Tensor? scale=None) -> (Tensor, Tensor)",
        _quantize_fp8,
        _quantize_fp8_fake,
    ),
    Op(
        "gemm_nvfp4",
        "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor global_a, Tensor global_b, Tensor? bias=None, "
        "int out_dtype=1) -> Tensor",
        _gemm_nvfp4,
        _gemm_nvfp4_fake,
    ),
    Op(
        "quantize_nvfp4",
        "(Tensor x, Tensor? global_scale=None) -> (Tensor, Tensor, Tensor)",
        _quantize_nvfp4,
        _quantize_nvfp4_fake,
    ),
)
"""Each is registered under its name and as `_NAME_torch`, which the native library calls where no kernel answers."""
