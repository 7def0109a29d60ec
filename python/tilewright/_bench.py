"""`python -m tilewright bench`: the product of a family on this card beside its peers.

Weights rotate through more memory than the L2 holds, a sample is one replay of a CUDA graph of many calls divided by
their number, handed over while the card still reads something else, and the peers take turns. Weights are told to be
static, as layers do outside of training. A peer whose result is wrong, or that fails, is left out and the reason is
printed.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from . import _decisions, _ops, _peers, _timing, info
from ._peers_4bit import Weights4bit
from ._peers_fp8 import WeightsFp8, WeightsNvfp4
from .layout import LAYOUTS, can_prepack

DEFAULT_SHAPES = ((4096, 4096), (14336, 4096), (4096, 14336))
_REPLAY_US = 250.0
_ROUNDS = 15
_WARMUP = 3
Call = Callable[[int], torch.Tensor]


class RefusedError(Exception):
    """Why nothing was timed."""


@dataclass(frozen=True)
class Subject:
    """What is timed: a family, the dtype of dense activations and of results, and the format of the weight.

    variant: quant_type of gemm_4bit, scaling of gemm_fp8, "" of gemm_nvfp4. layout: of the weight of gemm_4bit.
    """

    family: str
    dtype: str
    variant: str
    layout: str = LAYOUTS[0]

    def __str__(self) -> str:
        layout = "" if self.layout == LAYOUTS[0] else f", {self.layout}"
        words = {"gemm_4bit": f"{self.dtype} x {self.variant}{layout}", "gemm_fp8": f"e4m3, scales per {self.variant}"}
        return f"{self.family}, {words.get(self.family, 'e2m1')}"

    def contest(self, N: int, K: int, device: torch.device, rotated_bytes: float) -> _peers.Contest:
        """Copies of a weight, and the peers."""
        dtype = getattr(torch, self.dtype)
        if self.family == "gemm_4bit":
            if self.layout == "prepacked" and not can_prepack(N, K):
                raise RefusedError(f"--layout prepacked; {N}x{K}, where N is a multiple of 16 and K of 64")
            return Weights4bit(N, K, self.variant, dtype, device, rotated_bytes, self.layout)
        if self.family == "gemm_fp8":
            return WeightsFp8(N, K, self.variant, dtype, device, rotated_bytes)
        return WeightsNvfp4(N, K, dtype, device, rotated_bytes)


def subject(family: str, dtype: str, quant_type: str | None, scaling: str | None, layout: str | None = None) -> Subject:
    """The subject that the options name. RefusedError for an option of another family."""
    owners = {
        "--quant-type": ("gemm_4bit", quant_type),
        "--layout": ("gemm_4bit", layout),
        "--scaling": ("gemm_fp8", scaling),
    }
    for option, (owner, given) in owners.items():
        if given is not None and owner != family:
            raise RefusedError(f"{option} {given}; it is an option of --family {owner}, not of {family}")
    variant = {"gemm_4bit": quant_type or "nf4", "gemm_fp8": scaling or "row"}.get(family, "")
    return Subject(family, dtype, variant, layout or LAYOUTS[0])


@dataclass(frozen=True)
class Row:
    """One problem: microseconds a call by peer (None: left out), and what tilewright launched."""

    M: int
    N: int
    K: int
    tile: str
    us: dict[str, float | None]


@dataclass(frozen=True)
class Result:
    """All timings of one run."""

    card: str
    subject: Subject
    versions: dict[str, str]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def to_json(self) -> str:
        """The same as JSON."""
        return json.dumps(asdict(self), indent=2)

    def __str__(self) -> str:
        peers = list(self.rows[0].us)
        head = ["N x K", "M", "tile", *(f"{peer} us" for peer in peers), "x dense"]
        table = [head, *(_cells(row, peers) for row in self.rows)]
        widths = [max(len(line[column]) for line in table) for column in range(len(head))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
        title = f"{self.card}, {self.subject}; median us a call, cold weights"
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return "\n".join([title, versions, "", *lines, *(f"note: {note}" for note in self.notes)])


def problems(shapes: Sequence[str], rows: str) -> list[tuple[int, int, int]]:
    """(M, N, K) from "4096x4096" and "1,16"; RefusedError for what is no number."""
    try:
        sizes = [tuple(int(part) for part in shape.lower().split("x")) for shape in shapes] or list(DEFAULT_SHAPES)
        counts = [int(part) for part in rows.split(",") if part.strip()]
    except ValueError:
        sizes, counts = [], []
    if not sizes or not counts or any(len(size) != 2 or min(size) < 1 for size in sizes) or min(counts) < 1:
        given = " ".join([*(f"--shape {shape}" for shape in shapes), f"--rows {rows}"])
        raise RefusedError(f"{given}; expected such as --shape 4096x4096 --rows 1,16,256")
    if any(K % 64 for _, K in sizes):
        raise RefusedError(f"--shape {' '.join(shapes)}; K must be a multiple of 64")
    return [(M, N, K) for N, K in sizes for M in counts]


def run(problems: Sequence[tuple[int, int, int]], subject: Subject, device: int) -> Result:
    """Times the problems on a CUDA device. RefusedError without one, or without kernels for it."""
    if not torch.cuda.is_available():
        raise RefusedError("bench needs a CUDA device, and torch finds none; python -m tilewright doctor says why")
    if not 0 <= device < torch.cuda.device_count():
        raise RefusedError(f"--device {device}; there are {torch.cuda.device_count()} CUDA devices, counted from 0")
    found = torch.cuda.get_device_properties(device)
    if _ops.NATIVE.arch_for(found.major, found.minor) is None:
        raise RefusedError(f"no kernels for {found.name}: {info.build_info()['statement']}")
    with torch.cuda.device(device):
        rotated = max(200e6, 2.0 * getattr(found, "L2_cache_size", 0))
        return measure(problems, subject, torch.device("cuda", device), found.name, rotated, time_graphs)


def measure(
    problems: Sequence[tuple[int, int, int]],
    subject: Subject,
    device: torch.device,
    card: str,
    rotated_bytes: float,
    timer: Callable[[dict[str, Call]], dict[str, float]],
) -> Result:
    """The table, with any timer on any device."""
    notes: dict[str, None] = {}
    rows: list[Row] = []
    contest: _peers.Contest | None = None
    for M, N, K in problems:
        if contest is None or (contest.N, contest.K) != (N, K):
            contest = None  # free the last one first
            contest = subject.contest(N, K, device, rotated_bytes)
        x = torch.randn(M, K, device=device, dtype=getattr(torch, subject.dtype))
        calls, reasons = _peers.calls(contest, x)
        if "tilewright" not in calls:
            raise RefusedError(f"M={M}, N={N}, K={K}: {reasons['tilewright']}")
        calls["tilewright"](0)
        last = _decisions.last_decision(_ops.NATIVE, device.type)
        us = timer(calls)
        tile = "" if last is None else last.tile or last.path
        rows.append(Row(M, N, K, tile, {peer: us.get(peer) for peer in contest.names}))
        notes |= {f"{peer} is left out: {reason}": None for peer, reason in reasons.items()}
    return Result(card, subject, _peers.versions(), tuple(rows), tuple(notes))


def time_graphs(calls: dict[str, Call]) -> dict[str, float]:
    """Median microseconds a call, from replays of CUDA graphs in turns."""
    lead = _timing.Lead(torch.device("cuda"))
    samples = _timing.time_in_turns(calls, lead, _ROUNDS, _WARMUP, _REPLAY_US)
    return {name: statistics.median(values) for name, values in samples.items()}


def time_calls(calls: dict[str, Call]) -> dict[str, float]:
    """Median microseconds a call by the clock of the host: for devices without graphs."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for index in range(3):
        for name, call in calls.items():
            start = time.perf_counter()
            call(index)
            samples[name].append((time.perf_counter() - start) * 1e6)
    return {name: statistics.median(values) for name, values in samples.items()}


def check_plot(path: Path) -> None:
    """RefusedError for a picture that could not be written, before minutes are spent on what it would show."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise RefusedError("--plot needs matplotlib: pip install matplotlib") from None
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise RefusedError(f"--plot {path}; the name must end in one of {', '.join(f'.{kind}' for kind in known)}")
    if not path.parent.is_dir():
        raise RefusedError(f"--plot {path}; there is no folder {path.parent}")


def draw(result: Result, path: Path) -> None:
    """Speed relative to dense over M, one line a shape."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for N, K in dict.fromkeys((row.N, row.K) for row in result.rows):
        points = [(row.M, ratio) for row in result.rows if (row.N, row.K) == (N, K) if (ratio := _ratio(row))]
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{N} x {K}") if points else None
    axes.axhline(1, color="grey", linewidth=1)
    axes.set(xscale="log", xlabel="M (rows of activations)", ylabel="speed, dense = 1", title=result.card)
    axes.set_xscale("log", base=2)
    axes.legend(title="N x K")
    figure.savefig(path)


def _ratio(row: Row) -> float | None:
    ours, dense = row.us["tilewright"], row.us["dense"]
    return dense / ours if ours and dense and math.isfinite(dense / ours) else None


def _cells(row: Row, peers: list[str]) -> list[str]:
    times = [row.us[peer] for peer in peers]
    ratio = _ratio(row)
    shown = ["-" if value is None else f"{value:.1f}" for value in times]
    return [f"{row.N} x {row.K}", str(row.M), row.tile, *shown, "-" if ratio is None else f"{ratio:.2f}"]
