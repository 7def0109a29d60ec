"""Random calls of gemm_4bit on a GPU against fp32 products, outputs poisoned, every decision left to the rules.

    python benchmarks/gpu_fuzz.py --calls 20000 --out result.json

Shapes, strides, offsets, dtypes, formats, layouts and bias are drawn at random, sizes mostly near multiples of 16 and
64. A call either answers within the error limit of its dtype and writes every element, or raises before anything is
launched. A sticky CUDA error ends the run with its problem printed.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import time
from pathlib import Path
from typing import Any

import torch

import tilewright
from tilewright import reference

LIMITS = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float32: 1e-5}
QUANT = {"nf4": 0, "fp4": 1, "e2m1": 2}


class Weights:
    """A pool of packed weights with their fp32 values, so that quantising does not dominate the run."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self.pool = [self._make(rng) for _ in range(count)]

    def _make(self, rng: random.Random) -> dict[str, Any]:
        quant = rng.choice(list(QUANT))
        blocksize = 16 if quant == "e2m1" else rng.choice([32, 64, 64, 128, 256, 512, 1024, 2048, 4096])
        n = max(1, rng.choice([1, 7, 16, 64, 127, 128, 192, 257, 512, 1000, 1536, 4096]) + rng.randint(-3, 3))
        k = blocksize * rng.randint(1, max(1, rng.choice([512, 2048, 4096, 9216]) // blocksize))
        if rng.random() < 0.5:
            n = -(-n // 16) * 16
        weight = torch.randn(n, k, device="cuda") / k**0.5
        nested = quant != "e2m1" and rng.random() < 0.3
        packed, state = tilewright.quantize_4bit(weight, quant_type=quant, blocksize=blocksize, nested=nested)
        exact = _exact(packed, state)
        prepacked = tilewright.can_prepack(n, k) and rng.random() < 0.6
        if prepacked:
            packed = tilewright.prepack(packed, n, k)
        return {"packed": packed, "state": state, "exact": exact, "n": n, "k": k, "prepacked": prepacked}


def _exact(packed: torch.Tensor, state: tilewright.QuantState) -> torch.Tensor:
    """The fp32 weight, by plain torch."""
    nested = None
    if state.nested_absmax is not None:
        assert state.nested_code is not None
        nested = (state.nested_absmax.reshape(-1), state.nested_code)
    code = QUANT[state.quant_type]
    return reference.dequantize(
        packed, state.absmax, state.shape, state.blocksize, code, torch.float32, nested, state.offset
    )


def activations(rng: random.Random, k: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows with random stride, offset and leading dimensions."""
    m = max(0, rng.choice([0, 1, 1, 2, 4, 8, 16, 17, 32, 64, 65, 128, 256, 300, 512]) + rng.randint(-1, 1))
    kind = rng.random()
    if kind < 0.6:
        return torch.randn(m, k, device="cuda", dtype=dtype)
    if kind < 0.75:
        return torch.randn(m, k + rng.randint(1, 24), device="cuda", dtype=dtype)[:, :k]
    if kind < 0.9:
        offset = rng.randint(1, 9)
        return torch.randn(m * k + offset, device="cuda", dtype=dtype)[offset:].view(m, k)
    return torch.randn(2, m, k, device="cuda", dtype=dtype).transpose(0, 1)


def one_call(rng: random.Random, entry: dict[str, Any]) -> tuple[str, float]:
    """Which tile answered, and the error over the limit."""
    dtype = rng.choice(list(LIMITS))
    x = activations(rng, entry["k"], dtype)
    bias = torch.randn(entry["n"], device="cuda", dtype=dtype) if rng.random() < 0.5 else None
    torch.full((*x.shape[:-1], entry["n"]), float("nan"), device="cuda", dtype=dtype)
    got = tilewright.gemm_4bit(x, entry["packed"], entry["state"], bias)
    assert got.shape == (*x.shape[:-1], entry["n"])
    if got.numel() == 0:
        return "empty", 0.0
    expected = x.float() @ entry["exact"].T
    # Terms may cancel in a lone output; what rounding can do to it is set by the size of the terms.
    terms = x.float().norm(dim=-1, keepdim=True) * entry["exact"].norm(dim=-1)
    scale = max(float(expected.norm()), 0.5 * float(terms.norm()))
    if bias is not None:
        expected += bias.float()
    error = float((got.float() - expected).norm()) / max(scale, float(expected.norm()))
    decision = tilewright.last_decision()
    assert decision is not None
    layout = ", prepacked" if entry["prepacked"] else ""
    return (decision.tile or decision.path) + layout, error / LIMITS[dtype]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--weights", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    weights = Weights(rng, options.weights)
    tiles: collections.Counter[str] = collections.Counter()
    worst, failures, started, done = 0.0, [], time.monotonic(), 0
    while done < options.calls and time.monotonic() - started < options.seconds:
        entry = rng.choice(weights.pool)
        tile, ratio = one_call(rng, entry)
        tiles[tile] += 1
        done += 1
        worst = max(worst, ratio)
        if not ratio <= 1.0:
            failures.append({"tile": tile, "n": entry["n"], "k": entry["k"], "ratio": ratio, "call": done})
    torch.cuda.synchronize()
    result: dict[str, Any] = {
        "schema": "gpu_fuzz/1",
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    result |= {"seed": options.seed, "calls": done, "worst_over_limit": round(worst, 3)}
    result |= {"failures": failures[:20], "failed": len(failures), "tiles": dict(tiles.most_common())}
    print(json.dumps(result))
    if options.out:
        options.out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
