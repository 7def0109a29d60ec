"""FP8 in plain torch: quantisation, dequantisation and the product. The CPU path, and the reference of every kernel.

A scale is what a stored value is multiplied by. It is computed in fp32: the greatest finite magnitude of its group over
the greatest value of the type, at least the least normal number; 1 for a group of zeros. Values are divided by their
scale and rounded to nearest even; past the greatest value they saturate, NaN and infinities become NaN (code 0x7F).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

BLOCK = 128
FP8_TYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
FP8_MAX = (448.0, 57344.0)
TENSOR, ROW, BLOCK_1X128, BLOCK_128X128 = range(4)
GRANULARITIES = ("tensor", "row", "block", "block128x128")
"""What one scale of `quantize_fp8` covers, by number: all, a row, 1 x 128 (activations), 128 x 128 (weights)."""
SCALINGS = ("tensor", "row", "block")
"""Kinds of scaling of a product, by number."""
_NAN_CODE = 0x7F


def blocks(size: int) -> int:
    """Blocks of 128 that cover a size."""
    return (size + BLOCK - 1) // BLOCK


def scale_shape(M: int, K: int, granularity: int) -> tuple[int, ...]:
    """Shape of the scales of an [M, K] tensor."""
    if granularity == TENSOR:
        return ()
    if granularity == ROW:
        return M, 1
    return (M if granularity == BLOCK_1X128 else blocks(M)), blocks(K)


def empty_scale(x: torch.Tensor, granularity: int) -> torch.Tensor:
    """Uninitialised scales for x [M, K]; those of 1 x 128 are stored outer dimension first, as torch's products ask."""
    M, K = x.shape
    shape = scale_shape(M, K, granularity)
    if granularity == BLOCK_1X128:
        return x.new_empty((shape[1], shape[0]), dtype=torch.float32).t()
    return x.new_empty(shape, dtype=torch.float32)


def quantize(
    x: torch.Tensor, granularity: int, fp8_type: int, scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes [M, K] of x [M, K] and their scales; a given scale is used as it is and returned."""
    values = x.float()
    if scale is None:
        out = empty_scale(x, granularity)
        out.copy_(_scales(values, granularity, FP8_MAX[fp8_type]))
        scale = out
    else:
        scale = scale.reshape(()).clone()
    return encode(values / expand(scale, values.shape[0], values.shape[1]), values, fp8_type), scale


def encode(scaled: torch.Tensor, values: torch.Tensor, fp8_type: int) -> torch.Tensor:
    """Scaled values as FP8; NaN where the scaled value is NaN or the original one is not finite."""
    limit = FP8_MAX[fp8_type]
    dtype = FP8_TYPES[fp8_type]
    codes = scaled.clamp(-limit, limit).to(dtype).view(torch.uint8)
    lost = scaled.isnan() | ~values.isfinite()
    return torch.where(lost, torch.full_like(codes, _NAN_CODE), codes).view(dtype)


def dequantize(codes: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[M, K] codes times their scales, in fp32 and rounded once to `dtype`."""
    return (codes.float() * expand(scale, codes.shape[0], codes.shape[1])).to(dtype)


def expand(scale: torch.Tensor, M: int, K: int) -> torch.Tensor:
    """Scales, in a shape that `quantize` gives or [M], in a shape that multiplies [M, K]."""
    if scale.numel() == 1:
        return scale.reshape(())
    if tuple(scale.shape) in ((M,), (M, 1)):
        return scale.reshape(M, 1)
    if scale.shape[0] != M:
        scale = scale.repeat_interleave(BLOCK, 0)[:M]
    return scale.repeat_interleave(BLOCK, 1)[:, :K]


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """a [M, K] times b [N, K] transposed, both scaled, plus bias.

    On the CPU, and for results that hold more than bf16 does, in fp32; elsewhere the operands are rounded to bf16.
    """
    compute = operand_dtype(a, out_dtype)
    return linear(dequantize(a, scale_a, compute), dequantize(b, scale_b, compute), bias, out_dtype)


def operand_dtype(a: torch.Tensor, out_dtype: torch.dtype) -> torch.dtype:
    """In what the operands of a product are multiplied: bf16 only off the CPU, for results that hold no more."""
    return torch.float32 if a.device.type == "cpu" or out_dtype != torch.bfloat16 else torch.bfloat16


def linear(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, out_dtype: torch.dtype) -> torch.Tensor:
    """a [M, K] times b [N, K] transposed, plus bias, in their dtype and rounded once to `out_dtype`."""
    return F.linear(a, b, None if bias is None else bias.to(a.dtype)).to(out_dtype)


def gemm_grouped(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    ends: torch.Tensor | None,
    rows: torch.Tensor | None,
    bias: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """One product a group. Rows of no group are zero. The ends or counts are read back to the host."""
    groups, N = b.shape[0], b.shape[1]
    out = a.new_zeros((*a.shape[:-1], N), dtype=out_dtype)
    limits = [int(value) for value in (rows if ends is None else ends).reshape(-1).tolist()]  # type: ignore[union-attr]
    first = 0
    for group in range(groups):
        own = None if bias is None else bias[group]
        last = max(0, min(limits[group], a.shape[-2]))
        if ends is not None:
            part = slice(first, max(first, last))
            first = part.stop
            x, x_scale, target = a[part], _rows_of(scale_a, part), out[part]
        else:
            x, target = a[group, :last], out[group, :last]
            x_scale = scale_a if scale_a.numel() == 1 else scale_a[group, :last]
        if x.shape[0]:
            target.copy_(gemm(x, b[group], x_scale, _of_group(scale_b, group), own, out_dtype))
    return out


def _scales(values: torch.Tensor, granularity: int, limit: float) -> torch.Tensor:
    M, K = values.shape
    finite = torch.where(values.isfinite(), values.abs(), 0.0)
    if granularity == TENSOR:
        amax = finite.amax() if finite.numel() else values.new_zeros(())
    elif granularity == ROW:
        amax = finite.amax(dim=1, keepdim=True)
    else:
        height = 1 if granularity == BLOCK_1X128 else BLOCK
        padded = F.pad(finite, (0, -K % BLOCK, 0, -M % height))
        amax = padded.view(padded.shape[0] // height, height, blocks(K), BLOCK).amax(dim=(1, 3))
    # Not `amax / limit`: on CUDA that is a product with the rounded reciprocal.
    scale = (amax / torch.full((), limit, device=amax.device)).clamp_min(torch.finfo(torch.float32).tiny)
    return torch.where(amax == 0, torch.ones_like(scale), scale)


def _rows_of(scale: torch.Tensor, part: slice) -> torch.Tensor:
    return scale if scale.numel() == 1 else scale[part]


def _of_group(scale: torch.Tensor, group: int) -> torch.Tensor:
    return scale if scale.numel() == 1 else scale[group]
