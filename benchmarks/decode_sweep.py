"""Checks and times the decode engine on a Hopper GPU: every compiled shape by cluster size and ring.

Build the harness first (tests/kernels/decode_build.sh DIR), then for instance:

    python benchmarks/decode_sweep.py --library DIR/libtilewright_decode.so check
    python benchmarks/decode_sweep.py --library DIR/libtilewright_decode.so time --out sweep.json

Times are compared with decode_peers.json: per cell the fastest peer as measured on one H200 (bitsandbytes, Marlin,
Machete, tinygemm, gemlite or cuBLAS on dense weights), and the time of only reading the same bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from wgmma_sweep import ERROR_LIMIT, QUANT, ROTATED_BYTES, SHAPES, Args, Weight, dense, make_weight

ROWS = [1, 2, 4, 8, 16]
CLUSTERS = [1, 2, 4, 8]
NOT_SUPPORTED = 801  # cudaErrorNotSupported


class Info(ctypes.Structure):
    """Mirror of tilewright::test::DecodeShapeInfo."""

    _fields_ = [(name, ctypes.c_int) for name in ("mb", "kb", "warps_k", "warps_n", "lut", "occupancy", "ring_kb")]


@dataclass(frozen=True)
class Config:
    """One compiled shape and how it is launched."""

    shape: str
    cluster: int
    ring_kb: int
    per_sm: int = 1

    def __str__(self) -> str:
        return f"{self.shape}-c{self.cluster}-r{self.ring_kb}{'x2' if self.per_sm == 2 else ''}"


class Harness:
    """The loaded library; calls run on torch's current stream."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        self.lib.tw_decode_name.restype = ctypes.c_char_p
        self.lib.tw_decode_error.restype = ctypes.c_char_p
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.index: dict[str, int] = {}
        self.info: dict[str, Info] = {}
        self.kept: list[torch.Tensor] = []
        for shape in range(self.lib.tw_decode_count()):
            name = self.lib.tw_decode_name(shape).decode()
            self.index[name], self.info[name] = shape, Info()
            self.lib.tw_decode_info(shape, ctypes.byref(self.info[name]))

    def args(self, a: torch.Tensor, w: Weight, out: torch.Tensor, bias: torch.Tensor | None = None) -> Args:
        def pointer(tensor: torch.Tensor | None) -> int | None:
            return None if tensor is None else tensor.data_ptr()

        nested_absmax, nested_code = w.nested or (None, None)
        return Args(
            pointer(a),
            pointer(self.stored(w)),
            pointer(w.scales),
            pointer(nested_absmax),
            pointer(nested_code),
            pointer(w.offset),
            pointer(bias),
            pointer(out),
            a.shape[0],
            w.n,
            w.k,
            a.stride(0),
            w.blocksize,
            1 if a.dtype == torch.bfloat16 else 0,
            QUANT[w.quant],
            self.sms,
            None,
            0,
            int(w.prepacked),
        )

    def stored(self, w: Weight) -> torch.Tensor:
        """The codes in the weight's layout, kept as long as this harness."""
        if not w.prepacked:
            return w.packed
        self.kept.append(w.stored)
        return self.kept[-1]

    def launch(self, config: Config, args: Args) -> bool:
        """False when the shape does not take the problem; raises on any other error."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        error = self.lib.tw_decode_launch(
            self.index[config.shape],
            ctypes.byref(args),
            config.cluster,
            config.ring_kb,
            config.per_sm,
            stream,
        )
        if error not in (0, NOT_SUPPORTED):
            raise RuntimeError(f"{config}: {self.lib.tw_decode_error(error).decode()}")
        return bool(error == 0)

    def clusters(self, name: str, k: int) -> list[int]:
        info = self.info[name]
        return [c for c in CLUSTERS if 64 * info.kb * info.warps_k * c >= k][:2]

    def configs(self, m: int, k: int, names: list[str]) -> list[Config]:
        """Launches of the shapes that fit m rows without a size to spare, in the two least clusters that hold k."""
        need = 8 * math.ceil(m / 8)
        fits = sorted({i.mb for i in self.info.values() if i.mb >= need})[:1]
        return [
            Config(name, c, self.info[name].ring_kb, per_sm)
            for name in names
            for c in self.clusters(name, k)
            for per_sm in range(1, self.info[name].occupancy + 1)
            if self.info[name].mb in fits
        ]


def check_one(
    h: Harness,
    config: Config,
    m: int,
    n: int,
    k: int,
    dtype: torch.dtype,
    quant: str = "nf4",
    blocksize: int = 64,
    nested: bool = False,
    bias: bool = False,
    prepacked: bool = False,
) -> tuple[str, float] | None:
    """What is wrong ('' when nothing) and the error; None when the shape does not take the problem."""
    w = make_weight(n, k, quant, blocksize, nested, prepacked)
    h.kept.clear()
    a = torch.randn(m, k, device="cuda").to(dtype)
    b = torch.randn(n, device="cuda").to(dtype) if bias else None
    outs = []
    for _ in range(3):
        guard = torch.full((m * n + 64,), math.nan, dtype=dtype, device="cuda")
        if not h.launch(config, h.args(a, w, guard, b)):
            return None
        torch.cuda.synchronize()
        if not guard[m * n :].isnan().all():
            return "wrote past the output", math.nan
        outs.append(guard[: m * n].reshape(m, n))
    reference = a.float() @ dense(w).T
    if b is not None:
        reference += b.float()
    error = ((outs[0].float() - reference).norm() / reference.norm()).item()
    if not error <= ERROR_LIMIT[dtype]:
        wrong = ((outs[0].float() - reference).abs() > 0.05 * reference.abs().max()).nonzero()
        return f"{len(wrong)} wrong, first {wrong[:3].tolist()}, {int(outs[0].isnan().sum())} NaN", error
    if not all(torch.equal(outs[0].view(torch.int16), o.view(torch.int16)) for o in outs[1:]):
        return "runs differ", error
    return "", error


def check_cases(mb: int) -> list[dict[str, Any]]:
    bf16, fp16 = torch.bfloat16, torch.float16
    cases: list[dict[str, Any]] = [
        {"m": mb, "n": 256, "k": 2048, "dtype": bf16},
        {"m": 1, "n": 4096, "k": 4096, "dtype": bf16},
        {"m": mb, "n": 8192, "k": 1024, "dtype": fp16, "bias": True},
        {"m": mb - 3, "n": 1001, "k": 64 * 13, "dtype": bf16, "bias": True},
        {"m": 2, "n": 37, "k": 64, "dtype": bf16},
        {"m": mb - 1, "n": 6144, "k": 64 * 48, "dtype": fp16, "quant": "fp4", "blocksize": 128},
        {"m": mb, "n": 515, "k": 4096, "dtype": bf16, "blocksize": 4096, "nested": True, "bias": True},
        {"m": 3, "n": 2049, "k": 1536, "dtype": fp16, "nested": True},
        {"m": mb, "n": 1000, "k": 64 * 9, "dtype": bf16, "blocksize": 32},
        {"m": 5, "n": 513, "k": 2048, "dtype": fp16, "blocksize": 32, "nested": True, "bias": True},
        {"m": mb, "n": 1016, "k": 64 * 9, "dtype": bf16, "quant": "e2m1", "bias": True},
        {"m": 4, "n": 4096, "k": 2048, "dtype": fp16, "quant": "e2m1"},
        {"m": mb, "n": 5120, "k": 13824, "dtype": bf16},
        {"m": mb, "n": 777, "k": 8192, "dtype": bf16, "blocksize": 256},
        {"m": 1, "n": 14336, "k": 4096, "dtype": bf16},
    ]
    return cases + [{**case, "n": -(-case["n"] // 16) * 16, "prepacked": True} for case in cases]


def check(h: Harness, names: list[str]) -> int:
    """Every shape by cluster size; prints what fails and the errors per format."""
    torch.backends.cuda.matmul.allow_tf32 = False
    errors: dict[str, list[float]] = {}
    failures = skipped = 0
    for name in names:
        for case in check_cases(h.info[name].mb):
            for cluster in CLUSTERS:
                config = Config(name, cluster, h.info[name].ring_kb)
                result = check_one(h, config, **case)
                if result is None:
                    skipped += 1
                    continue
                message, error = result
                errors.setdefault(f"{str(case['dtype'])[6:]} {case.get('quant', 'nf4')}", []).append(error)
                if message:
                    failures += 1
                    print(f"FAIL {config} {case}: {message} (nrmse {error:.3g})", flush=True)
                    if failures > 20:
                        return failures
    for label, values in sorted(errors.items()):
        print(f"nrmse {label}: median {statistics.median(values):.3g} max {max(values):.3g} of {len(values)}")
    print(f"{failures} failures, {skipped} cases not taken")
    return failures


class Timer:
    """Cold times by graph replay: launches rotate over copies of the weights, all candidates interleaved."""

    def __init__(self, h: Harness, n: int, k: int, weight: Callable[[], Weight], prepacked: bool) -> None:
        self.h, self.n, self.k, self.prepacked = h, n, k, prepacked
        self.copies = max(2, min(48, math.ceil(ROTATED_BYTES / (n * k / 2 * 1.125))))
        self.weights = [weight() for _ in range(self.copies)]

    def graph(self, config: Config, a: torch.Tensor, out: torch.Tensor, repeats: int) -> torch.cuda.CUDAGraph | None:
        args = [self.h.args(a, self.weights[i % self.copies], out) for i in range(repeats)]
        for arg in args:
            arg.layout = int(self.prepacked)  # the codes are random: in both layouts the same bytes are read
        if not self.h.launch(config, args[0]):
            return None
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for launch in args:
                self.h.launch(config, launch)
        return graph

    def medians(self, configs: list[Config], m: int, estimate_us: float, rounds: int) -> dict[str, float]:
        a = torch.randn(m, self.k, device="cuda").to(torch.bfloat16)
        out = torch.empty(m, self.n, device="cuda", dtype=torch.bfloat16)
        repeats = max(2, min(48, round(250 / estimate_us)))
        graphs = {str(c): g for c in configs if (g := self.graph(c, a, out, repeats)) is not None}
        samples: dict[str, list[float]] = {name: [] for name in graphs}
        events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        for r in range(rounds + 1):
            for name in list(graphs) if r % 2 == 0 else list(graphs)[::-1]:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                graphs[name].replay()
                end.record()
                if r >= 1:
                    events.append((name, start, end))
            torch.cuda.synchronize()
        for name, start, end in events:
            samples[name].append(start.elapsed_time(end) * 1e3 / repeats)
        return {name: statistics.median(values) for name, values in samples.items()}


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def time_all(h: Harness, names: list[str], options: argparse.Namespace) -> None:
    peers = json.loads((Path(__file__).parent / "decode_peers.json").read_text())
    result: dict[str, dict[str, float]] = {}
    gains: list[float] = []
    shapes = [tuple(map(int, s.split("x"))) for s in options.shapes.split(",") if s] or SHAPES
    for n, k in shapes:
        quant, blocksize = options.quant, 16 if options.quant == "e2m1" else options.blocksize
        peer = peers[f"{n}x{k}"]
        began = time.monotonic()
        timer = Timer(h, n, k, partial(make_weight, n, k, quant, blocksize, options.nested), options.prepacked)
        for m in options.rows:
            configs = h.configs(m, k, names)
            times = timer.medians(configs, m, 1.3 * peer["read_us"], options.rounds)
            result[f"{n}x{k}|{m}"] = {name: round(us, 3) for name, us in sorted(times.items(), key=lambda x: x[1])}
            ranked = sorted((us, name) for name, us in times.items())
            if not ranked:
                print(f"{n}x{k} m{m}: no shape takes it", flush=True)
                continue
            best_us, best_name = peer["best_peer_us"].get(str(m), (math.nan, "-"))
            gains.append(best_us / ranked[0][0])
            print(
                f"{n}x{k} m{m} {ranked[0][0]:.2f} us = {ranked[0][0] / peer['read_us']:.2f} read, {gains[-1]:.2f}x "
                f"{best_name} | " + " ".join(f"{name}={us:.2f}" for us, name in ranked[: options.top]),
                flush=True,
            )
        del timer
        torch.cuda.empty_cache()
        if options.verbose:
            print(f"  {time.monotonic() - began:.1f} s")
        if options.out is not None:
            options.out.write_text(json.dumps(result, indent=0))
    print(f"geometric mean over {len(gains)} cells: {geomean(gains):.3f}x the fastest peer")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(x) for x in text.split(",")]  # noqa: E731
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--names", default="", help="comma-separated shapes of the harness; all when empty")
    parser.add_argument("--shapes", default="", help="comma-separated NxK; the grid when empty")
    parser.add_argument("--rows", type=numbers, default=ROWS, help="comma-separated M")
    parser.add_argument("--quant", default="nf4", choices=sorted(QUANT))
    parser.add_argument("--blocksize", type=int, default=64)
    parser.add_argument("--nested", action="store_true")
    parser.add_argument("--prepacked", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--top", type=int, default=4)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("action", choices=["check", "time"])
    options = parser.parse_args()
    torch.manual_seed(torch.seed() % 2**31)
    h = Harness(options.library)
    names = [x for x in options.names.split(",") if x] or list(h.index)
    if options.action == "check":
        return 1 if check(h, names) else 0
    time_all(h, names, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
