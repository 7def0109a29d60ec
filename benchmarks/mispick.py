"""How often the rules choose a launch that is slower than another one, on a grid that no rule was made from.

    python benchmarks/mispick.py --out result.json --seconds 60

Every tile that can run a cell competes by force with what the rules choose: a short screening of all, then the nearest
rivals and the choice again, interleaved. A cell counts as a mispick when the best rival is more than 3 % faster in the
second measurement. Weights are cold, times are replays of CUDA graphs, every result is compared with fp32 first.

With `--specs NAME=FOLDER` the choices of other rules are judged on the same times, beside those of the build. With
`--times RESULT` as well nothing is measured: they are judged on the times of a result.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeAlias

import tilewright
from tilewright import _ops
from tilewright_codegen.calibrate.bench import fault
from tilewright_codegen.calibrate.cuda import CudaBackend, CudaBench, SentinelError
from tilewright_codegen.calibrate.records import FALLBACK_FORCE, Cell, Method
from tilewright_codegen.evaluate import decide
from tilewright_codegen.ir import SpecTree
from tilewright_codegen.tree import load_tree

# Weights [N, K] of models that are not among those of `tilewright calibrate`.
SHAPES = (
    (4096, 2048), (9728, 2560), (2560, 9728), (3584, 14_336), (14_336, 3584), (5120, 25_600), (6400, 1600),
    (7168, 2048), (12_288, 4096), (27_648, 5120), (2304, 9216), (16_384, 2048),
)  # fmt: skip
ROWS = (1, 2, 4, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640, 768, 1280, 1536)
LIMIT = 0.03
RIVALS, MOST_RIVALS = 4, 8
"""Launches that are timed again beside the choices, at least and at most."""
NEAR = 1.08
"""So many times slower than the best of the screening, a launch is a rival."""
SCREEN, FINAL = 4, 21
FAR = 1.5
"""A launch so many times slower than the best is not looked at again."""
SHOWN = 12
"""Fastest launches of the screening that a row keeps."""


Trees: TypeAlias = "dict[str, SpecTree]"
BUILT = "built"
"""Name of the rules that the kernels were built with."""


def choose(bench: CudaBench) -> str:
    """What the build chooses."""
    bench._call(0)
    decision = tilewright.last_decision()
    assert decision is not None
    return decision.tile or decision.path


def choices(bench: CudaBench, family: str, cell: Cell, trees: Trees) -> dict[str, str]:
    """What the build and every other tree of rules choose."""
    return {BUILT: choose(bench)} | choices_of(trees, family, cell)


def choices_of(trees: Trees, family: str, cell: Cell) -> dict[str, str]:
    """What trees of rules choose."""
    families = {name: tree.families[family] for name, tree in trees.items()}
    return {n: decide(f, cell.arch, cell.problem()).tile(f) or FALLBACK_FORCE for n, f in families.items()}


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


def screen(bench: CudaBench, names: list[str]) -> dict[str, float]:
    """Least time of each; after one round only what is not far behind is timed again."""
    once = {n: t[0] for n, t in rounds(bench, names, 1).items()}
    near = [n for n in names if once[n] <= FAR * min(once.values())]
    return once | {n: min(once[n], *t) for n, t in rounds(bench, near, SCREEN - 1).items()}


def rivals(screened: dict[str, float], picked: Collection[str]) -> list[str]:
    """What is timed again beside the choices, the nearest first."""
    others = sorted((n for n in screened if n not in picked), key=screened.__getitem__)
    near = sum(screened[n] <= NEAR * min(screened.values()) for n in others)
    return others[: min(MOST_RIVALS, max(RIVALS, near))]


def one_cell(backend: CudaBackend, cell: Cell, method: Method, names: list[str], trees: Trees) -> dict[str, Any]:
    """The choices, the best of all, and how much slower each choice is."""
    bench = backend.open(cell, method, "rotated")
    try:
        chosen = choices(bench, backend.family, cell, trees)
        found, wrong = legal(bench, method, names)
        assert set(chosen.values()) <= set(found), (chosen, wrong)
        screened = screen(bench, found)
        picked = dict.fromkeys(chosen.values())
        final = rounds(bench, [*picked, *rivals(screened, picked)], FINAL)
    finally:
        bench.close()
    regret = {}
    for name, tile in chosen.items():
        ratios = [statistics.median(b / o for b, o in zip(final[tile], t, strict=True)) for t in final.values()]
        regret[name] = round(max(1.0, *ratios) - 1, 4)
    times = {n: round(statistics.median(t), 3) for n, t in final.items()}
    return {
        "M": cell.M, "N": cell.N, "K": cell.K, "dtype": cell.dtype, "words": cell.words,
        "chosen": chosen, "us": times, "best": min(times, key=times.__getitem__), "regret": regret,
        "screened": {n: round(screened[n], 2) for n in sorted(found, key=screened.__getitem__)[:SHOWN]},
        "tried": len(found), "wrong": wrong,
    }  # fmt: skip


WORDS = {
    "gemm_4bit": ({"quant_type": "nf4", "layout": "packed"}, {"quant_type": "nf4", "layout": "prepacked"}),
    "gemm_fp8": ({"scaling": "row", "accumulation": "fast"}, {"scaling": "row"}, {"scaling": "block"}),
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


def summary(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Share of mispicks and geometric mean of the regret of one tree of rules."""
    logs = [math.log1p(row["regret"][name]) for row in rows]
    wrong = [row for row in rows if row["regret"][name] > LIMIT]
    return {
        "cells": len(rows),
        "mispicked": len(wrong),
        "mispick_rate": round(len(wrong) / max(1, len(rows)), 4),
        "regret_geomean": round(math.expm1(sum(logs) / max(1, len(logs))), 5),
    }


def judge_again(row: dict[str, Any], result: dict[str, Any], trees: Trees) -> dict[str, Any]:
    """The row with the choices of other rules judged on its times; one that was not timed again, by the screening."""
    card = {key: result["device"][key] for key in ("arch", "num_sms")}
    cell = Cell(**card, **{key: row[key] for key in ("dtype", "M", "N", "K", "words")})
    times, regret = row["screened"] | row["us"], dict(row["regret"])
    others = choices_of(trees, result["family"], cell)
    for name, tile in others.items():
        taken = times.get(tile, max(times.values()))
        regret[name] = round(max(0.0, taken / min(row["us"].values()) - 1), 4)
    return {**row, "chosen": row["chosen"] | others, "regret": regret}


def measure(options: argparse.Namespace, trees: Trees) -> dict[str, Any]:
    """The result of the grid, or of as much of it as the time allows."""
    backend, started = CudaBackend(0, options.family), time.monotonic()
    if options.tuned:
        tilewright.load_tuned(options.tuned)
    device = backend.device()
    method = Method(replay_us=options.replay_us)
    names = [*_ops.NATIVE.tile_names(options.family), FALLBACK_FORCE]
    rows: list[dict[str, Any]] = []
    cells = grid(options.family, device.num_sms, device.arch, options.seed, options.cells)
    # Weight by weight: where the time ends early, whole weights are missing.
    for cell in cells:
        if time.monotonic() - started > options.seconds:
            break
        rows.append(one_cell(backend, cell, method, names, trees))
    facts = device.model_dump() | {"uuid": None, "state": backend.watch.state().model_dump()}
    head = {"schema": "mispick/3", "family": options.family, "device": facts, "tuned": bool(options.tuned)}
    return {**head, "planned": len(cells), "rules": {}, "rows": rows}


def main() -> None:
    """Measures or reads the times, and judges all rules by them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=sorted(WORDS), default="gemm_4bit")
    parser.add_argument("--cells", type=int, default=len(SHAPES) * len(ROWS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--replay-us", type=int, default=150)
    parser.add_argument("--specs", action="append", default=[], metavar="NAME=FOLDER", help="other rules to judge")
    parser.add_argument("--tuned", type=Path, help="a table to load first")
    parser.add_argument(
        "--times", type=Path, help="a result whose times are judged instead of measuring; needs no card"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    trees = {name: load_tree(folder) for name, folder in (text.split("=", 1) for text in options.specs)}
    if options.times:
        result = json.loads(options.times.read_text("utf-8"))
        result["rows"] = [judge_again(row, result, trees) for row in result["rows"]]
    else:
        result = measure(options, trees)
    rows = result.pop("rows")
    names = list(rows[0]["chosen"]) if rows else []
    result["rules"] = {name: summary(rows, name) for name in names}
    lines = ",\n".join(json.dumps(row) for row in rows)
    text = json.dumps(result)[:-1] + f', "rows": [\n{lines}\n]}}\n'
    if options.out:
        options.out.write_text(text, "utf-8")
    print(json.dumps(result["rules"]))
    for row in sorted(rows, key=lambda r: -r["regret"][names[-1]])[:15]:
        wrong = row["chosen"][names[-1]], "->", row["best"], row["regret"][names[-1]]
        print(row["M"], row["N"], row["K"], row["words"], *wrong)


if __name__ == "__main__":
    main()
