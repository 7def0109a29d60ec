"""Checks and times every tile of the wgmma harness on a Hopper GPU, beside cuBLAS dense bf16.

Build the harness first (tests/kernels/wgmma_build.sh DIR), then for instance:

    python benchmarks/wgmma_sweep.py --library DIR/libtilewright_wgmma.so check
    python benchmarks/wgmma_sweep.py --library DIR/libtilewright_wgmma.so time --out sweep.json
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

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
ROWS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
ROTATED_BYTES = 200e6  # weights of one timing rotate through this much memory, over three times the L2
ERROR_LIMIT = {torch.bfloat16: 8e-3, torch.float16: 2e-3}

NF4 = [
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
]
FP4 = [0.0, 0.0625 / 12, 8 / 12, 1.0, 4 / 12, 0.5, 2 / 12, 0.25]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
CODES = {"nf4": NF4, "fp4": FP4 + [-x for x in FP4], "e2m1": E2M1 + [-x for x in E2M1]}
QUANT = {"nf4": 0, "fp4": 1, "e2m1": 2}


class Args(ctypes.Structure):
    """Gemm4bitArgs of args.h."""

    _fields_ = [
        *[
            (name, ctypes.c_void_p)
            for name in ("a", "b", "scales", "nested_absmax", "nested_code", "offset", "bias", "out")
        ],
        *[(name, ctypes.c_int64) for name in ("m", "n", "k", "lda")],
        *[(name, ctypes.c_int32) for name in ("blocksize", "dtype", "quant_type", "num_sms")],
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("layout", ctypes.c_int32),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int)
        for name in (
            "mt",
            "nt",
            "kc",
            "stages",
            "cluster_n",
            "split_k",
            "occupancy",
            "lut_parts",
            "group_parts",
            "smem_bytes",
        )
    ]


@dataclass(frozen=True)
class Weight:
    """One packed weight, n x k, with its scales: `packed` as bitsandbytes orders it, `stored` in its layout."""

    packed: torch.Tensor
    scales: torch.Tensor
    quant: str
    blocksize: int
    n: int
    k: int
    nested: tuple[torch.Tensor, torch.Tensor] | None = None
    offset: torch.Tensor | None = None
    prepacked: bool = False

    @property
    def stored(self) -> torch.Tensor:
        if not self.prepacked:
            return self.packed
        blocks = self.packed.reshape(self.n // 16, 2, 8, self.k // 64, 8, 4)
        return blocks.permute(0, 3, 2, 5, 1, 4).contiguous()


class Harness:
    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        self.lib.tw_wgmma_name.restype = ctypes.c_char_p
        self.lib.tw_wgmma_error.restype = ctypes.c_char_p
        self.lib.tw_wgmma_host_ns.restype = ctypes.c_double
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.names: dict[str, int] = {}
        self.info: dict[str, Info] = {}
        self.kept: list[torch.Tensor] = []  # weights whose addresses were handed out
        for tile in range(self.lib.tw_wgmma_count()):
            name = self.lib.tw_wgmma_name(tile).decode()
            info = Info()
            self.lib.tw_wgmma_info(tile, ctypes.byref(info))
            self.names[name], self.info[name] = tile, info
        self.half = bool(self.lib.tw_wgmma_half())  # built for fp16 too

    def args(self, a: torch.Tensor, w: Weight, out: torch.Tensor, bias: torch.Tensor | None = None) -> Args:
        pointer = lambda t: None if t is None else t.data_ptr()  # noqa: E731
        nested_absmax, nested_code = w.nested or (None, None)
        stored = w.stored
        self.kept.append(stored)
        return Args(
            pointer(a),
            pointer(stored),
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

    def launch(self, name: str, args: Args) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        error = self.lib.tw_wgmma_launch(self.names[name], ctypes.byref(args), stream)
        if error:
            raise RuntimeError(f"{name}: {self.lib.tw_wgmma_error(error).decode()}")

    def host_us(self, name: str, args: Args, launches: int = 200) -> float:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        return float(self.lib.tw_wgmma_host_ns(self.names[name], ctypes.byref(args), stream, launches)) / 1e3


def make_weight(n: int, k: int, quant: str, blocksize: int, nested: bool = False, prepacked: bool = False) -> Weight:
    packed = torch.randint(0, 256, (n * k // 2,), dtype=torch.uint8, device="cuda")
    if quant == "e2m1":
        scales = torch.randint(0x20, 0x50, (n, k // 16), dtype=torch.uint8, device="cuda")
        return Weight(packed, scales, quant, 16, n, k, None, torch.tensor(0.0173, device="cuda"), prepacked)
    count = n * k // blocksize
    if nested:
        codes = torch.randint(0, 256, (count,), dtype=torch.uint8, device="cuda")
        outer = torch.rand(-(-count // 256), device="cuda") * 0.01 + 0.001
        table = torch.linspace(-1, 1, 256, device="cuda")
        return Weight(
            packed, codes, quant, blocksize, n, k, (outer, table), torch.tensor(0.05, device="cuda"), prepacked
        )
    scales = torch.rand(count, device="cuda") * 0.05 + 0.01
    return Weight(packed, scales, quant, blocksize, n, k, None, None, prepacked)


def dense(w: Weight) -> torch.Tensor:
    """The weight in fp32, [n, k]."""
    codes = torch.tensor(CODES[w.quant], dtype=torch.float32, device="cuda")
    high, low = codes[(w.packed >> 4).long()], codes[(w.packed & 15).long()]
    pair = (low, high) if w.quant == "e2m1" else (high, low)
    values = torch.stack(pair, dim=-1).reshape(-1)
    if w.quant == "e2m1":
        assert w.offset is not None
        scales = w.scales.view(torch.float8_e4m3fn).float().reshape(-1) * w.offset
    elif w.nested is not None:
        outer, table = w.nested
        assert w.offset is not None
        scales = table[w.scales.long()] * outer.repeat_interleave(256)[: w.scales.numel()] + w.offset
    else:
        scales = w.scales
    return (values.reshape(-1, w.blocksize) * scales[:, None]).reshape(w.n, w.k)


def check_one(
    h: Harness,
    name: str,
    m: int,
    n: int,
    k: int,
    dtype: torch.dtype,
    quant: str = "nf4",
    blocksize: int = 64,
    nested: bool = False,
    bias: bool = False,
    prepacked: bool = False,
) -> str | None:
    """A message when the tile is wrong, unstable or leaves something unwritten."""
    w = make_weight(n, k, quant, blocksize, nested, prepacked)
    h.kept.clear()
    a = torch.randn(m, k, device="cuda").to(dtype)
    b = torch.randn(n, device="cuda").to(dtype) if bias else None
    outs = []
    for _ in range(2):
        guard = torch.full((m * n + 64,), math.nan, dtype=dtype, device="cuda")
        h.launch(name, h.args(a, w, guard, b))
        torch.cuda.synchronize()
        if not guard[m * n :].isnan().all():
            return "wrote past the output"
        outs.append(guard[: m * n].reshape(m, n))
    reference = a.float() @ dense(w).T
    if b is not None:
        reference += b.float()
    error = ((outs[0].float() - reference).norm() / reference.norm()).item()
    if not error <= ERROR_LIMIT[dtype]:
        wrong = ((outs[0].float() - reference).abs() > 0.05 * reference.abs().max()).nonzero()
        return f"nrmse {error:.4g} wrong {len(wrong)} first {wrong[:3].tolist()} nan {int(outs[0].isnan().sum())}"
    if not torch.equal(outs[0].view(torch.int16), outs[1].view(torch.int16)):
        return "two runs differ"
    h_errors.append((dtype, quant, error))
    return None


h_errors: list[tuple[torch.dtype, str, float]] = []


def check(h: Harness, names: list[str], passed: Path | None) -> int:
    """Every tile over sizes, formats and epilogues; prints what fails and appends the names that pass to a file."""
    torch.backends.cuda.matmul.allow_tf32 = False
    bf16, fp16 = torch.bfloat16, torch.float16
    failures = cases = 0
    for name in names:
        mt, nt = h.info[name].mt, h.info[name].nt
        runs: list[dict[str, Any]] = [
            dict(m=mt, n=nt, k=128, dtype=bf16),
            dict(m=mt, n=nt, k=512, dtype=bf16),
            dict(m=mt, n=4 * nt, k=2048, dtype=bf16),
            dict(m=max(1, mt - 3), n=nt + 37, k=64 * 7, dtype=bf16, bias=True),
            dict(m=1, n=40, k=64, dtype=bf16),
            dict(m=mt, n=150 * nt, k=640, dtype=bf16),  # whole tiles, then shared ones
            dict(m=2 * mt + 5, n=3 * nt + 8, k=64 * 33, dtype=fp16, bias=True),
            dict(m=3 * mt, n=17 * nt + 24, k=1024, dtype=fp16, quant="fp4", blocksize=128),
            dict(m=mt + 1, n=2 * nt, k=4096, dtype=bf16, blocksize=4096, nested=True),
            dict(m=mt, n=2 * nt + 1, k=1024, dtype=fp16, nested=True, bias=True),
            dict(m=mt + 9, n=2 * nt + 16, k=64 * 9, dtype=bf16, quant="e2m1", bias=True),
            dict(m=mt, n=2 * nt, k=1024, dtype=fp16, quant="e2m1"),
        ]
        before = failures
        runs += [dict(run, n=-(-run["n"] // 16) * 16, prepacked=True) for run in runs]
        for run in runs:
            if run["dtype"] is fp16 and not h.half:
                continue
            cases += 1
            message = check_one(h, name, **run)
            if message is not None:
                failures += 1
                print(f"FAIL {name} {run}: {message}", flush=True)
                if failures > 40:
                    return failures
        if passed is not None and failures == before:
            with passed.open("a") as file:
                file.write(name + "\n")
    for dtype in (bf16, fp16):
        for quant in ("nf4", "fp4", "e2m1"):
            errors = [e for d, q, e in h_errors if d is dtype and q == quant]
            if errors:
                print(f"nrmse {str(dtype)[6:]} {quant}: median {statistics.median(errors):.3g} max {max(errors):.3g}")
    print(f"{cases} cases, {failures} failures")
    return failures


class Timer:
    """Cold times by graph replay: launches rotate over copies of the weights, all candidates interleaved.

    `TILE:p` is a tile on prepacked weights. Codes are random, so both layouts read the same bytes.
    """

    def __init__(self, h: Harness, n: int, k: int, quant: str) -> None:
        self.h, self.n, self.k = h, n, k
        h.kept.clear()
        packed = n * k / 2 * 1.125
        self.copies = max(2, min(48, math.ceil(ROTATED_BYTES / packed)))
        self.weights = [make_weight(n, k, quant, 64) for _ in range(self.copies)]
        self.dense_copies = max(2, min(48, math.ceil(ROTATED_BYTES / (n * k * 2))))
        self.dense = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * 0.02 for _ in range(self.dense_copies)]

    def graphs(self, names: list[str], m: int, estimate_us: float) -> dict[str, tuple[torch.cuda.CUDAGraph, int]]:
        a = torch.randn(m, self.k, device="cuda").to(torch.bfloat16)
        out = torch.empty(m, self.n, device="cuda", dtype=torch.bfloat16)
        repeats = max(2, min(48, round(250 / estimate_us)))
        self.keep = (a, out)
        graphs = {}
        for name in names:
            calls = []
            for i in range(repeats):
                if name == "dense":
                    weight = self.dense[i % self.dense_copies]
                    calls.append(lambda weight=weight: torch.mm(a, weight.T, out=out))
                else:
                    args = self.h.args(a, self.weights[i % self.copies], out)
                    tile, _, layout = name.partition(":")
                    args.layout = int(layout == "p")
                    calls.append(lambda tile=tile, args=args: self.h.launch(tile, args))
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                calls[0]()
            stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for call in calls:
                    call()
            graphs[name] = (graph, repeats)
        return graphs

    def medians(self, names: list[str], m: int, estimate_us: float, rounds: int) -> dict[str, float]:
        graphs = self.graphs(names, m, estimate_us)
        samples: dict[str, list[float]] = {name: [] for name in names}
        events: list[tuple[str, torch.cuda.Event, torch.cuda.Event, int]] = []
        for r in range(rounds + 2):
            for name in names if r % 2 == 0 else reversed(names):
                graph, repeats = graphs[name]
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                graph.replay()
                end.record()
                if r >= 2:
                    events.append((name, start, end, repeats))
            torch.cuda.synchronize()
        for name, start, end, repeats in events:
            samples[name].append(start.elapsed_time(end) * 1e3 / repeats)
        return {name: statistics.median(values) for name, values in samples.items()}


def floor_us(m: int, n: int, k: int) -> float:
    read = n * k / 2 + n * k / 64 * 4 + 2 * m * k + 2 * m * n
    return max(read / 4.43e6, 2 * m * n * k / 817e6)


def candidates(h: Harness, m: int, n: int, names: list[str]) -> list[str]:
    """Tiles worth a try at m rows: those whose size and number of blocks are not plainly wrong."""

    def fits(tile: Info) -> bool:
        blocks = -(-m // tile.mt) * -(-n // tile.nt) * tile.split_k
        slots = h.sms * tile.occupancy
        if tile.split_k > 2 and blocks > slots or tile.cluster_n > 1 and blocks < 8:
            return False
        if m <= 64:
            return bool(tile.mt == m and (blocks > slots / 5 or tile.split_k == 8))
        return bool(m / 4 <= tile.mt <= m or (m > 256 and tile.mt >= 128)) and blocks > slots / 4

    return [x for x in names if fits(h.info[x])]


def time_all(
    h: Harness,
    names: list[str],
    shapes: list[tuple[int, int]],
    rows: list[int],
    rounds: int,
    out: Path | None,
    quant: str,
    layouts: list[str],
) -> None:
    result: dict[str, dict[str, float]] = {}
    for n, k in shapes:
        timer = Timer(h, n, k, quant)
        for m in rows:
            chosen = [x + layout for x in candidates(h, m, n, names) for layout in layouts]
            estimate = max(6.0, 1.6 * floor_us(m, n, k))
            times = timer.medians(["dense", *chosen], m, estimate, rounds)
            result[f"{n}x{k}|{m}"] = {"floor": floor_us(m, n, k), **times}
            if len(times) == 1:
                continue
            best = sorted((t, x) for x, t in times.items() if x != "dense")[:4]
            ranked = " ".join(f"{x}={t:.2f}" for t, x in best)
            print(
                f"{n}x{k} m{m} floor {floor_us(m, n, k):.2f} dense {times['dense']:.2f} | "
                f"{times['dense'] / best[0][0]:.2f}x {ranked}",
                flush=True,
            )
        del timer
        torch.cuda.empty_cache()
        if out is not None:
            out.write_text(json.dumps(result, indent=0))


def host(h: Harness, names: list[str]) -> None:
    w = make_weight(2048, 2048, "nf4", 64)
    a = torch.randn(64, 2048, device="cuda").to(torch.bfloat16)
    out = torch.empty(64, 2048, device="cuda", dtype=torch.bfloat16)
    for name in names:
        args = h.args(a, w, out)
        h.host_us(name, args, 20)
        torch.cuda.synchronize()
        print(f"host {name}: {h.host_us(name, args):.2f} us a launch", flush=True)
        torch.cuda.synchronize()


def profile(h: Harness, names: list[str], n: int, k: int, m: int, prepacked: bool) -> None:
    """One launch of every tile, for a profiler to look at."""
    w = make_weight(n, k, "nf4", 64, prepacked=prepacked)
    a = torch.randn(m, k, device="cuda").to(torch.bfloat16)
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    for name in names:
        h.launch(name, h.args(a, w, out))
    torch.cuda.synchronize()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--tiles", default="", help="comma-separated tile names, or @FILE of them; all when empty")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th tile from the i-th")
    parser.add_argument("--shapes", default="", help="comma-separated NxK; the grid when empty")
    parser.add_argument("--rows", default="", help="comma-separated M; the grid when empty")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quant", default="nf4", choices=["nf4", "fp4", "e2m1"])
    parser.add_argument("--layouts", default="bp", help="b as bitsandbytes packs, p prepacked, bp both")
    parser.add_argument("--out", type=Path)
    parser.add_argument("action", choices=["check", "time", "host", "profile"])
    options = parser.parse_args()
    torch.manual_seed(torch.seed() % 2**31)
    h = Harness(options.library)
    listed = Path(options.tiles[1:]).read_text().split() if options.tiles[:1] == "@" else options.tiles.split(",")
    part, parts = (int(x) for x in options.part.split("/"))
    names = ([x for x in h.names if x in listed] if options.tiles else list(h.names))[part::parts]
    shapes = [(int(s.split("x")[0]), int(s.split("x")[1])) for s in options.shapes.split(",") if s] or SHAPES
    rows = [int(m) for m in options.rows.split(",") if m] or ROWS
    if options.action == "check":
        return 1 if check(h, names, options.out) else 0
    if options.action == "host":
        host(h, names)
        return 0
    if options.action == "profile":
        profile(h, names, *shapes[0], rows[0], "p" in options.layouts)
        return 0
    layouts = [{"b": "", "p": ":p"}[x] for x in options.layouts]
    time_all(h, names, shapes, rows, options.rounds, options.out, options.quant, layouts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
