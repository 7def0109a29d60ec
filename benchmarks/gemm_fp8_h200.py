"""gemm_fp8 beside torch._scaled_mm (cuBLASLt), in one run, interleaved, on a Hopper GPU.

    python benchmarks/gemm_fp8_h200.py --out result.json [--quick] [--scaling row]
    python benchmarks/gemm_fp8_h200.py --out result.json --grouped [--quick]

Weights rotate through more memory than the L2 holds; samples are taken as in gemm_4bit_h200.py. cuBLASLt runs with fast
accumulation under scales per tensor and row, as gemm_fp8 does with `fast_accum`; `accurate` is gemm_fp8 without it.
gemm_fp8 is told that its weights are static, as LinearFP8 does outside of training. Quantisation of the activations is
in no time. Needs torch with a GPU and the tilewright package with a native library.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fp8_grouped
import torch
from gemm_4bit_h200 import facts, geomean, time_peers

import tilewright

SHAPES = [
    (4096, 4096),
    (8192, 8192),
    (16384, 16384),
    (7168, 2048),
    (4096, 7168),
    (7168, 16384),
    (24576, 1536),
    (32768, 512),
]
ROWS = [1, 16, 64, 128, 512, 1024, 4096, 8192]
ROTATED_BYTES = 200e6
READ_BYTES_PER_US = 4.43e6
FLOPS_PER_US = 1540e6
GRANULARITY = {"tensor": ("tensor", "tensor"), "row": ("row", "row"), "block": ("block", "block128x128")}
BANDS = (("M<=16", 1, 16), ("M 64-128", 17, 128), ("M>=512", 129, 1 << 30))
Call = Callable[[int], torch.Tensor]


class Weights:
    """Enough copies of one FP8 weight that a replay never meets a warm one."""

    def __init__(self, N: int, K: int, scaling: str) -> None:
        self.N, self.K, self.scaling = N, K, scaling
        dense = torch.randn(N, K, device="cuda", dtype=torch.bfloat16) / math.sqrt(K)
        codes, self.scale = tilewright.quantize_fp8(dense, GRANULARITY[scaling][1])
        count = max(2, min(48, math.ceil(ROTATED_BYTES / (N * K))))
        self.copies = [codes.clone() for _ in range(count)]


def peers(weights: Weights, a: torch.Tensor, scale: torch.Tensor) -> dict[str, Call]:
    """Calls by name; each takes the index of the call, which picks the copy."""
    copies = weights.copies
    gemm = torch.ops.tilewright.gemm_fp8.default

    def ours(fast: bool) -> Call:
        return lambda i: gemm(a, copies[i % len(copies)], scale, weights.scale, None, 1, fast, static_weights=True)

    found: dict[str, Call] = {"accurate": ours(False)}
    if weights.scaling != "block":
        found["fast"] = ours(True)
    scale_b = weights.scale.t() if weights.scale.dim() else weights.scale
    fast = weights.scaling != "block"

    def scaled_mm(i: int) -> torch.Tensor:
        b = copies[i % len(copies)].t()
        return torch._scaled_mm(a, b, scale, scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)

    try:
        scaled_mm(0)
    except RuntimeError:
        return found  # cuBLASLt has no kernel for it, such as one row under block scales
    found["scaled_mm"] = scaled_mm
    return found


def error(weights: Weights, a: torch.Tensor, scale: torch.Tensor, call: Call) -> float:
    """Root mean square error over that of the fp64 product of the same operands; few rows and columns."""
    rows, columns = min(32, a.shape[0]), min(512, weights.N)
    whole_a = tilewright.dequantize_fp8(a, scale)[:rows].double()
    whole_b = tilewright.dequantize_fp8(weights.copies[0], weights.scale)[:columns].double()
    wanted = whole_a @ whole_b.T
    poison = torch.full((a.shape[0], weights.N), float("nan"), device="cuda", dtype=torch.bfloat16)
    del poison
    found = call(0)[:rows, :columns].double()
    return float((found - wanted).norm() / wanted.norm())


def floor_us(M: int, N: int, K: int) -> float:
    """Time to move the operands and the output, or to multiply, whichever is longer."""
    return max((N * K + M * K + 2 * M * N) / READ_BYTES_PER_US, 2 * M * N * K / FLOPS_PER_US)


def cell(weights: Weights, M: int, rounds: int) -> dict[str, Any]:
    """Times and errors of one problem."""
    x = torch.randn(M, weights.K, device="cuda", dtype=torch.bfloat16)
    a, scale = tilewright.quantize_fp8(x, GRANULARITY[weights.scaling][0])
    calls = peers(weights, a, scale)
    errors, tiles = {}, {}
    for name, call in calls.items():
        errors[name] = round(error(weights, a, scale, call), 6)
        decision = tilewright.last_decision()
        if name != "scaled_mm" and decision is not None:
            tiles[name] = decision.tile or decision.path
    samples = time_peers(calls, rounds if M < 2048 else max(5, rounds // 3))
    us = {name: round(statistics.median(times), 3) for name, times in samples.items()}
    problem = {"scaling": weights.scaling, "N": weights.N, "K": weights.K, "M": M}
    found = problem | {
        "us": us,
        "error": errors,
        "tiles": tiles,
        "floor_us": round(floor_us(M, weights.N, weights.K), 3),
    }
    print(found, flush=True)
    return found


def summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """How many times as fast as scaled_mm, by scaling, peer and range of M."""
    result: dict[str, Any] = {}
    for scaling in GRANULARITY:
        for peer in ("accurate", "fast"):
            for label, low, high in BANDS:
                ratios = [
                    c["us"]["scaled_mm"] / c["us"][peer]
                    for c in cells
                    if c["scaling"] == scaling and low <= c["M"] <= high and {peer, "scaled_mm"} <= c["us"].keys()
                ]
                if ratios:
                    worst = round(min(ratios), 3)
                    result[f"{scaling} {peer} {label}"] = {"geomean": round(geomean(ratios), 3), "worst": worst}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="three shapes and five sizes of M")
    parser.add_argument("--scaling", action="append", choices=list(GRANULARITY))
    parser.add_argument("--grouped", action="store_true", help="mixtures of experts instead, beside torch per group")
    options = parser.parse_args()
    torch.manual_seed(1)
    if options.grouped:
        grouped = fp8_grouped.cells(options.rounds, options.quick)
        if options.out:
            found = {"schema": "gemm_fp8_grouped_h200/1", "facts": facts(), "cells": grouped}
            options.out.write_text(json.dumps(found) + "\n")
        return
    shapes, rows = (SHAPES[:1] + SHAPES[4:6], [1, 16, 128, 512, 4096]) if options.quick else (SHAPES, ROWS)
    cells = []
    for scaling in options.scaling or list(GRANULARITY):
        for N, K in shapes:
            weights = Weights(N, K, scaling)
            cells += [cell(weights, M, options.rounds) for M in rows]
            del weights
            torch.cuda.empty_cache()
    result = {"schema": "gemm_fp8_h200/1", "facts": facts(), "summary": summary(cells), "cells": cells}
    print(json.dumps(result["summary"], indent=1))
    if options.out:
        options.out.write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
