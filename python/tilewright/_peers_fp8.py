"""What `bench` times for gemm_fp8 and gemm_nvfp4: torch._scaled_mm on the same codes, dense cuBLAS, a whole layer."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from ._peers import Call, Contest, copies
from .fp8 import dequantize_fp8, gemm_fp8, quantize_fp8
from .linear_fp8 import WEIGHT_GRANULARITY, LinearFP8, LinearNVFP4
from .nvfp4 import NVFP4Tensor, dequantize_nvfp4, gemm_nvfp4, quantize_nvfp4


def _dense(N: int, K: int, dtype: torch.dtype, device: torch.device, rotated_bytes: float) -> list[torch.Tensor]:
    scale = math.sqrt(K)
    return [torch.randn(N, K, device=device, dtype=dtype) / scale for _ in range(copies(rotated_bytes, 2 * N * K))]


class WeightsFp8(Contest):
    """A weight in e4m3. "fast" adds up in the tensor core, as torch does except under blocks; "layer" quantises x."""

    def __init__(
        self, N: int, K: int, scaling: str, dtype: torch.dtype, device: torch.device, rotated_bytes: float
    ) -> None:
        self.N, self.K, self.scaling, self.dtype = N, K, scaling, dtype
        self.names = ("tilewright", *(() if scaling == "block" else ("fast",)), "layer", "scaled_mm", "dense")
        self.dense = _dense(N, K, dtype, device, rotated_bytes)
        granularity = WEIGHT_GRANULARITY[scaling]
        made = [quantize_fp8(self.dense[i % len(self.dense)], granularity) for i in range(copies(rotated_bytes, N * K))]
        self.codes, self.scales = [codes for codes, _ in made], [scale for _, scale in made]
        self.layers = [LinearFP8(*pair, scaling=scaling).eval() for pair in made]

    def make(self, name: str, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
        if name == "dense":
            return (lambda i: F.linear(x, self.dense[i % len(self.dense)])), x.float() @ self.dense[0].float().T
        a, scale = quantize_fp8(x, self.scaling)
        exact = dequantize_fp8(a, scale) @ dequantize_fp8(self.codes[0], self.scales[0]).T
        if name == "layer":
            return (lambda i: self.layers[i % len(self.layers)](x)), exact
        if name == "scaled_mm":
            return self._scaled_mm(a, scale), exact
        fast = name == "fast"

        def call(i: int) -> torch.Tensor:
            copy = i % len(self.codes)
            b, scale_b = self.codes[copy], self.scales[copy]
            return gemm_fp8(a, b, scale, scale_b, out_dtype=self.dtype, fast_accum=fast, static_weights=True)

        return call, exact

    def _scaled_mm(self, a: torch.Tensor, scale: torch.Tensor) -> Call:
        fast = self.scaling != "block"
        scales = [scale.t() if scale.dim() else scale for scale in self.scales]

        def call(i: int) -> torch.Tensor:
            copy = i % len(self.codes)
            b = self.codes[copy].t()
            result: torch.Tensor = torch._scaled_mm(
                a, b, scale, scales[copy], out_dtype=self.dtype, use_fast_accum=fast
            )
            return result

        return call


class WeightsNvfp4(Contest):
    """A weight in NVFP4. "layer" quantises x as well; torch's product leaves the two global scales out."""

    names = ("tilewright", "layer", "scaled_mm", "dense")

    def __init__(self, N: int, K: int, dtype: torch.dtype, device: torch.device, rotated_bytes: float) -> None:
        self.N, self.K, self.dtype = N, K, dtype
        self.dense = _dense(N, K, dtype, device, rotated_bytes)
        count = copies(rotated_bytes, 0.5625 * N * K)
        self.weights = [quantize_nvfp4(self.dense[i % len(self.dense)]) for i in range(count)]
        self.layers = [LinearNVFP4(weight).eval() for weight in self.weights]

    def make(self, name: str, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
        weights = self.weights
        if name == "dense":
            return (lambda i: F.linear(x, self.dense[i % len(self.dense)])), x.float() @ self.dense[0].float().T
        a = quantize_nvfp4(x)
        exact = dequantize_nvfp4(a) @ dequantize_nvfp4(weights[0]).T
        if name == "layer":
            return (lambda i: self.layers[i % len(weights)](x)), exact
        if name == "scaled_mm":
            return self._scaled_mm(a), exact / (a.global_scale * weights[0].global_scale)
        return (lambda i: gemm_nvfp4(a, weights[i % len(weights)], out_dtype=self.dtype, static_weights=True)), exact

    def _scaled_mm(self, a: NVFP4Tensor) -> Call:
        e2m1, e4m3 = torch.float4_e2m1fn_x2, torch.float8_e4m3fn
        left, left_scale = a.codes.view(e2m1), a.scales.view(e4m3)
        right = [(weight.codes.view(e2m1).t(), weight.scales.view(e4m3)) for weight in self.weights]

        def call(i: int) -> torch.Tensor:
            codes, scales = right[i % len(right)]
            result: torch.Tensor = torch._scaled_mm(left, codes, left_scale, scales, out_dtype=self.dtype)
            return result

        return call
