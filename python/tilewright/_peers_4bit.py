"""What `bench` times for gemm_4bit: dense cuBLAS, bitsandbytes, gemlite, each on the same activations."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from ._peers import Call, Contest, copies
from .gemm import dequantize_4bit, gemm_4bit, quantize_4bit
from .layout import LAYOUTS, prepack

_GEMLITE_GROUP = 64


class Weights4bit(Contest):
    """Enough copies of one weight [N, K], packed and dense, that calls in turn never meet a warm one."""

    names = ("tilewright", "dense", "bitsandbytes", "gemlite")

    def __init__(
        self, N: int, K: int, quant_type: str, dtype: torch.dtype, device: torch.device, rotated_bytes: float,
        layout: str = LAYOUTS[0],
    ) -> None:  # fmt: skip
        self.N, self.K, self.quant_type, self.dtype = N, K, quant_type, dtype
        count = copies(rotated_bytes, 0.57 * N * K)
        dense_count = copies(rotated_bytes, 2 * N * K, count)
        self.dense = [torch.randn(N, K, device=device, dtype=dtype) / math.sqrt(K) for _ in range(dense_count)]
        self.packed = [quantize_4bit(self.dense[i % dense_count], quant_type=quant_type) for i in range(count)]
        self.ours = self.packed
        if layout == "prepacked":
            self.ours = [(prepack(codes, N, K), state) for codes, state in self.packed]
        self._gemlite: list[Any] | None = None

    def make(self, name: str, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
        makers = {"tilewright": _ours, "dense": _dense, "bitsandbytes": _bitsandbytes, "gemlite": _gemlite}
        return makers[name](self, x)

    def gemlite(self) -> list[Any]:
        """int4 layers of gemlite with group 64, one scale and zero point a group; made once."""
        if self._gemlite is None:
            self._gemlite = [_gemlite_layer(weight) for weight in self.dense]
        return self._gemlite


def _ours(weights: Weights4bit, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
    ours = weights.ours
    exact = x.float() @ dequantize_4bit(*weights.packed[0]).T
    return (lambda i: gemm_4bit(x, *ours[i % len(ours)], static_weights=True)), exact


def _dense(weights: Weights4bit, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
    dense = weights.dense
    return (lambda i: F.linear(x, dense[i % len(dense)])), x.float() @ dense[0].float().T


def _bitsandbytes(weights: Weights4bit, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
    import bitsandbytes  # noqa: F401  registers the op

    if weights.quant_type == "e2m1":
        raise ValueError("it has no e2m1")
    op = torch.ops.bitsandbytes.gemm_4bit
    packed = [(codes.reshape(-1, 1), state) for codes, state in weights.packed]

    def call(i: int) -> torch.Tensor:
        codes, state = packed[i % len(packed)]
        result: torch.Tensor = op(x, codes, list(state.shape), state.absmax, state.blocksize, state.quant_type)
        return result

    return call, x.float() @ dequantize_4bit(*weights.packed[0]).T


def _gemlite(weights: Weights4bit, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
    layers = weights.gemlite()
    codes, scales, zeros = _int4(weights.dense[0])
    dense = (codes.float() - zeros.float()) * scales.float()
    return (lambda i: layers[i % len(layers)](x)), x.float() @ dense.reshape(weights.N, weights.K).T


def _gemlite_layer(weight: torch.Tensor) -> Any:
    from gemlite.core import DType, GemLiteLinearTriton

    N, K = weight.shape
    kind = DType.FP16 if weight.dtype == torch.float16 else DType.BF16
    layer = GemLiteLinearTriton(4, _GEMLITE_GROUP, K, N, input_dtype=kind, output_dtype=kind)
    codes, scales, zeros = _int4(weight)
    return layer.pack(codes.reshape(N, K), scales, zeros, None)


def _int4(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Asymmetric int4: codes uint8 [groups, 64], scales and zero points [groups, 1] in the weight's dtype."""
    rows = weight.float().reshape(-1, _GEMLITE_GROUP)
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    scales = ((high - low) / 15).to(weight.dtype)
    zeros = (-low / scales.float()).round().to(weight.dtype)
    codes = (rows / scales.float() + zeros.float()).round().clamp(0, 15).to(torch.uint8)
    return codes, scales, zeros
