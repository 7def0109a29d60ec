"""quantize_nvfp4, dequantize_nvfp4 and gemm_nvfp4: both operands in e2m1 with e4m3 scales per 16 along K."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from . import _checks_fp8, _ops, formats, reference_nvfp4
from ._straight_through import product

_gemm_op = torch.ops.tilewright.gemm_nvfp4.default
_quantize_op = torch.ops.tilewright.quantize_nvfp4.default
assert _ops.NATIVE is not None  # importing _ops is what registers the ops above


@dataclass(frozen=True)
class NVFP4Tensor:
    """A matrix [rows, K] in NVFP4.

    codes: uint8 [rows, K / 2], the even k in the low nibble. scales: e4m3 as uint8, one per 16 along K, in the order
    that block-scaled tensor cores read, padded to 128 rows by 4 scales. global_scale: fp32, multiplies every value.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    global_scale: torch.Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, K)."""
        return self.codes.shape[0], 2 * self.codes.shape[1]


def quantize_nvfp4(x: torch.Tensor, *, global_scale: torch.Tensor | None = None) -> NVFP4Tensor:
    """Quantises x [..., K] (float16, bfloat16 or float32), its leading dimensions flattened; K a multiple of 16.

    The global scale, unless given, takes the greatest finite magnitude of x to the greatest scale, 448 times 6. Scales
    and codes are rounded to nearest even and saturate. A group of zeros has the scale zero; one that holds NaN or an
    infinity has the scale NaN and dequantises to NaN.
    """
    _checks_fp8.check_rows("x", x)
    return NVFP4Tensor(*_quantize_op(x.reshape(-1, x.shape[-1]), global_scale))


def dequantize_nvfp4(x: NVFP4Tensor, *, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The values [rows, K] in `dtype`, rounded once. ValueError for parts that do not fit together."""
    formats.dtype_code(dtype)
    _checks_fp8.check_nvfp4(x.codes, x.scales, x.global_scale)
    return reference_nvfp4.dequantize(x.codes, x.scales, x.global_scale, dtype)


def gemm_nvfp4(
    a: NVFP4Tensor,
    b: NVFP4Tensor,
    bias: torch.Tensor | None = None,
    *,
    out_dtype: torch.dtype = torch.bfloat16,
    static_weights: bool = False,
) -> torch.Tensor:
    """a [M, K] times b [N, K] transposed, plus bias [N], accumulated in fp32; [M, N] in `out_dtype`.

    RuntimeError names the argument that does not fit, before anything is launched. static_weights: True says that
    nothing in flight on this stream writes to b; no kernel of today makes use of it.
    """
    parts = (a.codes, b.codes, a.scales, b.scales, a.global_scale, b.global_scale)
    result: torch.Tensor = _gemm_op(*parts, bias, formats.dtype_code(out_dtype, "out_dtype"), static_weights)
    return result


def run_linear(
    x: torch.Tensor,
    bias: torch.Tensor | None,
    codes: torch.Tensor,
    scales: torch.Tensor,
    global_scale: torch.Tensor,
    input_global: torch.Tensor | None,
    static_weights: bool,
) -> torch.Tensor:
    """Quantises x [..., K] and multiplies."""
    weight = NVFP4Tensor(codes, scales, global_scale)
    rows = quantize_nvfp4(x, global_scale=input_global)
    out = gemm_nvfp4(rows, weight, bias, out_dtype=x.dtype, static_weights=static_weights)
    return out.view(*x.shape[:-1], codes.shape[0])


def linear_nvfp4(
    x: torch.Tensor,
    weight: NVFP4Tensor,
    bias: torch.Tensor | None,
    input_global: torch.Tensor | None,
    static_weights: bool,
) -> torch.Tensor:
    """What LinearNVFP4 computes: casts under autocast, quantises x, multiplies; gradients flow to x and bias."""
    parts = (weight.codes, weight.scales, weight.global_scale)
    return product(run_linear, reference_nvfp4.dequantize, x, bias, parts, (input_global, static_weights))
