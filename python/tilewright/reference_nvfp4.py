"""NVFP4 in plain torch: quantisation, the layout of scales, dequantisation and the product.

Codes are e2m1, two a byte, the low nibble first; every 16 along K share an e4m3 scale, and the tensor an fp32 one.
Scales stand in the order that block-scaled tensor cores read: blocks of 128 rows by 4 scales, padded with zero.
csrc_templates/include/tilewright/nvfp4/scale_layout.h is the same for kernels.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from . import formats, reference
from .reference_fp8 import linear, operand_dtype

GROUP = 16
_ATOM_ROWS, _ATOM_SCALES = 128, 4


def padded(rows: int, k: int) -> tuple[int, int]:
    """Rows and scales a row of the padded layout."""
    groups = (k + GROUP - 1) // GROUP
    return -(-rows // _ATOM_ROWS) * _ATOM_ROWS, -(-groups // _ATOM_SCALES) * _ATOM_SCALES


def scale_bytes(rows: int, k: int) -> int:
    """Length of the scales of an operand [rows, k], padding included."""
    height, width = padded(rows, k)
    return height * width


def swizzle(scales: torch.Tensor) -> torch.Tensor:
    """Scales [rows, K / 16], row by row, in the kernels' layout: one byte each, flat, the padding zero."""
    rows, groups = scales.shape
    height, width = padded(rows, groups * GROUP)
    plain = F.pad(scales.view(torch.uint8), (0, width - groups, 0, height - rows))
    atoms = plain.view(height // _ATOM_ROWS, 4, 32, width // _ATOM_SCALES, _ATOM_SCALES)
    return atoms.permute(0, 3, 2, 1, 4).reshape(-1)


def unswizzle(scales: torch.Tensor, rows: int, k: int) -> torch.Tensor:
    """The scales of an operand [rows, k] back, e4m3 [rows, k / 16]; the padding is dropped unread."""
    height, width = padded(rows, k)
    atoms = scales.reshape(-1).view(torch.uint8).view(height // _ATOM_ROWS, width // _ATOM_SCALES, 32, 4, _ATOM_SCALES)
    plain = atoms.permute(0, 3, 2, 1, 4).reshape(height, width)
    return plain[:rows, : (k + GROUP - 1) // GROUP].contiguous().view(torch.float8_e4m3fn)


def quantize(x: torch.Tensor, global_scale: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes uint8 [M, K / 2], swizzled scales, and the global scale, of x [M, K]."""
    M, K = x.shape
    codes, scales, offset = reference.quantize_e2m1(x.reshape(-1), global_scale)
    packed = (codes[0::2] | codes[1::2] << 4).view(M, K // 2)
    return packed, swizzle(scales.view(M, K // GROUP)), offset.reshape(()).clone()


def dequantize(
    packed: torch.Tensor, scales: torch.Tensor, global_scale: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """The [M, K] values in `dtype`: code times e4m3 scale, which is exact, times the global scale, rounded once."""
    M, K = packed.shape[0], packed.shape[1] * 2
    values = formats.table(formats.E2M1_VALUES, packed.device)
    pairs = torch.stack((packed & 15, packed >> 4), dim=-1).view(M, K // GROUP, GROUP)
    own = unswizzle(scales, M, K).float()
    scaled = values.index_select(0, pairs.reshape(-1).int()).view(pairs.shape) * own[..., None]
    return (scaled.view(M, K) * global_scale.reshape(())).to(dtype)


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    global_a: torch.Tensor,
    global_b: torch.Tensor,
    bias: torch.Tensor | None,
    out_dtype: torch.dtype,
) -> torch.Tensor:
    """a [M, K] times b [N, K] transposed, plus bias.

    On the CPU, and for results that hold more than bf16 does, in fp32; elsewhere the operands are rounded to bf16.
    """
    compute = operand_dtype(a, out_dtype)
    first, second = dequantize(a, scale_a, global_a, compute), dequantize(b, scale_b, global_b, compute)
    return linear(first, second, bias, out_dtype)
