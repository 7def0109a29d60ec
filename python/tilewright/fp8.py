"""quantize_fp8, dequantize_fp8, gemm_fp8, gemm_fp8_grouped, and scaled_mm with torch._scaled_mm's arguments."""

from __future__ import annotations

import torch

from . import _checks_fp8, _ops, formats, reference_fp8
from ._straight_through import product
from .reference_fp8 import FP8_TYPES, GRANULARITIES

_gemm_op = torch.ops.tilewright.gemm_fp8.default
_grouped_op = torch.ops.tilewright.gemm_fp8_grouped.default
_quantize_op = torch.ops.tilewright.quantize_fp8.default
assert _ops.NATIVE is not None  # importing _ops is what registers the ops above


def quantize_fp8(
    x: torch.Tensor,
    granularity: str = "row",
    *,
    dtype: torch.dtype = torch.float8_e4m3fn,
    scale: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises x [..., K] (float16, bfloat16 or float32) to FP8: the codes [..., K] and their fp32 scales.

    granularity: what one scale covers. "tensor": all of x, scale of shape []. "row": [..., 1]. "block": 1 x 128 along
    K, [..., ceil(K / 128)]. "block128x128": [ceil(M / 128), ceil(K / 128)] of a matrix [M, K], for weights;
    with a leading dimension, one after another. A scale is the greatest finite magnitude of its group over the greatest
    value of the type (448 or 57344), 1 for a group of zeros. Values are rounded to nearest even and saturate; NaN and
    infinities become NaN. scale: with "tensor", one fp32 value to use instead. ValueError for a wrong option.
    """
    if granularity not in GRANULARITIES:
        raise ValueError(f"granularity={granularity!r}; allowed: {', '.join(GRANULARITIES)}")
    if dtype not in FP8_TYPES:
        raise ValueError(f"dtype={dtype}; allowed: {', '.join(map(str, FP8_TYPES))}")
    _checks_fp8.check_rows("x", x)
    number, fp8_type = GRANULARITIES.index(granularity), FP8_TYPES.index(dtype)
    if granularity == "block128x128" and x.dim() == 3:
        if x.shape[0] == 0:
            raise ValueError("x has 0 matrices; expected at least 1")
        pairs = [_quantize_op(matrix, number, fp8_type, scale) for matrix in x]
        return torch.stack([codes for codes, _ in pairs]), torch.stack([scales for _, scales in pairs])
    if granularity == "block128x128" and x.dim() != 2:
        raise ValueError(f"x has {x.dim()} dimensions; expected 2 or 3 for block128x128")
    codes, scales = _quantize_op(x.reshape(-1, x.shape[-1]), number, fp8_type, scale)
    if x.dim() == 2 or granularity == "tensor":
        return codes.view(x.shape), scales
    return codes.view(x.shape), scales.reshape(*x.shape[:-1], scales.shape[-1])


def dequantize_fp8(codes: torch.Tensor, scale: torch.Tensor, *, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Codes [M, K] times the scales that `quantize_fp8` gave, computed in fp32 and rounded once to `dtype`.

    scale: one value, [M] or [M, 1], [M, ceil(K / 128)], or [ceil(M / 128), ceil(K / 128)]. ValueError for others.
    """
    formats.dtype_code(dtype)
    _checks_fp8.check_scaled(codes, scale)
    return reference_fp8.dequantize(codes, scale, dtype)


def gemm_fp8(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
    fast_accum: bool = False,
    static_weights: bool = False,
) -> torch.Tensor:
    """a [..., K] (e4m3 or e5m2) times b [N, K] (e4m3) transposed, both scaled, plus bias [N]; [..., N] in `out_dtype`.

    Scales are fp32, in one of three kinds: one value each; [..., 1] and [N, 1]; or [..., ceil(K / 128)] and
    [ceil(N / 128), ceil(K / 128)], in any strides. Accumulated in fp32; fast_accum lets a kernel keep long sums in the
    tensor core, which holds fewer bits. A scale that is NaN or infinite gives what fp32 arithmetic gives. RuntimeError
    names the argument that does not fit, before anything is launched.

    static_weights: True says that nothing in flight on this stream writes to b or scale_b, so that a kernel may read
    them before the kernels ahead of it are done; by default it waits. What a kernel just launched writes is in flight.
    """
    code = formats.dtype_code(out_dtype, "out_dtype")
    options = (code, fast_accum, static_weights)
    _checks_fp8.check_rows("a", a)
    if a.dim() == 2:
        result: torch.Tensor = _gemm_op(a, b, scale_a, scale_b, bias, *options)
        return result
    if scale_a.numel() != 1:
        scale_a = scale_a.reshape(-1, scale_a.shape[-1])
    flat: torch.Tensor = _gemm_op(a.reshape(-1, a.shape[-1]), b, scale_a, scale_b, bias, *options)
    return flat.view(*a.shape[:-1], b.shape[0])


def gemm_fp8_grouped(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    *,
    group_ends: torch.Tensor | None = None,
    group_rows: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
    fast_accum: bool = False,
    static_weights: bool = False,
) -> torch.Tensor:
    """A product a group, for mixtures of experts: rows of `a` times the weight of their group, b [G, N, K].

    group_ends, int32 [G]: a is [M, K] and group g owns the rows from the end of the group before up to its own; the
    result is [M, N]. group_rows, int32 [G]: a is [G, M, K] and the first group_rows[g] rows of group g count; the
    result is [G, M, N]. Rows of no group hold no defined value. Scales: one value and [G]; [..., M, 1] and [G, N]; or
    [..., M, ceil(K / 128)] and [G, ceil(N / 128), ceil(K / 128)]. bias: [G, N]. static_weights: as for
    `gemm_fp8`.
    """
    options = (formats.dtype_code(out_dtype, "out_dtype"), fast_accum, static_weights)
    result: torch.Tensor = _grouped_op(a, b, scale_a, scale_b, group_ends, group_rows, bias, *options)
    return result


def scaled_mm(
    self: torch.Tensor,
    mat2: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
    *,
    static_weights: bool = False,
) -> torch.Tensor:
    """torch._scaled_mm's arguments: self [M, K], mat2 [K, N] with unit stride along K, scales as torch takes them.

    Scales: one value each; [M, 1] and [1, N]; or [M, K / 128] and [K / 128, N / 128]. The result is bfloat16 unless
    out_dtype says otherwise (torch's default is the dtype of `self`, which is no result type here). scale_result is for
    FP8 results and must be None. What does not fit is a ValueError here, or the RuntimeError of `gemm_fp8`, whose a and
    b are self and mat2 transposed.
    """
    if scale_result is not None:
        raise ValueError("scale_result is given; it must be None: results are float16, bfloat16 or float32")
    if mat2.dim() != 2 or scale_b.dim() > 2:
        raise ValueError(f"mat2 has {mat2.dim()} dimensions and scale_b {scale_b.dim()}; expected 2, and at most 2")
    wanted = torch.bfloat16 if out_dtype is None else out_dtype
    own = (self, mat2.t(), scale_a, scale_b.t(), bias)
    return gemm_fp8(*own, out_dtype=wanted, fast_accum=use_fast_accum, static_weights=static_weights)


def run_linear(
    x: torch.Tensor,
    bias: torch.Tensor | None,
    codes: torch.Tensor,
    scale: torch.Tensor,
    granularity: str,
    input_scale: torch.Tensor | None,
    fast_accum: bool,
    static_weights: bool,
) -> torch.Tensor:
    """Quantises x [..., K] as `granularity` says and multiplies."""
    _checks_fp8.check_rows("x", x)
    if x.shape[-1] != codes.shape[1]:
        raise RuntimeError(f"the last dimension of x is {x.shape[-1]}; expected in_features={codes.shape[1]}")
    flat = x.reshape(-1, x.shape[-1])
    measured = granularity if input_scale is None else "tensor"
    rows, row_scale = _quantize_op(flat, GRANULARITIES.index(measured), 0, input_scale)
    if measured != granularity:  # one scale for all rows of x, and one for every row of the weight
        row_scale = row_scale.expand(flat.shape[0], 1)
    options = (formats.dtype_code(x.dtype), fast_accum, static_weights)
    out: torch.Tensor = _gemm_op(rows, codes, row_scale, scale, bias, *options)
    return out.view(*x.shape[:-1], codes.shape[0])


def linear_fp8(
    x: torch.Tensor,
    codes: torch.Tensor,
    scale: torch.Tensor,
    bias: torch.Tensor | None,
    granularity: str,
    input_scale: torch.Tensor | None,
    fast_accum: bool,
    static_weights: bool,
) -> torch.Tensor:
    """What LinearFP8 computes: casts under autocast, quantises x, multiplies; gradients flow to x and bias."""
    options = (granularity, input_scale, fast_accum, static_weights)
    return product(run_linear, reference_fp8.dequantize, x, bias, (codes, scale), options)
