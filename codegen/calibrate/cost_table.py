"""From the passes of a campaign to a cost table, its evidence record, and what the table would have chosen."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..expr import format_int
from ..ir import Family
from .cost_fit import KEYS, Cost, Timed
from .cost_judge import cheapest, fitted, left_out, regrets, summary, used
from .geometry import geometry
from .records import Header, Pass

WIDTH = 118
DIGITS = 4
"""Digits of a coefficient that are kept."""


@dataclass(frozen=True)
class Table:
    """A fitted table with the cells it came from."""

    name: str
    header: Header
    cells: tuple[Timed, ...]
    today: tuple[str, ...]
    """What ran each cell before."""
    costs: dict[str, Cost]
    held_out: tuple[float, ...]
    """Regrets of cells whose weights were left out of the fit."""

    def numbers(self) -> dict[str, Any]:
        """Before, in the fit, and held out by weights."""
        before = [c.times[t] / min(c.times.values()) - 1 for c, t in zip(self.cells, self.today, strict=True)]
        return {
            "before": summary(before),
            "fitted": summary(regrets(self.costs, self.cells)),
            "left_out": summary(self.held_out),
        }


def timed(passes: Iterable[Pass], field: str = "median") -> tuple[tuple[Timed, ...], tuple[str, ...]]:
    """Cells with the times of every candidate, and what ran them before. Cells without the latter are passed over."""
    cells, today = [], []
    for found in passes:
        times = {name: float(getattr(t, field)) for name, t in found.times.items()}
        if found.incumbent in times and len(times) > 1:
            cells.append(Timed(found.cell.M, found.cell.N, found.cell.K, times))
            today.append(found.incumbent)
    return tuple(cells), tuple(today)


def make_table(family: Family, name: str, header: Header, passes: Sequence[Pass], *, hold_out: bool = True) -> Table:
    """Fit, drop what is never the cheapest, and fit nothing else: the same passes give the same table."""
    cells, today = timed(p for p in passes if p.stage == "screen" and p.mode == "rotated")
    known = {t.id: geometry(t, header.device.num_sms) for t in family.tiles}
    tiles = {n: g for n, g in known.items() if g is not None}
    costs = used({n: _rounded(c) for n, c in fitted(cells, tiles).items()}, cells)
    order = [t.id for t in family.tiles if t.id in costs]
    held_out = tuple(left_out(cells, tiles)) if hold_out else ()
    return Table(name, header, cells, today, {n: costs[n] for n in order}, held_out)


def _rounded(cost: Cost) -> Cost:
    values = {}
    for key, value in cost.values.items():
        step = 10 ** max(0, int(math.log10(value)) + 1 - DIGITS)
        values[key] = (value + step // 2) // step * step
    return Cost(cost.geometry, cost.blocks, cost.clusters, values)


def document(table: Table, why: str) -> str:
    """The `costs/1` document."""
    lines = ["schema: costs/1", f"table: {table.name}", f"why: {why}", "costs:"]
    for name, cost in table.costs.items():
        lines += _entry(name, cost)
    return "\n".join(lines) + "\n"


def _entry(name: str, cost: Cost) -> list[str]:
    fields: dict[str, int] = {"rows": cost.geometry.rows, "columns": cost.geometry.columns, "blocks": cost.blocks}
    if cost.clusters:
        fields["clusters"] = cost.clusters
    fields |= {key: cost.values[key] for key in KEYS if key in cost.values}
    parts = [f"id: {name}", *(f"{key}: {format_int(value)}" for key, value in fields.items())]
    lines, current = [], "  - {" + parts[0]
    for part in parts[1:]:
        if len(current) + len(part) + 3 > WIDTH:
            lines.append(current + ",")
            current = "     " + part
        else:
            current += ", " + part
    return [*lines, current + "}"]


def compact(table: Table) -> str:
    """Times of every cell in whole nanoseconds, short enough to be committed; they give nearly the same table."""
    names = sorted({n for c in table.cells for n in c.times})
    rows = [
        [c.M, c.N, c.K, t, {str(names.index(n)): round(v * 1000) for n, v in c.times.items()}]
        for c, t in zip(table.cells, table.today, strict=True)
    ]
    head = {
        "schema": "cost-times/1",
        "table": table.name,
        "campaign": table.header.model_dump(by_alias=True),
        "numbers": table.numbers(),
        "tiles": names,
        "columns": ["M", "N", "K", "before", "nanoseconds by index of the tile"],
    }
    body = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    return json.dumps(head)[:-1] + f', "cells": [\n{body}\n]}}\n'


def read_compact(value: Mapping[str, Any]) -> tuple[tuple[Timed, ...], tuple[str, ...]]:
    """Cells of a file that `compact` wrote."""
    names = value["tiles"]
    cells = [Timed(M, N, K, {names[int(i)]: v / 1000 for i, v in t.items()}) for M, N, K, _, t in value["cells"]]
    return tuple(cells), tuple(row[3] for row in value["cells"])


def chosen(table: Table) -> list[str | None]:
    """What the table takes in every cell."""
    return [cheapest(table.costs, c.times, c) for c in table.cells]


def report(table: Table) -> str:
    """Markdown: how much slower than the best tile, before and after, by sizes of M."""
    numbers = table.numbers()
    lines = [
        f"# Costs `{table.name}`", "",
        f"{len(table.cells)} cells of {len({(c.N, c.K) for c in table.cells})} weights on "
        f"{table.header.device.product}, {sum(len(c.times) for c in table.cells)} times.", "",
        "| choice | cells | more than 3 % slower than the best tile | regret, geometric mean |", "|---|---|---|---|",
    ]  # fmt: skip
    for key, text in (("before", "rules before"), ("fitted", "these costs"), ("left_out", "fitted without the weight")):
        n = numbers[key]
        share = n["mispicked"] / max(1, n["cells"])
        lines.append(f"| {text} | {n['cells']} | {n['mispicked']} ({share:.1%}) | {n['regret_geomean']:.2%} |")
    lines += ["", "| tile | chosen in cells | costs |", "|---|---|---|"]
    picks = chosen(table)
    for name, cost in table.costs.items():
        terms = ", ".join(f"{k} {v}" for k, v in cost.values.items())
        lines.append(f"| {name} | {picks.count(name)} | {terms} |")
    worst = sorted(zip(regrets(table.costs, table.cells), table.cells, picks, strict=True), key=lambda w: -w[0])
    lines += ["", "Worst cells:", ""]
    for regret, cell, pick in worst[:10]:
        best = min(cell.times, key=cell.times.__getitem__)
        lines.append(f"- M={cell.M} {cell.N}x{cell.K}: {pick} is {regret:.1%} slower than {best}")
    return "\n".join(lines) + "\n"
