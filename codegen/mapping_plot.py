"""Draws decision maps with matplotlib: tiles as colours grouped by engine, evidence as hatching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline

from .ir import FALLBACK
from .mapping import BASES, Panel, Row

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "tilewright",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "hatch.linewidth": 0.5,
}
HATCHES = {
    "measured": "", "conservative": "", "contract": "", "modelled": "---", "reported": "...", "assumed": "////",
}  # fmt: skip
BASIS_WORDS = {
    "measured": "measured", "conservative": "tighter than measured", "contract": "required by the kernel",
    "modelled": "modelled", "reported": "reported by others", "assumed": "assumed",
}  # fmt: skip
FALLBACK_COLOUR = "#e4e4e4"
RAMPS = (
    ("#fdd49e", "#f57f17", "#8c2d04"),
    ("#c9ecf4", "#45b5cf", "#1f68b3", "#35277f"),
    ("#dcf2b0", "#4bb05f", "#00441b"),
    ("#fbcfe8", "#dd3497", "#49006a"),
    ("#f3e6a0", "#b59a1b", "#4d3d00"),
)
"""Colours of engines in the order of their first appearance; a tile is one step on its engine's ramp."""
LEGEND_LINES = 6
"""Entries of one legend column; further ones go beside it."""
MOVE_RAMPS = {
    "fallback \u2192 custom": ("#c7e9c0", "#31a354", "#00441b"),
    "custom \u2192 fallback": ("#fcbba1", "#de2d26", "#67000d"),
    "custom \u2192 custom": ("#c9ecf4", "#45b5cf", "#1f68b3", "#35277f"),
    "same launch": ("#dddddd", "#888888"),
}


@dataclass(frozen=True)
class Picture:
    """Texts of a map, and what it shows."""

    title: str
    subtitle: str
    panels: Sequence[Panel]
    by_shape: bool
    difference: bool
    m_limit: int


def draw(picture: Picture, path: Path) -> None:
    """Write the map as PNG or SVG, by the suffix. The bytes depend on the picture and matplotlib's version only."""
    with matplotlib.rc_context(STYLE):
        figure = _figure(picture)
        metadata: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=110, metadata=metadata)


def _figure(picture: Picture) -> Figure:
    count = max(1, len(picture.panels))
    if not picture.panels:
        return _empty(picture)
    columns = min(count, 2 if picture.by_shape else 3)
    lines = -(-count // columns)
    rows = max((len(p.rows) for p in picture.panels), default=1)
    height = 1.1 + 0.235 * rows if picture.by_shape else 3.6
    colours = _colours(picture)
    longest = max((len(labels) for labels in colours.values()), default=0)
    legend_lines = 2 + min(LEGEND_LINES, longest)
    foot = 0.12 + 0.205 * legend_lines
    width = 2.6 + 5.1 * columns if picture.by_shape else 1.0 + 4.6 * columns
    total = 1.05 + lines * (height + 0.55) + foot
    figure = Figure(figsize=(max(width, 9.6), total))
    figure.text(0.012, 1 - 0.34 / total, picture.title, fontsize=15, weight="bold", va="center")
    figure.text(0.012, 1 - 0.66 / total, picture.subtitle, fontsize=10, color="#444444", va="center")
    left = (2.35 if picture.by_shape else 0.85) / figure.get_size_inches()[0]
    grid = figure.add_gridspec(
        lines, columns, left=left, right=0.985, top=1 - 1.25 / total, bottom=(foot + 0.55) / total,
        hspace=0.85 / height, wspace=0.06 if picture.by_shape else 0.08,
    )  # fmt: skip
    for index, panel in enumerate(picture.panels):
        axes = figure.add_subplot(grid[index // columns, index % columns])
        _panel(axes, panel, picture, colours, first=index % columns == 0, last=index + columns >= count)
    _legend(figure, picture, colours, foot / total)
    return figure


def _empty(picture: Picture) -> Figure:
    figure = Figure(figsize=(9.6, 1.0))
    figure.text(0.012, 0.66, picture.title, fontsize=15, weight="bold", va="center")
    figure.text(0.012, 0.3, picture.subtitle, fontsize=10, color="#444444", va="center")
    return figure


def _colours(picture: Picture) -> dict[str, dict[str, Any]]:
    """Colour of each label, by group; fallback first, then engines as they appear from small M to large."""
    first: dict[str, dict[str, int]] = {}
    for panel in picture.panels:
        for row in panel.rows:
            for run in row.runs:
                labels = first.setdefault(run.group, {})
                labels[run.label] = min(run.first, labels.get(run.label, run.first))
    groups = sorted(first, key=lambda g: (g == FALLBACK, min(first[g].values()), g))
    colours: dict[str, dict[str, Any]] = {}
    ramps = iter(RAMPS * 4)
    for group in groups:
        names = sorted(first[group], key=_natural)
        ramp = MOVE_RAMPS.get(group) or (("#888888",) * 2 if group == FALLBACK else next(ramps))
        colour_map = LinearSegmentedColormap.from_list(group, ramp)
        steps = np.linspace(0.0, 1.0, len(names)) if len(names) > 1 else [0.5]
        colours[group] = {label: colour_map(step) for label, step in zip(names, steps, strict=True)}
    if FALLBACK in colours:
        colours[FALLBACK] = dict.fromkeys(colours[FALLBACK], FALLBACK_COLOUR)
    return colours


def _natural(label: str) -> tuple[tuple[int, ...], str]:
    digits = "".join(c if c.isdigit() else " " for c in label).split()
    return tuple(int(d) for d in digits), label


def _panel(
    axes: Any, panel: Panel, picture: Picture, colours: dict[str, dict[str, Any]], *, first: bool, last: bool
) -> None:
    edges = _edges(panel.rows, picture.by_shape)
    boxes: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    hatched: dict[str, list[tuple[float, float, float, float]]] = {}
    for row, (low, high) in zip(panel.rows, edges, strict=True):
        for run in row.runs:
            box = (run.first - 0.5, run.last + 0.5, low, high)
            boxes.setdefault((run.group, run.label), []).append(box)
            if HATCHES[run.basis] and run.group != FALLBACK:
                hatched.setdefault(run.basis, []).append(box)
    for (group, label), found in sorted(boxes.items()):
        colour = colours[group][label]
        axes.add_patch(PathPatch(_outline(found), facecolor=colour, edgecolor=colour, linewidth=0.3, zorder=1))
    for basis, found in sorted(hatched.items()):
        axes.add_patch(
            PathPatch(_outline(found), fill=False, edgecolor="#00000038", linewidth=0, hatch=HATCHES[basis], zorder=2)
        )
    if picture.by_shape:
        _write_labels(axes, panel, picture, colours)
    _axes(axes, panel, picture, edges, first=first, last=last)


def _write_labels(axes: Any, panel: Panel, picture: Picture, colours: dict[str, dict[str, Any]]) -> None:
    """The name of each run that is wide enough, in it."""
    inches_per_octave = 4.95 / np.log2(2 * picture.m_limit + 1)
    for y, row in enumerate(panel.rows):
        for run in row.runs:
            ends = np.log2([run.first - 0.5, run.last + 0.5])
            if (ends[1] - ends[0]) * inches_per_octave < 0.06 + 0.056 * len(run.label):
                continue
            red, green, blue = to_rgb(colours[run.group][run.label])
            dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.55
            colour = "#777777" if run.group == FALLBACK else "#ffffff" if dark else "#1a1a1a"
            axes.text(
                2 ** ends.mean(), y, run.label, fontsize=6.5, ha="center", va="center", color=colour, clip_on=True
            )


def _edges(rows: Sequence[Row], by_shape: bool) -> list[tuple[float, float]]:
    """Lower and upper end of each row: unit steps for shapes, midway between neighbours for N."""
    if by_shape:
        return [(i - 0.42, i + 0.42) for i in range(len(rows))]
    n = np.array([row.point.N for row in rows], float)
    middle = np.sqrt(n[1:] * n[:-1])
    ends = np.concatenate([[n[0] ** 2 / middle[0]], middle, [n[-1] ** 2 / middle[-1]]])
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def _outline(boxes: Sequence[tuple[float, float, float, float]]) -> Outline:
    """One path around all boxes: a hatch then runs through them, and files stay small."""
    corners = [corner for x0, x1, y0, y1 in boxes for corner in ((x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0))]
    codes = [Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO, Outline.CLOSEPOLY] * len(boxes)
    return Outline(corners, codes)


def _axes(
    axes: Any, panel: Panel, picture: Picture, edges: list[tuple[float, float]], *, first: bool, last: bool
) -> None:
    product = f" \u00b7 {panel.products[0]}" if panel.products else ""
    axes.set_title(f"{panel.arch}{product} \u00b7 {panel.num_sms} SMs", fontsize=10.5, loc="left", pad=5)
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.5, picture.m_limit + 0.5)
    ticks = [1 << e for e in range(picture.m_limit.bit_length()) if 1 << e <= picture.m_limit]
    axes.set_xticks(ticks, [str(t) for t in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set_axisbelow(False)
    axes.grid(axis="x", color="#ffffff" if not picture.difference else "#dddddd", linewidth=0.4, alpha=0.45)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if picture.by_shape:
        axes.set_ylim(-0.6, len(panel.rows) - 0.4)
        names = [_shape_name(row) for row in panel.rows]
        axes.set_yticks(range(len(names)), names if first else [""] * len(names), fontsize=8)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_yscale("log", base=2)
        axes.set_ylim(edges[0][0], edges[-1][1])
        axes.set_yticks(
            [1 << e for e in range(8, 18)], [str(1 << e) if first else "" for e in range(8, 18)], fontsize=8
        )
        axes.minorticks_off()
    if first:
        axes.set_ylabel("weight N \u00d7 K, largest on top" if picture.by_shape else "output features N", fontsize=9)
    if last:
        axes.set_xlabel("rows of activations M", fontsize=9)


def _shape_name(row: Row) -> str:
    size = f"{row.point.N} \u00d7 {row.point.K}"
    return f"{row.point.name}  {size}" if row.point.name else size


def _legend(figure: Figure, picture: Picture, colours: dict[str, dict[str, Any]], top: float) -> None:
    position = 0.012
    inch = 1 / figure.get_size_inches()[0]
    step = 0.205 / figure.get_size_inches()[1]
    for group, labels in colours.items():
        heading = "no kernel" if group == FALLBACK else group
        figure.text(position, top, heading, fontsize=9, weight="bold", va="top")
        column = (0.5 + 0.073 * max(len(label) for label in labels)) * inch
        for index, (label, colour) in enumerate(labels.items()):
            x = position + index // LEGEND_LINES * column
            y = top - (1 + index % LEGEND_LINES) * step
            _swatch(figure, x, y, inch, step, label, facecolor=colour)
        beside = -(-len(labels) // LEGEND_LINES)
        position += max(beside * column, (0.25 + 0.083 * len(heading)) * inch)
    used = {r.basis for p in picture.panels for row in p.rows for r in row.runs if r.group != FALLBACK}
    if used:
        figure.text(position, top, "rests on figures that are", fontsize=9, weight="bold", va="top")
    for index, basis in enumerate((b for b in BASES if b in used), start=1):
        _swatch(
            figure, position, top - index * step, inch, step, BASIS_WORDS[basis],
            facecolor="#ffffff", hatch=HATCHES[basis] or None,
        )  # fmt: skip


def _swatch(figure: Figure, x: float, y: float, inch: float, step: float, label: str, **style: Any) -> None:
    box = Rectangle(
        (x, y - 0.8 * step), 0.24 * inch, 0.68 * step, transform=figure.transFigure, linewidth=0.5,
        edgecolor="#777777", **style,
    )  # fmt: skip
    figure.add_artist(box)
    figure.text(x + 0.31 * inch, y - 0.45 * step, label, fontsize=8.5, va="center")
