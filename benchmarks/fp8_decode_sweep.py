"""Checks and times the decode and mma.sync engines of gemm_fp8 on a GPU, beside torch._scaled_mm in the same run.

Build the harness first (tests/kernels/fp8_mma_build.sh DIR), then for instance:

    python benchmarks/fp8_decode_sweep.py --library DIR/libtilewright_fp8_mma.so check
    python benchmarks/fp8_decode_sweep.py --library DIR/libtilewright_fp8_mma.so time --out sweep.json

Times are cold (launches rotate over copies of the weight), medians of CUDA-graph replays.
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
from pathlib import Path

import torch
from fp8_problems import DTYPES, SCALING, SHAPES, Args

ROWS = [1, 16]
NOT_SUPPORTED, NOT_BUILT = 801, -1
ROTATED_BYTES = 200e6
# In fp32 the sums of 128 of k that the tensor core makes show, 1.1e-4 at most.
ERROR_LIMIT = {torch.float16: 1e-3, torch.bfloat16: 4e-3, torch.float32: 2e-4}
FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


class Info(ctypes.Structure):
    """Mirror of tilewright::test::Fp8TileInfo."""

    _fields_ = [(name, ctypes.c_int) for name in ("max_m", "smem_bytes", "decode")]


@dataclass
class Problem:
    """Operands of one product; `b` is [groups * n, k] where there are groups."""

    a: torch.Tensor
    b: torch.Tensor
    scale_a: torch.Tensor
    scale_b: torch.Tensor
    scaling: str
    bias: torch.Tensor | None = None
    groups: int = 0
    ends: torch.Tensor | None = None
    rows: torch.Tensor | None = None
    fast: bool = True

    @property
    def n(self) -> int:
        return self.b.shape[0] // max(1, self.groups)


def quantised(rows: int, k: int, kind: str = "e4m3", pitch: int = 0) -> torch.Tensor:
    """Random fp8 values whose rows are `pitch` (k when 0) bytes apart."""
    values = torch.randn(rows, max(pitch, k), device="cuda") * 2
    return values.to(FP8[kind])[:, :k]


def make_problem(
    m: int,
    n: int,
    k: int,
    scaling: str = "row",
    kind: str = "e4m3",
    pad: int = 0,
    bias: torch.dtype | None = None,
    groups: int = 0,
    k_major_scales: bool = True,
) -> Problem:
    """`m` rows of A (all groups together) and `groups` weights of n rows, one when 0."""
    a, b = quantised(m, k, kind, k + pad), quantised(n * max(1, groups), k, "e4m3", k + pad)
    counts = {"tensor": (1, 1), "row": (m, 1), "block": (m, k // 128)}[scaling]
    scale_a = torch.rand(counts, device="cuda") * 0.1 + 0.01
    if not k_major_scales:
        scale_a = scale_a.T.contiguous().T
    per_weight = {"tensor": (1, 1), "row": (n, 1), "block": (-(-n // 128), k // 128)}[scaling]
    scale_b = torch.rand(max(1, groups), *per_weight, device="cuda") * 0.1 + 0.01
    extra = torch.randn(max(1, groups), n, device="cuda").to(bias) if bias is not None else None
    return Problem(a, b, scale_a, scale_b, scaling, extra, groups)


def reference(p: Problem, rows: slice, group: int) -> torch.Tensor:
    """The product of some rows of A with one weight in fp64."""
    n, k = p.n, p.a.shape[1]
    a, b = p.a[rows].double(), p.b[group * n : (group + 1) * n].double()
    scale_a, scale_b = p.scale_a.double(), p.scale_b[group].double()
    if p.scaling == "block":
        a = a * scale_a[rows].repeat_interleave(128, 1)
        b = b * scale_b.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
        out = a @ b.T
    else:
        out = (a @ b.T) * (scale_a if p.scaling == "tensor" else scale_a[rows]) * scale_b.T
    return out if p.bias is None else out + p.bias[group].double()


class Harness:
    """The loaded library; calls run on torch's current stream."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        self.lib.tw_fp8_name.restype = ctypes.c_char_p
        self.lib.tw_fp8_error.restype = ctypes.c_char_p
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.index: dict[str, int] = {}
        self.info: dict[str, Info] = {}
        for tile in range(self.lib.tw_fp8_count()):
            name = self.lib.tw_fp8_name(tile).decode()
            self.index[name], self.info[name] = tile, Info()
            self.lib.tw_fp8_info(tile, ctypes.byref(self.info[name]))

    def args(self, p: Problem, out: torch.Tensor, m: int | None = None) -> Args:
        def pointer(tensor: torch.Tensor | None) -> int | None:
            return None if tensor is None else tensor.data_ptr()

        args = Args(*map(pointer, (p.a, p.b, p.scale_a, p.scale_b, p.bias, out)))
        args.m, args.n, args.k = p.a.shape[0] if m is None else m, p.n, p.a.shape[1]
        args.lda, args.ldb, args.ldo = p.a.stride(0), p.b.stride(0), out.stride(0)
        if p.scaling != "tensor":
            args.scale_a_m, args.scale_b_n = p.scale_a.stride(0), p.scale_b.stride(1)
        if p.scaling == "block":
            args.scale_a_k, args.scale_b_k = p.scale_a.stride(1), p.scale_b.stride(2)
        args.b_group_stride, args.scale_b_group, args.bias_group = p.n * p.b.stride(0), p.scale_b.stride(0), p.n
        args.group_ends, args.group_rows, args.groups = pointer(p.ends), pointer(p.rows), p.groups
        args.grouping = 1 if p.ends is not None else 2 if p.rows is not None else 0
        args.scaling, args.dtype = SCALING[p.scaling], DTYPES[out.dtype]
        args.a_type = 1 if p.a.dtype == torch.float8_e5m2 else 0
        args.fast_accum, args.num_sms = p.fast, self.sms
        return args

    def launch(self, name: str, args: Args) -> bool:
        """False when the tile does not take the problem; raises on any other error."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        error = self.lib.tw_fp8_launch(self.index[name], ctypes.byref(args), stream)
        if error not in (0, NOT_SUPPORTED, NOT_BUILT):
            raise RuntimeError(f"{name}: {self.lib.tw_fp8_error(error).decode()}")
        return bool(error == 0)


def run_twice(h: Harness, name: str, p: Problem, dtype: torch.dtype, m: int, pitch: int) -> list[torch.Tensor] | str:
    """The results of three launches into poisoned memory; a message when they write where they must not."""
    outs = []
    for _ in range(3):
        guard = torch.full((p.a.shape[0] * pitch + 64,), math.nan, dtype=dtype, device="cuda")
        out = guard[: p.a.shape[0] * pitch].reshape(-1, pitch)
        if not h.launch(name, h.args(p, out, m)):
            return "skipped"
        torch.cuda.synchronize()
        if not guard[p.a.shape[0] * pitch :].isnan().all() or not out[:, p.n :].isnan().all():
            return "wrote past the output"
        outs.append(out[:, : p.n])
    same = all(torch.equal(outs[0].view(torch.uint8), o.view(torch.uint8)) for o in outs[1:]) if pitch == p.n else True
    return outs if same else "runs differ"


def compare(out: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> tuple[str, float]:
    error = ((out.double() - expected).norm() / expected.norm()).item() if expected.numel() else 0.0
    if error <= ERROR_LIMIT[dtype]:
        return "", error
    wrong = ((out.double() - expected).abs() > 0.02 * expected.abs().max()) | out.isnan()
    return f"{int(wrong.sum())} wrong, first {wrong.nonzero()[:3].tolist()}, {int(out.isnan().sum())} NaN", error


def check_plain(
    h: Harness, name: str, m: int, n: int, k: int, dtype: torch.dtype, **options: object
) -> tuple[str, float]:
    pad, bias = int(options.pop("pad", 0)), dtype if options.pop("bias", False) else None  # type: ignore[call-overload]
    fast = bool(options.pop("fast", True))
    p = make_problem(m, n, k, pad=pad, bias=bias, **options)  # type: ignore[arg-type]
    p.fast = fast
    outs = run_twice(h, name, p, dtype, m, n + (pad and 7))
    return (outs, 0.0) if isinstance(outs, str) else compare(outs[0], reference(p, slice(None), 0), dtype)


def check_special(h: Harness, name: str, m: int, dtype: torch.dtype) -> tuple[str, float]:
    """A NaN of A spoils its row alone, one of B its column alone, an infinite scale gives infinities."""
    p = make_problem(m, 200, 512, "row")
    p.a.view(torch.uint8)[m - 1, 77] = 0x7F
    p.b.view(torch.uint8)[137, 511] = 0xFF
    p.scale_a[0] = math.inf
    outs = run_twice(h, name, p, dtype, m, p.n)
    if isinstance(outs, str):
        return outs, 0.0
    expected = reference(p, slice(None), 0)
    agree = torch.equal(outs[0].isnan(), expected.isnan()) and torch.equal(outs[0].isinf(), expected.isinf())
    return "" if agree else "NaN or infinities differ from the reference", 0.0


def check_groups(h: Harness, name: str, masked: bool, scaling: str) -> tuple[str, float]:
    """Grouped products; rows that belong to no group keep what was there."""
    rows, n, k = [37, 0, 130, 1, 64], 264, 512
    per_group, dtype = 140, torch.bfloat16
    total = per_group * len(rows) if masked else sum(rows) + 5
    p = make_problem(total, n, k, scaling, bias=dtype, groups=len(rows))
    if masked:
        p.rows = torch.tensor(rows, dtype=torch.int32, device="cuda")
        starts = [g * per_group for g in range(len(rows))]
    else:
        p.ends = torch.tensor(rows, dtype=torch.int32, device="cuda").cumsum(0, dtype=torch.int32)
        starts = [sum(rows[:g]) for g in range(len(rows))]
    outs = run_twice(h, name, p, dtype, per_group if masked else total, n)
    if isinstance(outs, str):
        return outs, 0.0
    worst, owned = 0.0, torch.zeros(total, dtype=torch.bool, device="cuda")
    for g, (start, count) in enumerate(zip(starts, rows, strict=True)):
        span = slice(start, start + count)
        owned[span] = True
        message, error = compare(outs[0][span], reference(p, span, g), dtype)
        worst = max(worst, error)
        if message:
            return f"group {g}: {message}", error
    return ("" if outs[0][~owned].isnan().all() else "rows of no group were written"), worst


Check = Callable[[], tuple[str, float]]


def checks_of(h: Harness, name: str) -> dict[str, Check]:
    """The checks of one tile by what they are called."""
    f16, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
    top = h.info[name].max_m or 300
    runs: list[dict[str, object]] = [
        {"m": 1, "n": 4096, "k": 4096, "dtype": bf16, "scaling": "tensor"},
        {"m": top, "n": 512, "k": 2048, "dtype": bf16, "fast": False},
        {"m": top, "n": 8192, "k": 512, "dtype": f16, "bias": True},
        {"m": max(1, top - 3), "n": 1001, "k": 16 * 77, "dtype": bf16, "bias": True, "pad": 32},
        {"m": 2, "n": 37, "k": 16, "dtype": f32},
        {"m": 3, "n": 515, "k": 1536, "dtype": f32, "kind": "e5m2", "bias": True},
        {"m": top, "n": 300, "k": 1024, "dtype": bf16, "kind": "e5m2", "pad": 16, "scaling": "tensor"},
        {"m": top - 1, "n": 1000, "k": 128 * 9, "dtype": bf16, "scaling": "block", "bias": True},
        {"m": 5, "n": 4096, "k": 4096, "dtype": bf16, "scaling": "block", "k_major_scales": False},
        {"m": 4, "n": 77, "k": 128, "dtype": f32, "scaling": "block", "kind": "e5m2"},
        {"m": 7, "n": 7168, "k": 16384, "dtype": bf16},
        {"m": top, "n": 2050, "k": 7168, "dtype": bf16},
    ]
    checks: dict[str, Check] = {str(r): lambda r=r: check_plain(h, name, **r) for r in runs}  # type: ignore[misc]
    checks["special"] = lambda: check_special(h, name, min(top, 8), bf16)
    if not h.info[name].decode:
        for masked in (False, True):
            for scaling in ("row", "block"):
                label = f"groups {'masked' if masked else 'contiguous'} {scaling}"
                checks[label] = lambda m=masked, s=scaling: check_groups(h, name, m, s)  # type: ignore[misc]
    return checks


def check(h: Harness, names: list[str]) -> int:
    """Runs every check of every tile; prints what fails and the largest error. Returns the number of failures."""
    errors: list[float] = []
    failures = skipped = 0
    for name in names:
        for label, run in checks_of(h, name).items():
            try:
                message, error = run()
            except RuntimeError as failure:
                message, error = str(failure), math.nan
            if message == "skipped":
                skipped += 1
                continue
            errors.append(error)
            if message:
                failures += 1
                print(f"FAIL {name} {label}: {message} (nrmse {error:.3g})", flush=True)
                if failures > 20:
                    return failures
    print(f"{len(errors)} checks, {failures} failures, {skipped} not taken; nrmse max {max(errors):.3g}")
    return failures


def torch_call(p: Problem, out: torch.Tensor, row: bool) -> None:
    scale_a, scale_b = (p.scale_a, p.scale_b[0].T) if row else (p.scale_a[0, 0], p.scale_b[0, 0, 0])
    torch._scaled_mm(p.a, p.b.T, scale_a, scale_b, out_dtype=out.dtype, use_fast_accum=True, out=out)


class Timer:
    """Cold times by graph replay: launches rotate over copies of the weights, all candidates interleaved."""

    def __init__(self, h: Harness, n: int, k: int, scaling: str) -> None:
        self.h, self.n, self.k, self.scaling = h, n, k, scaling
        self.copies = max(2, min(48, math.ceil(ROTATED_BYTES / (n * k))))
        self.weights = [make_problem(1, n, k, scaling) for _ in range(self.copies)]

    def problems(self, m: int) -> list[Problem]:
        one = make_problem(m, 128, self.k, self.scaling)
        return [Problem(one.a, w.b, one.scale_a, w.scale_b, self.scaling) for w in self.weights]

    def graph(self, name: str, problems: list[Problem], out: torch.Tensor, repeats: int) -> torch.cuda.CUDAGraph | None:
        def call(i: int) -> bool:
            p = problems[i % self.copies]
            if name.startswith("torch"):
                torch_call(p, out, name == "torch_row")
                return True
            return self.h.launch(name, self.h.args(p, out))

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            taken = call(0)
        stream.synchronize()
        if not taken:
            return None
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(repeats):
                call(i)
        return graph

    def medians(self, names: list[str], m: int, estimate_us: float, rounds: int) -> dict[str, float]:
        problems = self.problems(m)
        out = torch.empty(m, self.n, device="cuda", dtype=torch.bfloat16)
        repeats = max(2, min(48, round(250 / estimate_us)))
        graphs = {name: g for name in names if (g := self.graph(name, problems, out, repeats)) is not None}
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


def floor_us(m: int, n: int, k: int) -> float:
    return max((n * k + m * k + 2 * m * n) / 4.43e6, 2 * m * n * k / 1540e6)


def candidates(h: Harness, m: int, names: list[str]) -> list[str]:
    """Decode tiles of the least size that takes m rows, and every tile without a limit."""
    sizes = sorted({h.info[x].max_m for x in names if h.info[x].max_m >= m})[:1]
    return [x for x in names if h.info[x].max_m in sizes or (h.info[x].max_m == 0 and m > 8)]


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def time_all(h: Harness, names: list[str], options: argparse.Namespace) -> None:
    result: dict[str, dict[str, float]] = {}
    gains: list[float] = []
    began = time.monotonic()
    peers = {"tensor": ["torch_tensor"], "row": ["torch_row"], "block": []}[options.scaling]
    for n, k in options.shapes:
        timer = Timer(h, n, k, options.scaling)
        for m in options.rows:
            if time.monotonic() - began > options.seconds:
                print("out of time")
                return
            floor = floor_us(m, n, k)
            times = timer.medians([*peers, *candidates(h, m, names)], m, 1.3 * floor + 2, options.rounds)
            result[f"{n}x{k}|{m}"] = {"floor": round(floor, 3), **{x: round(us, 3) for x, us in times.items()}}
            ranked = sorted((us, x) for x, us in times.items() if x not in peers)
            peer = min((times[x] for x in peers), default=math.nan)
            if ranked:
                gains.append(peer / ranked[0][0])
                best = " ".join(f"{x}={us:.2f}" for us, x in ranked[: options.top])
                print(f"{n}x{k} m{m} floor {floor:.2f} peer {peer:.2f} {gains[-1]:.2f}x | {best}", flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(result, indent=0))
        del timer
        torch.cuda.empty_cache()
    print(f"geometric mean over {len(gains)} cells: {geomean(gains):.3f}x; {time.monotonic() - began:.1f} s")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(x) for x in text.split(",")]  # noqa: E731
    shapes = lambda text: [tuple(map(int, s.split("x"))) for s in text.split(",")]  # noqa: E731
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--names", default="", help="comma-separated tiles of the harness; all when empty")
    parser.add_argument("--shapes", type=shapes, default=SHAPES, help="comma-separated NxK")
    parser.add_argument("--rows", type=numbers, default=ROWS, help="comma-separated M")
    parser.add_argument("--scaling", default="row", choices=list(SCALING))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=300.0, help="stop timing after this long")
    parser.add_argument("--top", type=int, default=4)
    parser.add_argument("--out", type=Path)
    parser.add_argument("action", choices=["check", "time"])
    return parser.parse_args()


def main() -> int:
    options = parse()
    torch.manual_seed(torch.seed() % 2**31)
    h = Harness(options.library)
    names = [x for x in options.names.split(",") if x] or list(h.index)
    if options.action == "check":
        return 1 if check(h, names) else 0
    time_all(h, names, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
