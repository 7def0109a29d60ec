"""Checks and times every tile of the gemm_fp8 wgmma harness on a Hopper GPU, beside torch._scaled_mm.

Build the harness first (tests/kernels/fp8_wgmma_build.sh DIR), then for instance:

    python benchmarks/fp8_sweep.py --library DIR/libtilewright_fp8.so check
    python benchmarks/fp8_sweep.py --library DIR/libtilewright_fp8.so time --scaling row --out sweep.json
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fp8_checks import accuracy, check
from fp8_problems import SHAPES, Harness, Info, Problem, scaled_mm

ROWS = [1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
ROTATED_BYTES = 200e6  # weights of one timing rotate through this much memory, over three times the L2


class Timer:
    """Cold times by graph replay: launches rotate over copies of the weights, all candidates interleaved."""

    def __init__(self, h: Harness, n: int, k: int) -> None:
        self.h, self.n, self.k = h, n, k
        copies = max(2, min(48, math.ceil(ROTATED_BYTES / (n * k))))
        first = Problem(1, n, k).b
        self.weights = [first, *(first.clone() for _ in range(copies - 1))]

    def call(self, name: str, problem: Problem, weight: torch.Tensor, out: torch.Tensor) -> Callable[[], Any]:
        if name == "torch":
            return lambda: scaled_mm(problem, weight, out)
        problem.b = weight
        args = problem.args(out, self.h.sms)
        return lambda: self.h.launch(name, args)

    def graph(self, name: str, problem: Problem, out: torch.Tensor, repeats: int) -> torch.cuda.CUDAGraph:
        calls = [self.call(name, problem, self.weights[i % len(self.weights)], out) for i in range(repeats)]
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            calls[0]()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph

    def medians(self, runs: list[tuple[str, str]], m: int, rounds: int) -> dict[str, float]:
        """Microseconds of every (candidate, scaling)."""
        repeats = max(2, min(48, round(250 / max(6.0, 1.4 * floor_us(m, self.n, self.k)))))
        graphs, problems = {}, []
        for name, scaling in runs:
            problem = Problem(m, self.n, self.k, scaling)
            problem.b = self.weights[0]
            out = torch.empty(m, self.n, device="cuda", dtype=torch.bfloat16)
            problems.append((problem, out))
            try:
                graphs[f"{scaling}:{name}"] = self.graph(name, problem, out, repeats)
            except (RuntimeError, ValueError) as error:
                print(f"{scaling}:{name} m{m} {self.n}x{self.k}: {str(error).splitlines()[0][:200]}", flush=True)
        events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        order = list(graphs)
        for r in range(rounds + 1):
            for key in order if r % 2 == 0 else reversed(order):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                graphs[key].replay()
                end.record()
                if r >= 1:
                    events.append((key, start, end))
        torch.cuda.synchronize()
        samples: dict[str, list[float]] = {key: [] for key in graphs}
        for key, start, end in events:
            samples[key].append(start.elapsed_time(end) * 1e3 / repeats)
        return {key: round(statistics.median(values), 3) for key, values in samples.items()}


def floor_us(m: int, n: int, k: int) -> float:
    return max((n * k + m * k + 2 * m * n) / 4.43e6, 2 * m * n * k / 1540e6)


def fits(tile: Info, m: int, n: int, sms: int) -> bool:
    """Whether a tile is worth a try at m rows: its size and number of blocks are not plainly wrong."""
    tiles = -(-m // tile.mt) * -(-n // tile.nt)
    slots = sms * tile.occupancy
    if m <= 128:
        return bool(min(m, 64) <= tile.mt <= 2 * max(m, 16) and tiles * tile.split_k > slots / 5)
    if tile.split_k > 1:
        return bool(m <= 512 and tiles <= slots)
    return bool(tile.mt >= 96 and tiles > slots / 4)


def candidates(h: Harness, chosen: list[str], scalings: list[str]) -> list[tuple[str, str]]:
    """(tile or "torch", scaling). Scales per row and per tensor take the same instructions: one of them is timed."""
    straight = next((x for x in ("row", "tensor") if x in scalings), "")
    runs = [("torch", scaling) for scaling in scalings]
    runs += [(x, "block" if h.info[x].promote else straight) for x in chosen]
    return [(name, scaling) for name, scaling in runs if scaling in scalings]


def report(cell: str, times: dict[str, float], show: int) -> None:
    """One line: what torch takes, then the best tiles, each set against the best torch of its kind."""
    line = cell + " torch " + " ".join(f"{x[:-6]} {t:.2f}" for x, t in times.items() if x.endswith(":torch"))
    for block in (False, True):
        mine = {x: t for x, t in times.items() if x.startswith("block:") == block}
        peers = [t for x, t in mine.items() if x.endswith(":torch")]
        ours = sorted((t, x.split(":")[1]) for x, t in mine.items() if not x.endswith(":torch"))
        if ours:
            ratio = min(peers) / ours[0][0] if peers else math.nan
            line += f" | {ratio:.2f}x " + " ".join(f"{x}={t:.2f}" for t, x in ours[:show])
    print(line, flush=True)


def time_all(h: Harness, names: list[str], options: argparse.Namespace) -> None:
    result: dict[str, dict[str, float]] = {}
    for n, k in options.shapes:
        timer = Timer(h, n, k)
        for m in options.rows:
            chosen = [x for x in names if fits(h.info[x], m, n, h.sms)]
            runs = candidates(h, chosen, options.scaling.split(","))
            times = timer.medians(runs, m, options.rounds)
            result[f"{n}x{k}|{m}"] = {"floor": round(floor_us(m, n, k), 3), **times}
            report(f"{n}x{k} m{m}", times, options.show)
        del timer
        torch.cuda.empty_cache()
        if options.out is not None:
            options.out.write_text(json.dumps(result, indent=0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--tiles", default="", help="comma-separated tile names; all when empty")
    parser.add_argument("--scaling", default="tensor,row,block")
    parser.add_argument("--shapes", default="", help="comma-separated NxK; the grid when empty")
    parser.add_argument("--rows", default="", help="comma-separated M; the grid when empty")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--show", type=int, default=4)
    parser.add_argument("--out", type=Path)
    parser.add_argument("action", choices=["check", "accuracy", "time", "profile"])
    options = parser.parse_args()
    torch.manual_seed(torch.seed() % 2**31)
    h = Harness(options.library)
    names = [x for x in h.names if not options.tiles or x in options.tiles.split(",")]
    options.shapes = [tuple(map(int, s.split("x"))) for s in options.shapes.split(",") if s] or SHAPES
    options.rows = [int(m) for m in options.rows.split(",") if m] or ROWS
    if options.action == "check":
        return 1 if check(h, names) else 0
    if options.action == "accuracy":
        accuracy(h, names)
    elif options.action == "profile":
        (n, k), m = options.shapes[0], options.rows[0]
        for name in names:
            problem = Problem(m, n, k, options.scaling)
            h.launch(name, problem.args(torch.empty(m, n, device="cuda", dtype=torch.bfloat16), h.sms))
        torch.cuda.synchronize()
    else:
        time_all(h, names, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
