"""The report's pictures: crossover curves, regret by shape and M, drift of the card. SVG texts, the same each time."""

from __future__ import annotations

import io
import math
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.figure import Figure

from .analyse import Analysis

MAX_CURVES = 12
STYLE: dict[Any, Any] = {"svg.hashsalt": "tilewright", "svg.fonttype": "none", "font.family": "DejaVu Sans"}


def pictures(found: Analysis) -> list[tuple[str, str]]:
    """Title and SVG of every picture that the data allow."""
    with matplotlib.rc_context(STYLE):
        drawn = [
            ("Crossover: best other choice against today's", _crossover(found)),
            ("Proven regret of today's choice", _regret(found)),
            ("Drift: the same launch against itself, and its time", _drift(found)),
        ]
        return [(title, _svg(figure)) for title, figure in drawn if figure is not None]


def _svg(figure: Figure) -> str:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _crossover(found: Analysis) -> Figure | None:
    """A line a shape: the best challenger's ratio over M, with its bounds where it was re-run."""
    lines: dict[tuple[int, int, str], list[tuple[int, float, float, float]]] = {}
    for cell in found.cells:
        judged = sorted(cell.verdicts.items(), key=lambda e: -e[1].ratio)
        at = (*cell.choices.cell.shape, cell.choices.cell.dtype)
        if judged:
            best = judged[0][1]
            lines.setdefault(at, []).append((cell.choices.cell.M, best.ratio, best.low, best.high))
        elif cell.screened:
            ratio = max(cell.screened.values())
            lines.setdefault(at, []).append((cell.choices.cell.M, ratio, ratio, ratio))
    if not lines:
        return None
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    spread = sorted(lines.items(), key=lambda e: (-max(abs(math.log(p[1])) for p in e[1]), e[0]))
    for (N, K, dtype), points in spread[:MAX_CURVES]:
        points.sort()
        rows, ratios = [p[0] for p in points], [p[1] for p in points]
        below = [max(0.0, p[1] - p[2]) for p in points]
        above = [max(0.0, p[3] - p[1]) for p in points]
        axes.errorbar(rows, ratios, (below, above), marker="o", markersize=3, linewidth=1, label=f"{N}x{K} {dtype}")
    axes.axhspan(math.exp(-found.noise), math.exp(found.noise), color="#dddddd", zorder=0)
    axes.set(xscale="log", xlabel="M", ylabel="time today / time of the other")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=7, ncols=2)
    return figure


def _regret(found: Analysis) -> Figure | None:
    """Shape by M, the log of the proven speed-up in percent; blank where nothing was measured."""
    if not found.cells:
        return None
    shapes = sorted({c.choices.cell.shape for c in found.cells})
    rows = sorted({c.choices.cell.M for c in found.cells})
    table = [[math.nan] * len(rows) for _ in shapes]
    for cell in found.cells:
        i, j = shapes.index(cell.choices.cell.shape), rows.index(cell.choices.cell.M)
        value = 100 * math.expm1(cell.best[1])
        table[i][j] = value if math.isnan(table[i][j]) else max(table[i][j], value)
    size = max(6.0, 0.38 * len(rows) + 2.5), max(3.0, 0.24 * len(shapes) + 1.2)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(table, aspect="auto", cmap="magma_r", vmin=0)
    axes.set_xticks(range(len(rows)), [str(m) for m in rows], rotation=90, fontsize=7)
    axes.set_yticks(range(len(shapes)), [f"{n}x{k}" for n, k in shapes], fontsize=7)
    axes.set(xlabel="M", ylabel="N x K")
    figure.colorbar(image, ax=axes, label="faster choice, %")
    return figure


def _drift(found: Analysis) -> Figure | None:
    """In the order of measuring: the null ratio of a pass, and the incumbent's time over its median of all passes."""
    nulls = [(i, p.null) for i, p in enumerate(found.passes) if p.null is not None]
    usual: dict[str, list[float]] = {}
    for p in found.passes:
        if p.incumbent in p.times:
            usual.setdefault(f"{p.cell.key()}/{p.mode}", []).append(p.times[p.incumbent].median)
    if not nulls and not usual:
        return None
    middle = {k: sorted(v)[len(v) // 2] for k, v in usual.items()}
    drift = [
        (i, p.times[p.incumbent].median / middle[f"{p.cell.key()}/{p.mode}"])
        for i, p in enumerate(found.passes)
        if p.incumbent in p.times
    ]
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    if drift:
        axes.plot(*zip(*drift, strict=True), ".", markersize=3, color="#bbbbbb", label="time / its median")
    if nulls:
        axes.plot(*zip(*nulls, strict=True), ".", markersize=3, color="#1f68b3", label="same against same")
    axes.set(xlabel="pass, in the order of measuring", ylabel="ratio")
    axes.legend(fontsize=7)
    return figure
