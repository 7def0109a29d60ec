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
from fp8_problems import E5M2, Harness, Info, Problem

SHAPES = [
    (4096, 4096),
    (8192, 8192),
    (4096, 7168),
    (7168, 2048),
    (24576, 1536),
    (32768, 512),
    (7168, 16384),
    (16384, 16384),
]
ROWS = [1, 16, 64, 128, 512, 1024, 4096, 8192]
ROTATED_BYTES = 200e6  # weights of one timing rotate through this much memory, over three times the L2
ERROR_LIMIT = {torch.bfloat16: 4e-3, torch.float16: 2.5e-3, torch.float32: 2.5e-3}
BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}


def scaled_mm(problem: Problem, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    fast = problem.fast and problem.scaling != "block"
    bias = None if problem.bias_values is None else problem.bias_values[0]
    result: torch.Tensor = torch._scaled_mm(
        problem.a, b.T, bias=bias, out_dtype=problem.dtype, use_fast_accum=fast, out=out, **problem.torch_args()
    )
    return result


def check_one(h: Harness, name: str, problem: Problem, ragged_out: int) -> str | None:
    """A message when the tile is wrong, unstable, leaves something unwritten or writes past its rows."""
    reference, written = problem.reference()
    outs = []
    for _ in range(2):
        width = problem.n + ragged_out
        guard = torch.full((problem.rows * width + 64,), math.nan, dtype=problem.dtype, device="cuda")
        out = guard[: problem.rows * width].reshape(problem.rows, width)
        h.launch(name, problem.args(out, h.sms))
        torch.cuda.synchronize()
        if not guard[problem.rows * width :].isnan().all() or not out[:, problem.n :].isnan().all():
            return "wrote past the output"
        if not out[~written].isnan().all():
            return "wrote rows of no group"
        outs.append(out[written, : problem.n])
    if not written.any():
        return None
    wanted = reference[written]
    error = ((outs[0].double() - wanted).norm() / wanted.norm()).item()
    if not error <= ERROR_LIMIT[problem.dtype]:
        wrong = ((outs[0].double() - wanted).abs() > 0.05 * wanted.abs().max()).nonzero()
        return f"nrmse {error:.4g} wrong {len(wrong)} first {wrong[:3].tolist()} nan {int(outs[0].isnan().sum())}"
    bits = BITS[problem.dtype]
    if not torch.equal(outs[0].contiguous().view(bits), outs[1].contiguous().view(bits)):
        return "two runs differ"
    ERRORS.append((problem.scaling, problem.fast, str(problem.dtype)[6:], error))
    return None


ERRORS: list[tuple[str, bool, str, float]] = []


def check_runs(tile: Info, dtypes: list[torch.dtype]) -> list[tuple[dict[str, Any], int]]:
    """(problem, elements between rows of out) worth a try on a tile."""
    mt, nt = tile.mt, tile.nt
    kinds: list[dict[str, Any]] = [dict(scaling="tensor"), dict(scaling="row")]
    if tile.promote:
        kinds = [dict(scaling="block"), dict(scaling="block", row_major_scales=True), dict(scaling="row", fast=False)]
    runs: list[tuple[dict[str, Any], int]] = []
    for kind in kinds:
        block = kind["scaling"] == "block"
        for dtype in dtypes:
            base = dict(kind, dtype=dtype)
            runs += [
                (dict(base, m=mt, n=nt, k=128), 0),
                (dict(base, m=2 * mt + 3, n=2 * nt + 8, k=640, bias=True), 0),
                (dict(base, m=max(1, mt - 3), n=nt + 37, k=1024 if block else 1008, pad=1, bias=True), 3),
                (dict(base, m=1, n=40, k=128, a_type=E5M2), 8),
                (dict(base, m=3 * mt, n=140 * nt if mt < 128 else 51 * nt, k=1280), 0),
            ]
            if tile.split_k == 1:
                runs += [
                    (dict(base, m=3 * mt + 9, n=2 * nt + 8, k=384, groups=5, bias=True), 0),
                    (dict(base, m=mt + 5, n=nt + 24, k=384, groups=7, masked=True), 1),
                ]
    return runs


def check(h: Harness, names: list[str]) -> int:
    """Every tile over sizes, scales, groups and outputs; prints what fails and returns how much did."""
    failures = cases = 0
    for name in names:
        dtypes = [torch.bfloat16]
        if name in list(h.names)[:5]:
            dtypes = [torch.bfloat16, torch.float16, torch.float32]
        for run, ragged in check_runs(h.info[name], dtypes):
            cases += 1
            message = check_one(h, name, Problem(**run), ragged)
            if message is not None:
                failures += 1
                print(f"FAIL {name} {run} ragged {ragged}: {message}", flush=True)
                if failures > 40:
                    return failures
    for key in sorted({error[:3] for error in ERRORS}):
        values = [error[3] for error in ERRORS if error[:3] == key]
        print(f"nrmse {key}: median {statistics.median(values):.3g} max {max(values):.3g}")
    print(f"{cases} cases, {failures} failures", flush=True)
    return failures


def accuracy(h: Harness, names: list[str]) -> None:
    """Errors beside those of torch._scaled_mm on the same operands."""
    for scaling in ("tensor", "row", "block"):
        for m, n, k in ((512, 4096, 4096), (128, 7168, 16384)):
            for dtype in (torch.bfloat16,):
                problem = Problem(m, n, k, scaling, dtype)
                reference, _ = problem.reference()
                out = torch.empty(m, n, dtype=dtype, device="cuda")
                errors = {}
                for fast in (True, False):
                    problem.fast = fast
                    try:
                        scaled_mm(problem, problem.b, out)
                        errors[f"torch fast={fast}"] = ((out.double() - reference).norm() / reference.norm()).item()
                    except RuntimeError as error:
                        print(f"torch {scaling} fast={fast}: {str(error).splitlines()[0][:160]}")
                    for name in names[:5]:
                        if not h.info[name].promote and (scaling == "block" or not fast):
                            continue
                        h.launch(name, problem.args(out, h.sms))
                        errors[f"{name} fast={fast}"] = ((out.double() - reference).norm() / reference.norm()).item()
                print(f"accuracy {scaling} {m}x{n}x{k}:", {key: round(value, 6) for key, value in errors.items()})


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
        return tile.mt < 2 * max(m, 16) and (tile.mt >= m or tile.mt >= 64) and tiles * tile.split_k > slots / 5
    if tile.split_k > 1:
        return m <= 512 and tiles <= slots
    return tile.mt >= 96 and tiles > slots / 4


def time_all(h: Harness, names: list[str], options: argparse.Namespace) -> None:
    result: dict[str, dict[str, float]] = {}
    for n, k in options.shapes:
        timer = Timer(h, n, k)
        for m in options.rows:
            chosen = [x for x in names if fits(h.info[x], m, n, h.sms)]
            runs = [
                (name, scaling)
                for scaling in options.scaling.split(",")
                for name in ("torch", *chosen)
                if name == "torch" or h.info[name].promote == (scaling == "block")
            ]
            times = timer.medians(runs, m, options.rounds)
            result[f"{n}x{k}|{m}"] = {"floor": round(floor_us(m, n, k), 3), **times}
            for scaling in options.scaling.split(","):
                peer = times.get(f"{scaling}:torch", math.nan)
                ours = sorted(
                    (t, x.split(":")[1]) for x, t in times.items() if x.startswith(scaling) and "torch" not in x
                )
                ranked = " ".join(f"{x}={t:.2f}" for t, x in ours[: options.show])
                if ours:
                    print(f"{n}x{k} m{m} {scaling} torch {peer:.2f} {peer / ours[0][0]:.2f}x {ranked}", flush=True)
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
