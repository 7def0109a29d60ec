"""The quantised layers as dense ones."""

from __future__ import annotations

import torch

from .fp8 import dequantize_fp8
from .gemm import dequantize_4bit
from .linear import Linear4bit
from .linear_fp8 import LinearFP8, LinearNVFP4

Quantised = Linear4bit | LinearFP8 | LinearNVFP4
QUANTISED = (Linear4bit, LinearFP8, LinearNVFP4)


def dense_weight(layer: Quantised, dtype: torch.dtype) -> torch.Tensor:
    """The weight [out_features, in_features] as it is multiplied, rounded once to `dtype`."""
    if isinstance(layer, LinearFP8):
        return dequantize_fp8(layer.weight, layer.weight_scale).to(dtype)
    if isinstance(layer, LinearNVFP4):
        return layer.dequantized(dtype)
    return dequantize_4bit(layer.weight, layer.state, dtype=dtype)


def dense_linear(layer: Quantised, dtype: torch.dtype) -> torch.nn.Linear:
    """A torch.nn.Linear in `dtype` with the weight of `layer` and its bias; neither is trained."""
    dense = torch.nn.Linear(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
    dense.weight = torch.nn.Parameter(dense_weight(layer, dtype), requires_grad=False)
    if layer.bias is not None:
        dense.bias = torch.nn.Parameter(layer.bias.detach().to(dtype), requires_grad=False)
    return dense
