"""quantize_4bit, dequantize_4bit and gemm_4bit."""

from __future__ import annotations

from typing import Any

import torch

from . import _ops, formats, reference
from .state import QuantState

_gemm_op = torch.ops.tilewright.gemm_4bit.default
_dequantize_op = torch.ops.tilewright.dequantize_4bit.default
_quantize_op = torch.ops.tilewright.quantize_4bit.default
_AUTOCAST_DEVICES = ("cpu", "cuda")
assert _ops.NATIVE is not None  # importing _ops is what registers the ops above


def quantize_4bit(
    weight: torch.Tensor, *, quant_type: str = "nf4", blocksize: int | None = None, nested: bool = False
) -> tuple[torch.Tensor, QuantState]:
    """Quantises a weight [N, K] (float16, bfloat16 or float32) to 4 bits.

    Returns the packed codes, uint8 [ceil(N * K / 2)], and the state that describes them. blocksize: 32 to 4096 for
    nf4 and fp4 (64 if None), 16 for e2m1. nested: quantise the absmax itself to 8 bits (nf4 and fp4). ValueError
    for a wrong option.
    """
    fmt = formats.get_format(quant_type)
    if weight.dim() != 2:
        raise ValueError(f"weight has {weight.dim()} dimensions; expected 2, [N, K]")
    if nested and quant_type == "e2m1":
        raise ValueError("nested=True; e2m1 scales are 8 bits already, allowed: False")
    blocksize = fmt.default_blocksize if blocksize is None else blocksize
    if blocksize not in fmt.blocksizes:
        raise ValueError(f"blocksize={blocksize}; allowed for {quant_type}: {', '.join(map(str, fmt.blocksizes))}")
    packed, scales, offset = _quantize_op(weight, blocksize, fmt.code)
    shape = (weight.shape[0], weight.shape[1])
    if nested:
        codes, nested_absmax, nested_code, mean = reference.quantize_nested(scales)
        return packed, QuantState(shape, quant_type, blocksize, codes, nested_absmax, nested_code, mean)
    return packed, QuantState(shape, quant_type, blocksize, scales, offset=offset if quant_type == "e2m1" else None)


def dequantize_4bit(packed: torch.Tensor, state: QuantState, *, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The weight [N, K] in `dtype` (float16, bfloat16 or float32), from codes in either layout."""
    N, K = state.shape
    result: torch.Tensor = _dequantize_op(
        packed,
        state.absmax,
        N,
        K,
        state.blocksize,
        state.quant_code,
        formats.dtype_code(dtype),
        state.nested_absmax,
        state.nested_code,
        state.offset,
    )
    return result


def gemm_4bit(
    x: torch.Tensor,
    packed: torch.Tensor,
    state: QuantState,
    bias: torch.Tensor | None = None,
    *,
    static_weights: bool = False,
) -> torch.Tensor:
    """x [..., K] times the quantised weight [N, K] transposed, plus bias [N]; the result is [..., N] in x's dtype.

    The codes are as `quantize_4bit` packs them, or prepacked.
    Accumulates in fp32 and rounds once. Under autocast x and bias are cast as torch.nn.functional.linear casts
    them. Gradients flow to x and bias; the weight is a constant. RuntimeError names the argument that does not fit,
    before anything is launched.

    static_weights: True says that nothing in flight on this stream writes to the codes or their scales, so that a
    kernel may read them before the kernels ahead of it are done; by default it waits.
    """
    N, K = state.shape
    return gemm_packed(
        x,
        packed,
        state.absmax,
        N,
        K,
        state.blocksize,
        state.quant_code,
        bias,
        state.nested_absmax,
        state.nested_code,
        state.offset,
        static_weights,
    )


def gemm_packed(
    x: torch.Tensor,
    packed: torch.Tensor,
    absmax: torch.Tensor,
    n: int,
    k: int,
    blocksize: int,
    quant_type: int,
    bias: torch.Tensor | None,
    nested_absmax: torch.Tensor | None,
    nested_code: torch.Tensor | None,
    offset: torch.Tensor | None,
    static_weights: bool,
) -> torch.Tensor:
    """`gemm_4bit` with the state spelled out, as the op takes it."""
    device_type = x.device.type
    if device_type in _AUTOCAST_DEVICES and torch.is_autocast_enabled(device_type):
        x = x.to(torch.get_autocast_dtype(device_type))
    if bias is not None and bias.dtype != x.dtype:
        bias = bias.to(x.dtype)
    rest = (nested_absmax, nested_code, offset, static_weights)
    if torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)):
        return _Gemm4bit.apply(x, packed, absmax, n, k, blocksize, quant_type, bias, *rest)  # type: ignore[no-any-return, no-untyped-call]
    result: torch.Tensor = _gemm_op(x, packed, absmax, n, k, blocksize, quant_type, bias, *rest)
    return result


class _Gemm4bit(torch.autograd.Function):
    """gemm_4bit with gradients for the activations and the bias.

    The packed weight is saved through save_for_backward, so that writing to it between forward and backward raises.
    The backward is made of differentiable operations: second derivatives work.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        packed: torch.Tensor,
        absmax: torch.Tensor,
        n: int,
        k: int,
        blocksize: int,
        quant_type: int,
        bias: torch.Tensor | None,
        nested_absmax: torch.Tensor | None,
        nested_code: torch.Tensor | None,
        offset: torch.Tensor | None,
        static_weights: bool,
    ) -> torch.Tensor:
        ctx.save_for_backward(packed, absmax, nested_absmax, nested_code, offset)
        ctx.weight = (n, k, blocksize, quant_type)
        rest = (nested_absmax, nested_code, offset, static_weights)
        out: torch.Tensor = _gemm_op(x, packed, absmax, n, k, blocksize, quant_type, bias, *rest)
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        grad_x = grad_bias = None
        if ctx.needs_input_grad[0]:
            packed, absmax, *nested = ctx.saved_tensors
            n, k, blocksize, quant_type = ctx.weight
            code = formats.dtype_code(grad.dtype)
            weight = _dequantize_op(packed, absmax, n, k, blocksize, quant_type, code, *nested)
            grad_x = grad @ weight
        if ctx.needs_input_grad[7]:
            grad_bias = grad.reshape(-1, grad.shape[-1]).sum(0)
        return grad_x, None, None, None, None, None, None, grad_bias, None, None, None, None
