"""gemm_4bit beside cuBLAS dense bf16 and bitsandbytes, in one run, interleaved, on a Hopper GPU.

    python benchmarks/gemm_4bit_h200.py --out result.json [--quick]

Weights are nf4, blocksize 64, and rotate through more memory than the L2 holds. A sample is one replay of a CUDA graph
of many calls, divided by their number, handed over while the card reads 256 MB, so that nothing of the host is in it;
peers take turns round by round, in reverse order on odd rounds. gemm_4bit is told that its weights are static, as
Linear4bit does outside of training. Needs torch with a GPU and the tilewright package with a native library;
bitsandbytes is left out, and said to be, when it cannot be imported.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tilewright
from tilewright._timing import Lead, time_in_turns

SHAPES = [
    (2048, 2048),
    (3072, 3072),
    (4096, 4096),
    (8960, 1536),
    (6144, 4096),
    (11008, 4096),
    (14336, 4096),
    (4096, 14336),
    (8192, 8192),
    (5120, 13824),
    (128256, 4096),
]
ROWS = [1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 512, 1024, 2048, 4096]
ROTATED_BYTES = 200e6
REPLAY_US = 400
WARMUP = 3
READ_BYTES_PER_US = 4.43e6
FLOPS_PER_US = 817e6
BLOCKSIZE = 64
E2M1_ROWS = 64  # up to how many rows e2m1 is timed


class Weights:
    """Enough copies of one packed weight, and of its dense form, that a replay never meets a warm one."""

    def __init__(self, N: int, K: int) -> None:
        self.N, self.K = N, K
        packed_bytes = N * K * (0.5 + 4 / BLOCKSIZE)
        self.copies = max(2, min(48, math.ceil(ROTATED_BYTES / packed_bytes)))
        dense_copies = max(2, min(self.copies, math.ceil(ROTATED_BYTES / (2 * N * K))))
        scale = 1 / math.sqrt(K)
        self.dense = [torch.randn(N, K, device="cuda", dtype=torch.bfloat16) * scale for _ in range(dense_copies)]
        self.packed, self.prepacked, self.absmax = [], [], []
        for index in range(self.copies):
            packed, absmax, _ = torch.ops.tilewright.quantize_4bit(self.dense[index % dense_copies], BLOCKSIZE, 0)
            self.packed.append(packed.reshape(-1, 1).clone())
            self.prepacked.append(tilewright.prepack(packed, N, K))
            self.absmax.append(absmax.clone())
        # Any codes will do for timing e2m1: its scales alone are made.
        _, scales, offset = torch.ops.tilewright.quantize_4bit(self.dense[0], 16, 2)
        self.e2m1 = [scales.clone() for _ in range(self.copies)], offset


def peers(weights: Weights, x: torch.Tensor) -> dict[str, Callable[[int], torch.Tensor]]:
    """Calls by name; each takes the index of the call, which picks the copy."""
    N, K = weights.N, weights.K

    def ours(codes: list[torch.Tensor]) -> Callable[[int], torch.Tensor]:
        return lambda i: torch.ops.tilewright.gemm_4bit(
            x, codes[i % weights.copies], weights.absmax[i % weights.copies], N, K, BLOCKSIZE, 0, static_weights=True
        )

    found: dict[str, Callable[[int], torch.Tensor]] = {
        "tilewright": ours(weights.packed),
        "tilewright prepacked": ours(weights.prepacked),
        "dense": lambda i: torch.nn.functional.linear(x, weights.dense[i % len(weights.dense)]),
    }
    if bitsandbytes_version() is not None:
        found["bitsandbytes"] = lambda i: torch.ops.bitsandbytes.gemm_4bit(
            x, weights.packed[i % weights.copies], [N, K], weights.absmax[i % weights.copies], BLOCKSIZE, "nf4"
        )
    if x.shape[0] <= E2M1_ROWS:
        scales, offset = weights.e2m1
        found["tilewright e2m1 prepacked"] = lambda i: torch.ops.tilewright.gemm_4bit(
            x,
            weights.prepacked[i % weights.copies],
            scales[i % len(scales)],
            N,
            K,
            16,
            2,
            offset=offset,
            static_weights=True,
        )
    return found


def bitsandbytes_version() -> str | None:
    """Its version if it can be imported."""
    try:
        import bitsandbytes
    except ImportError:
        return None
    return str(bitsandbytes.__version__)


def time_peers(calls: dict[str, Callable[[int], torch.Tensor]], rounds: int) -> dict[str, list[float]]:
    """Microseconds a call for every peer and round."""
    return time_in_turns(calls, Lead(torch.device("cuda")), rounds, WARMUP, REPLAY_US)


def check(weights: Weights, x: torch.Tensor) -> tuple[float, dict[str, str]]:
    """NRMSE of our results, of the worse layout, against fp32 products of the dequantised weight; tiles by layout."""
    weight = torch.ops.tilewright.dequantize_4bit(
        weights.packed[0], weights.absmax[0], weights.N, weights.K, BLOCKSIZE, 0, 2
    )
    wanted = x.float() @ weight.T
    errors, tiles = [], {}
    for codes in (weights.prepacked[0], weights.packed[0]):
        poison = torch.full((x.shape[0], weights.N), float("nan"), device="cuda", dtype=x.dtype)
        del poison
        own = (codes, weights.absmax[0], weights.N, weights.K, BLOCKSIZE, 0)
        got = torch.ops.tilewright.gemm_4bit(x, *own, static_weights=True)
        errors.append(float((got.float() - wanted).norm() / wanted.norm()))
        decision = tilewright.last_decision()
        assert decision is not None and decision.layout is not None
        tiles[decision.layout] = decision.tile or decision.path
    return max(errors), tiles


def floor_us(M: int, N: int, K: int) -> float:
    """Time to read packed weight, scales and activations and write the output, or to multiply, whichever is longer."""
    moved = N * K * (0.5 + 4 / BLOCKSIZE) + 2 * M * (N + K)
    return max(moved / READ_BYTES_PER_US, 2 * M * N * K / FLOPS_PER_US)


def run(shapes: list[tuple[int, int]], rows: list[int], rounds: int) -> list[dict[str, Any]]:
    cells = []
    for N, K in shapes:
        weights = Weights(N, K)
        for M in rows:
            x = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
            nrmse, tiles = check(weights, x)
            samples = time_peers(peers(weights, x), rounds if M < 2048 else max(5, rounds // 3))
            medians = {name: statistics.median(times) for name, times in samples.items()}
            spread = {n: round((max(t) - min(t)) / statistics.median(t), 3) for n, t in samples.items()}
            cells.append(
                {"N": N, "K": K, "M": M, "us": {n: round(v, 3) for n, v in medians.items()}, "spread": spread}
                | {
                    "floor_us": round(floor_us(M, N, K), 3),
                    "nrmse": round(nrmse, 5),
                    "tile": tiles["packed"],
                    "tile_prepacked": tiles["prepacked"],
                }
            )
            print(N, K, M, cells[-1]["us"], tiles, f"{nrmse:.4f}", flush=True)
        del weights
        torch.cuda.empty_cache()
    return cells


def geomean(values: list[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else float("nan")


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means of how many times as fast as each peer, by range of M."""
    result: dict[str, Any] = {}
    for label, low, high in (("M<=16", 1, 16), ("M 32-256", 32, 256), ("M>=512", 512, 1 << 30)):
        chosen = [c for c in cells if low <= c["M"] <= high]
        for ours in ("tilewright", "tilewright prepacked"):
            for peer in ("dense", "bitsandbytes"):
                ratios = [c["us"][peer] / c["us"][ours] for c in chosen if peer in c["us"]]
                if ratios:
                    worst = round(min(ratios), 3)
                    result[f"{label} {ours} over {peer}"] = {"geomean": round(geomean(ratios), 3), "worst": worst}
    return result


def facts() -> dict[str, Any]:
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
    smi = subprocess.run(["nvidia-smi", query, "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return {
        "device": smi.stdout.strip(),
        "torch": torch.__version__,
        "tilewright": importlib.metadata.version("tilewright") if _installed() else tilewright.__version__,
        "bitsandbytes": bitsandbytes_version(),
        "build": {k: str(v) for k, v in tilewright.build_info().items() if k not in ("library", "tiles")},
        "method": "CUDA graph replays behind a read of 256 MB, weights rotated over 200 MB and said to be static, "
        "interleaved, order reversed on odd rounds, medians",
        "clocks": "as found",
    }


def _installed() -> bool:
    try:
        importlib.metadata.version("tilewright")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="three shapes and five sizes of M")
    options = parser.parse_args()
    torch.manual_seed(1)
    shapes, rows = (SHAPES[2:4] + SHAPES[8:9], [1, 16, 64, 256, 1024]) if options.quick else (SHAPES, ROWS)
    cells = run(shapes, rows, options.rounds)
    result = {"schema": "gemm_4bit_h200/1", "facts": facts(), "summary": summary(cells), "cells": cells}
    print(json.dumps(result["summary"], indent=1))
    if options.out:
        options.out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
