"""How often the rules choose a launch that is slower than another one, on a grid that no rule was made from.

    python benchmarks/mispick.py --out result.json --seconds 60

Every tile that can run a cell competes by force with what the rules choose: a short screening of all, then the nearest
rivals and the choice again, interleaved. A cell counts as a mispick when the best rival is more than 3 % faster in the
second measurement. Weights are cold, times are replays of CUDA graphs, every result is compared with fp32 first.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import tilewright
from tilewright import _ops
from tilewright_codegen.calibrate.bench import fault
from tilewright_codegen.calibrate.cuda import CudaBackend, CudaBench, SentinelError
from tilewright_codegen.calibrate.records import FALLBACK_FORCE, Cell, Method

# Weights [N, K] of models that are not among those of `tilewright calibrate`.
SHAPES = (
    (4096, 2048), (9728, 2560), (2560, 9728), (3584, 14_336), (14_336, 3584), (5120, 25_600), (6400, 1600),
    (7168, 2048), (12_288, 4096), (27_648, 5120), (2304, 9216), (16_384, 2048),
)  # fmt: skip
ROWS = (1, 2, 4, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640, 768, 1280, 1536)
LIMIT = 0.03
RIVALS = 4
SCREEN, FINAL = 4, 21


def choose(bench: CudaBench) -> str:
    """What the rules choose."""
    bench._call(0)
    decision = tilewright.last_decision()
    assert decision is not None
    return decision.tile or decision.path


def legal(bench: CudaBench, method: Method, names: list[str]) -> tuple[list[str], dict[str, str]]:
    """Tiles that answer, and answer rightly; and those that answer wrongly."""
    found, wrong = [], {}
    for name in names:
        try:
            reason = fault(bench.check(name), method.nrmse_limit)
        except SentinelError as error:
            reason = str(error)
        except (RuntimeError, ValueError) as error:
            if "CUDA error" in str(error):
                raise
            continue  # refused: it cannot run this cell
        if reason is None:
            found.append(name)
        else:
            wrong[name] = reason
    return found, wrong


def rounds(bench: CudaBench, names: list[str], count: int) -> dict[str, list[float]]:
    """Times by name, interleaved, odd rounds backwards, after one round that does not count."""
    series: dict[str, list[float]] = {name: [] for name in names}
    for number in range(count + 1):
        for name in reversed(names) if number % 2 else names:
            taken = bench.time(name)
            if number:
                series[name].append(taken)
    return series


def one_cell(backend: CudaBackend, cell: Cell, method: Method, names: list[str]) -> dict[str, Any]:
    """The choice, the best of all, and how much slower the choice is."""
    bench = backend.open(cell, method, "rotated")
    try:
        chosen = choose(bench)
        found, wrong = legal(bench, method, names)
        assert chosen in found, (chosen, wrong)
        screened = {n: min(t) for n, t in rounds(bench, found, SCREEN).items()}
        near = sorted((n for n in found if n != chosen), key=screened.__getitem__)[:RIVALS]
        final = rounds(bench, [chosen, *near], FINAL)
        base = final[chosen]
        ratios = {n: statistics.median(b / o for b, o in zip(base, final[n], strict=True)) for n in near}
    finally:
        bench.close()
    best = max(ratios, key=ratios.__getitem__, default=chosen)
    gain = max(1.0, ratios.get(best, 1.0))
    return {
        "M": cell.M, "N": cell.N, "K": cell.K, "dtype": cell.dtype, "words": cell.words,
        "chosen": chosen, "us": round(statistics.median(base), 3), "best": best if gain > 1 else chosen,
        "regret": round(gain - 1, 4), "tried": len(found), "wrong": wrong,
    }  # fmt: skip


WORDS = {
    "gemm_4bit": ({"quant_type": "nf4"},),
    "gemm_fp8": ({"scaling": "row"}, {"scaling": "block"}),
}
"""Further inputs of the cells of a family."""


def grid(family: str, num_sms: int, arch: str, seed: int, most: int) -> list[Cell]:
    """Cells in the order of their weights; a seeded sample of so many."""
    cells = [
        Cell(arch=arch, num_sms=num_sms, dtype="bf16", M=M, N=N, K=K, words=words)
        for N, K in SHAPES
        for words in WORDS[family]
        for M in ROWS
    ]
    picked = sorted(random.Random(seed).sample(range(len(cells)), min(most, len(cells))))
    return [cells[i] for i in picked]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Share of mispicks and geometric mean of the regret."""
    logs = [math.log1p(row["regret"]) for row in rows]
    wrong = [row for row in rows if row["regret"] > LIMIT]
    return {
        "cells": len(rows),
        "mispicked": len(wrong),
        "mispick_rate": round(len(wrong) / max(1, len(rows)), 4),
        "regret_geomean": round(math.expm1(sum(logs) / max(1, len(logs))), 5),
    }


def main() -> None:
    """Measures the grid, or as much of it as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=sorted(WORDS), default="gemm_4bit")
    parser.add_argument("--cells", type=int, default=len(SHAPES) * len(ROWS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--replay-us", type=int, default=150)
    parser.add_argument("--tuned", type=Path, help="a table to load first")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    backend, started = CudaBackend(0, options.family), time.monotonic()
    if options.tuned:
        tilewright.load_tuned(options.tuned)
    device, method = backend.device(), Method(replay_us=options.replay_us)
    names = [*_ops.NATIVE.tile_names(options.family), FALLBACK_FORCE]
    rows: list[dict[str, Any]] = []
    cells = grid(options.family, device.num_sms, device.arch, options.seed, options.cells)
    # Weight by weight: where the time ends early, whole weights are missing.
    for cell in cells:
        if time.monotonic() - started > options.seconds:
            break
        rows.append(one_cell(backend, cell, method, names))
    facts = device.model_dump() | {"uuid": None, "state": backend.watch.state().model_dump()}
    result = {
        "schema": "mispick/1",
        "family": options.family,
        "device": facts,
        "tuned": bool(options.tuned),
        "planned": len(cells),
    }
    result |= summary(rows)
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = json.dumps(result)[:-1] + f', "rows": [\n{lines}\n]}}\n'
    if options.out:
        options.out.write_text(text, "utf-8")
    print(json.dumps(summary(rows)))
    for row in sorted(rows, key=lambda r: -r["regret"])[:15]:
        print(row["M"], row["N"], row["K"], row["chosen"], "->", row["best"], row["regret"])
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
