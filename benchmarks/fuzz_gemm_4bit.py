"""Random calls of gemm_4bit, quantize_4bit and dequantize_4bit."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

import bounds
import fuzz_pool
import torch
from fuzz_pool import DTYPES, Outcome, Poison

import tilewright
from tilewright import reference

NORM_LIMITS = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float32: 1e-5}
QUANT = {"nf4": 0, "fp4": 1, "e2m1": 2}
BLOCKSIZES = [32, 64, 64, 128, 256, 512, 1024, 2048, 4096]


@dataclass
class Weight:
    """A packed weight with its fp32 values and the norms of its rows."""

    packed: torch.Tensor
    state: tilewright.QuantState
    exact: torch.Tensor
    norms: torch.Tensor
    prepacked: bool


def exact_weight(packed: torch.Tensor, state: tilewright.QuantState, dtype: torch.dtype) -> torch.Tensor:
    """The weight by plain torch."""
    nested = None
    if state.nested_absmax is not None:
        assert state.nested_code is not None
        nested = (state.nested_absmax.reshape(-1), state.nested_code)
    code = QUANT[state.quant_type]
    return reference.dequantize(packed, state.absmax, state.shape, state.blocksize, code, dtype, nested, state.offset)


class Gemm4bit:
    """gemm_4bit against fp32 products."""

    def __init__(self, rng: random.Random, device: torch.device, weights: int) -> None:
        self.device = device
        self.poison = Poison(device)
        self.flat = {d: torch.randn(fuzz_pool.SIZE, device=device).to(d) for d in DTYPES}
        self.pool = [self._make(rng) for _ in range(weights)]

    def _make(self, rng: random.Random) -> Weight:
        quant = rng.choice(list(QUANT))
        blocksize = 16 if quant == "e2m1" else rng.choice(BLOCKSIZES)
        N = fuzz_pool.near(rng, [1, 7, 16, 64, 127, 128, 192, 257, 512, 1000, 1536, 4096])
        K = blocksize * rng.randint(1, max(1, rng.choice([512, 2048, 4096, 9216]) // blocksize))
        dense = torch.randn(N, K, device=self.device) / K**0.5
        nested = quant != "e2m1" and rng.random() < 0.3
        packed, state = tilewright.quantize_4bit(dense, quant_type=quant, blocksize=blocksize, nested=nested)
        exact = exact_weight(packed, state, torch.float32)
        prepacked = tilewright.can_prepack(N, K) and rng.random() < 0.6
        packed = tilewright.prepack(packed, N, K) if prepacked else fuzz_pool.crooked(rng, packed)
        return Weight(packed, state, exact, exact.norm(dim=1), prepacked)

    def call(self, rng: random.Random) -> Outcome:
        """One call."""
        w = rng.choice(self.pool)
        N, K = w.state.shape
        dtype = rng.choice(DTYPES)
        x = fuzz_pool.view(rng, self.flat[dtype], fuzz_pool.row_count(rng), K)
        if rng.random() < 0.1 and x.shape[0] % 2 == 0 and x.is_contiguous():
            x = x.view(2, -1, K).transpose(0, 1)
        bias = torch.randn(N, device=self.device).to(dtype) if rng.random() < 0.5 else None
        about = f"x {list(x.shape)} {x.stride()} {dtype}, weight {w.state.quant_type} {N}x{K} b{w.state.blocksize}"
        if rng.random() < 0.02:
            return refusal(lambda: tilewright.gemm_4bit(x[..., 1:], w.packed, w.state, bias), about)
        ahead = fuzz_pool.Ahead(rng, w.state.absmax, w.packed)

        def run() -> torch.Tensor:
            absmax, packed = ahead.write()
            return tilewright.gemm_4bit(x, packed, replace(w.state, absmax=absmax), bias, static_weights=ahead.static)

        self.poison.spread(((*x.shape[:-1], N), dtype))
        got = run()
        self.poison.look(got)
        assert got.shape == (*x.shape[:-1], N) and got.dtype == dtype, about
        if got.numel() == 0:
            return Outcome(None, about, ("empty",))
        rows = x.float().reshape(-1, K)
        exact, flat = rows @ w.exact.T, got.reshape(-1, N)
        spread = rows.norm(dim=1, keepdim=True) * w.norms
        ratio = torch.maximum(
            bounds.over_limit(flat, exact, spread, K, 2 * bounds.UNIT[dtype], bias=bias),
            bounds.norm_over_limit(flat, exact, spread, K, NORM_LIMITS[dtype], bias),
        )
        if rng.random() < 0.05:
            ratio = torch.maximum(ratio, bounds.bytes_differ(got, run()))
        return Outcome(ratio, about, (route() + (", prepacked" if w.prepacked else ""),))


class Quantize4bit:
    """quantize_4bit and dequantize_4bit: the bytes of plain torch, and values within two units.

    What differs adds to the ratio: codes 2, scales 4, the offset 8, dequantised values 16.
    """

    def __init__(self, rng: random.Random, device: torch.device, weights: int) -> None:
        self.device = device
        self.poison = Poison(device)
        self.flat = fuzz_pool.wild_and_calm(rng, fuzz_pool.SIZE // 8, device)

    def call(self, rng: random.Random) -> Outcome:
        """One quantisation, and one dequantisation of its result."""
        dtype, kind = rng.choice(DTYPES), rng.choice(["wild", "calm"])
        quant = rng.choice(list(QUANT))
        blocksize = 16 if quant == "e2m1" else rng.choice(BLOCKSIZES)
        rows, columns = rng.randint(0, 70), fuzz_pool.near(rng, [16, 100, 512, 2048])
        if quant == "e2m1":
            columns = -(-columns // 16) * 16
        x = fuzz_pool.view(rng, self.flat[dtype, kind], rows, columns)
        about = f"x {list(x.shape)} {x.stride()} {dtype} {kind}, {quant} b{blocksize}"
        self.poison.spread((((rows * columns + 1) // 2,), torch.uint8))
        packed, state = tilewright.quantize_4bit(x, quant_type=quant, blocksize=blocksize)
        self.poison.look(packed)
        codes, scales, offset = reference.quantize(x, blocksize, QUANT[quant])
        compare = bounds.bytes_differ if quant == "e2m1" else bounds.values_differ
        ratio = bounds.bytes_differ(packed, codes) + 2 * compare(state.absmax, scales)
        if quant == "e2m1":
            assert state.offset is not None
            ratio = ratio + 4 * bounds.bytes_differ(state.offset, offset)
        if rows:
            out = rng.choice(DTYPES)
            exact = exact_weight(packed, state, torch.float32).to(out)
            self.poison.spread(((rows, columns), out))
            found = tilewright.dequantize_4bit(packed, state, dtype=out)
            room = 2 * bounds.UNIT[out] * exact.float().abs() + torch.finfo(out).smallest_normal * bounds.UNIT[out] * 2
            right = ((found.float() - exact.float()).abs() <= room) | (found == exact) | (found.isnan() & exact.isnan())
            ratio = ratio + 16.0 * (~right).any()
        return Outcome(ratio, about, (f"{quant}, {kind}",))


def route() -> str:
    """How the last call was answered."""
    last = tilewright.last_decision("cuda" if torch.cuda.is_available() else "cpu")
    assert last is not None
    return last.tile or last.path


def refusal(call, about: str) -> Outcome:  # type: ignore[no-untyped-def]
    """A call that must raise before anything is launched."""
    try:
        call()
    except (RuntimeError, ValueError):
        return Outcome(None, about, ("refused",))
    return Outcome(torch.full((), math.inf), "not refused: " + about, ("not refused",))
