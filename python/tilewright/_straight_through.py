"""Products that quantise their input: casts under autocast, and the gradient as if the input had not been rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Multiply = Callable[..., torch.Tensor]
"""(x, bias, *weight, *options) -> the product."""
Dequantize = Callable[..., torch.Tensor]
"""(*weight, dtype) -> the weight [N, K] as it is multiplied."""


def product(
    multiply: Multiply,
    dequantize: Dequantize,
    x: torch.Tensor,
    bias: torch.Tensor | None,
    weight: tuple[torch.Tensor, ...],
    options: tuple[Any, ...],
) -> torch.Tensor:
    """x times the weight, plus bias, in the dtype of x or that of autocast; gradients flow to x and bias."""
    device_type = x.device.type
    if device_type in ("cpu", "cuda") and torch.is_autocast_enabled(device_type):
        x = x.to(torch.get_autocast_dtype(device_type))
    if bias is not None and bias.dtype != x.dtype:
        bias = bias.to(x.dtype)
    if torch.is_grad_enabled() and (x.requires_grad or (bias is not None and bias.requires_grad)):
        return _Product.apply(multiply, dequantize, x, bias, options, *weight)  # type: ignore[no-any-return, no-untyped-call]
    return multiply(x, bias, *weight, *options)


class _Product(torch.autograd.Function):
    """The gradient of x is that of the product with the dequantised weight, in the dtype of the result.

    The weight is saved through save_for_backward, so that writing to it between forward and backward raises.
    """

    @staticmethod
    def forward(
        ctx: Any,
        multiply: Multiply,
        dequantize: Dequantize,
        x: torch.Tensor,
        bias: torch.Tensor | None,
        options: tuple[Any, ...],
        *weight: torch.Tensor,
    ) -> torch.Tensor:
        ctx.save_for_backward(*weight)
        ctx.dequantize = dequantize
        return multiply(x, bias, *weight, *options)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        grad_x = grad_bias = None
        if ctx.needs_input_grad[2]:
            grad_x = grad @ ctx.dequantize(*ctx.saved_tensors, grad.dtype)
        if ctx.needs_input_grad[3]:
            grad_bias = grad.reshape(-1, grad.shape[-1]).sum(0)
        return None, None, grad_x, grad_bias, None, *(None for _ in ctx.saved_tensors)
