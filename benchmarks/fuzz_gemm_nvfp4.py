"""Random calls of gemm_nvfp4 and quantize_nvfp4."""

from __future__ import annotations

import random

import bounds
import fuzz_pool
import torch
from fuzz_gemm_4bit import refusal, route
from fuzz_pool import DTYPES, Outcome, Poison

import tilewright
from tilewright import NVFP4Tensor, reference_nvfp4

DEPTHS = [16, 48, 64, 208, 256, 512, 1024, 2048, 4096]


class GemmNvfp4:
    """gemm_nvfp4 against fp32 products; where no kernel answers, the bytes of plain torch on the same device."""

    def __init__(self, rng: random.Random, device: torch.device, weights: int) -> None:
        self.device = device
        self.poison = Poison(device)
        self.first = {K: [self._make(rng, fuzz_pool.row_count(rng), K) for _ in range(9)] for K in DEPTHS}
        sizes = [1, 16, 64, 127, 128, 257, 512, 1536]
        self.second = {K: [self._make(rng, fuzz_pool.near(rng, sizes), K) for _ in range(6)] for K in DEPTHS}

    def _make(self, rng: random.Random, rows: int, K: int) -> tuple[NVFP4Tensor, torch.Tensor]:
        x = torch.randn(rows, K, device=self.device)
        x *= torch.exp2(torch.randint(-3, 4, (rows, 1), device=self.device).float()) / K**0.25
        if rows == 0:
            made = NVFP4Tensor(
                x.new_empty((0, K // 2), dtype=torch.uint8), x.new_empty(0, dtype=torch.uint8), x.sum() + 1
            )
            return made, x
        made = tilewright.quantize_nvfp4(x)
        exact = tilewright.dequantize_nvfp4(made)
        codes, kind = made.codes, rng.random()
        if kind < 0.1:
            wide = codes.new_zeros((rows, K // 2 + 16))
            wide[:, : K // 2] = codes
            codes = wide[:, : K // 2]
        elif kind < 0.2:
            codes = codes.t().contiguous().t()
        scales = made.scales.view(torch.float8_e4m3fn) if rng.random() < 0.3 else made.scales
        return NVFP4Tensor(fuzz_pool.crooked(rng, codes), scales, made.global_scale), exact

    def call(self, rng: random.Random) -> Outcome:
        """One call."""
        K, dtype = rng.choice(DEPTHS), rng.choice(DTYPES)
        (a, first), (b, second) = rng.choice(self.first[K]), rng.choice(self.second[K])
        M, N = a.shape[0], b.shape[0]
        bias = torch.randn(N, device=self.device).to(dtype) if rng.random() < 0.5 else None
        about = f"M={M} N={N} K={K} a {a.codes.stride()} b {b.codes.stride()} {dtype} bias={bias is not None}"
        if rng.random() < 0.02:
            short = NVFP4Tensor(b.codes, b.scales[:-1], b.global_scale)
            return refusal(lambda: tilewright.gemm_nvfp4(a, short, bias), about)
        ahead = fuzz_pool.Ahead(rng, b.global_scale, b.scales, b.codes)
        self.poison.spread(((M, N), dtype))
        offset, scales, codes = ahead.write()
        weight = NVFP4Tensor(codes, scales, offset)
        got = tilewright.gemm_nvfp4(a, weight, bias, out_dtype=dtype, static_weights=ahead.static)
        self.poison.look(got)
        assert got.shape == (M, N) and got.dtype == dtype, about
        if got.numel() == 0:
            return Outcome(None, about, ("empty",))
        answer, exact = route(), first @ second.T
        spread = first.norm(dim=1, keepdim=True) * second.norm(dim=1)
        in_bf16 = answer == "fallback" and dtype == torch.bfloat16
        unit = 2 * bounds.UNIT[torch.bfloat16] if in_bf16 else 2.0**-24
        ratio = bounds.over_limit(got, exact, spread, K, unit, bias=bias)
        if answer == "fallback" and rng.random() < 0.25:
            parts = (a.codes, b.codes, a.scales, b.scales, a.global_scale, b.global_scale, bias)
            ratio = torch.maximum(ratio, bounds.bytes_differ(got, reference_nvfp4.gemm(*parts, dtype)))
        return Outcome(ratio, about, (answer,))


class QuantizeNvfp4:
    """quantize_nvfp4: the bytes of plain torch."""

    def __init__(self, rng: random.Random, device: torch.device, weights: int) -> None:
        self.device = device
        self.poison = Poison(device)
        self.flat = fuzz_pool.wild_and_calm(rng, fuzz_pool.SIZE // 4, device)

    def call(self, rng: random.Random) -> Outcome:
        """One call."""
        dtype, kind = rng.choice(DTYPES), rng.choice(["wild", "calm"])
        rows = rng.choice([0, 1, 2, 7, 64, 127, 128, 129, 300])
        columns = 16 * rng.choice([1, 2, 3, 5, 8, 13, 64, 100, 256])
        x = fuzz_pool.view(rng, self.flat[dtype, kind], rows, columns)
        scale = None
        if rng.random() < 0.3:
            scale = torch.full((), rng.choice([0.01, 1.0, 1e-6, 2.0**-126, 1e4]), device=self.device)
        about = f"x {list(x.shape)} {x.stride()} {dtype} {kind}, global={scale is not None}"
        padded = reference_nvfp4.scale_bytes(rows, columns)
        self.poison.spread(((rows, columns // 2), torch.uint8), ((padded,), torch.uint8))
        found = tilewright.quantize_nvfp4(x, global_scale=scale)
        self.poison.look(found.codes)
        codes, scales, offset = reference_nvfp4.quantize(x, scale)
        ratio = bounds.bytes_differ(found.codes, codes) + bounds.bytes_differ(found.scales, scales)
        return Outcome(ratio + bounds.bytes_differ(found.global_scale, offset), about, (kind,))
