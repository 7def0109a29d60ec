"""The decision map as data: for each arch, rows of shapes or of N, and along each row runs of M that decide alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .grid import ArchGrid, Point, grid_points
from .ir import FALLBACK, Arch, Family, SpecTree
from .models import GridFile
from .outcomes import Catalogue, Named
from .vector import ABSENT, Evaluator, Outcomes

BASES = ("measured", "conservative", "contract", "modelled", "reported", "assumed")
"""How well founded a decision is, best first; a decision is as good as the worst rule it rests on."""


@dataclass(frozen=True)
class Question:
    """What the map is of: everything but arch, M and weight shape."""

    dtype: str
    words: tuple[tuple[str, str], ...]
    """Further enumerated inputs and their word."""
    blocksize: int
    m_limit: int


@dataclass(frozen=True)
class Run:
    """Neighbouring M of one row that decide alike: `first` to `last`, both included."""

    first: int
    last: int
    label: str
    """What is launched; in a map of differences, what it was and what it becomes."""
    group: str
    """Engine, `fallback`, or in a map of differences the direction."""
    basis: str


@dataclass(frozen=True)
class Row:
    point: Point
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Panel:
    """One arch."""

    arch: str
    products: tuple[str, ...]
    num_sms: int
    rows: tuple[Row, ...]

    @property
    def moved(self) -> bool:
        return any(row.runs for row in self.rows)


def shape_points(grid: GridFile) -> tuple[Point, ...]:
    """Shapes of the grid, smallest weight first."""
    return tuple(sorted(grid_points(grid), key=lambda p: (p.N * p.K, p.N)))


def n_points(family: Family, k: int, rows: int = 72) -> tuple[Point, ...]:
    """Multiples of 64 spread evenly over the logarithm of N, from 256 to 131072, for one K."""
    limit = min(131_072, family.input_by_name["N"].limit)
    values = np.unique(np.round(np.geomspace(256, limit, rows) / 64).astype(np.int64) * 64)
    return tuple(Point(int(n), k) for n in values)


def panel(family: Family, arch: Arch, question: Question, points: Sequence[Point], num_sms: int | None = None) -> Panel:
    """Decide every M up to the limit for each point."""
    cells = _cells(family, arch, question, points, num_sms)
    outcomes = Evaluator(family, arch.name).decide(cells.problems(family))
    catalogue = Catalogue([layer.name for layer in family.layers])
    numbers = _rows_of(catalogue.encode(family, outcomes), cells)
    bases = _rows_of(_bases(family, arch.name, outcomes), cells)
    describe = [(named.label, engine_of(family, named)) for named in catalogue.named]
    rows = tuple(Row(p, tuple(_runs(numbers[i], bases[i], [describe], cells.M))) for i, p in enumerate(cells.points))
    return Panel(arch.name, arch.profile.products, cells.num_sms[0], rows)


def difference_panel(
    base: Family, head: Family, arch: Arch, question: Question, points: Sequence[Point], num_sms: int | None = None
) -> Panel:
    """Only the M at which the two families launch something else, or a layer decides otherwise."""
    cells = _cells(head, arch, question, points, num_sms)
    layers = [layer.name for layer in head.layers if layer.name in base.layer_by_name]
    catalogue = Catalogue(layers)
    numbers = []
    for family in (base, head):
        shared = replace(cells, enums=tuple(e for e in cells.enums if e[0] in family.input_by_name))
        outcomes = Evaluator(family, arch.name).decide(shared.problems(family))
        numbers.append(_rows_of(catalogue.encode(family, outcomes), cells))
        bases = _rows_of(_bases(family, arch.name, outcomes), cells)
    count = len(catalogue.named)
    keys = np.where(numbers[0] == numbers[1], -1, numbers[0] * count + numbers[1])
    describe = [[_moved(a, b) for b in catalogue.named] for a in catalogue.named]
    rows = tuple(Row(p, tuple(_runs(keys[i], bases[i], describe, cells.M))) for i, p in enumerate(cells.points))
    return Panel(arch.name, arch.profile.products, cells.num_sms[0], rows)


def _cells(family: Family, arch: Arch, question: Question, points: Sequence[Point], num_sms: int | None) -> ArchGrid:
    enums = (*((n, (w,)) for n, w in question.words), ("dtype", (question.dtype,)))
    count = arch.profile.sm_counts[0] if num_sms is None else num_sms
    m = tuple(range(1, min(question.m_limit, family.input_by_name["M"].limit) + 1))
    return ArchGrid(arch.name, (count,), enums, tuple(points), m, question.blocksize)


def _rows_of(array: Any, cells: ArchGrid) -> Any:
    return array.reshape(len(cells.points), len(cells.M))


def _bases(family: Family, arch: str, outcomes: Outcomes) -> Any:
    """Index in BASES of the worst basis among the rules that decided; a rule without basis counts as assumed."""
    worst: Any = 0
    for layer in family.layers:
        table = [BASES.index(r.basis) if r.basis in BASES else len(BASES) - 1 for r in layer.effective(arch)]
        rules = outcomes[layer.name].rules
        worst = np.maximum(worst, np.where(rules == ABSENT, 0, np.array([*table, 0])[rules]))
    return worst


def engine_of(family: Family, named: Named) -> str:
    """The engine of what is launched, or `fallback`."""
    if named.tile is not None:
        return family.tile_by_id[named.tile].engine
    return FALLBACK if named.label == FALLBACK else named.label


def _moved(before: Named, after: Named) -> tuple[str, str]:
    sides = [FALLBACK if n.label == FALLBACK else "custom" for n in (before, after)]
    if before.label == after.label:
        return "inner layers differ", "same launch"
    return f"{before.label} \u2192 {after.label}", f"{sides[0]} \u2192 {sides[1]}"


def _runs(keys: Any, bases: Any, describe: Sequence[Sequence[tuple[str, str]]], m: Sequence[int]) -> Iterator[Run]:
    """Runs of equal key and basis; key -1 is left out, others are row and column of `describe` in one number."""
    width = len(describe[0])
    changes = (np.diff(keys, prepend=-2) != 0) | (np.diff(bases, prepend=-2) != 0)
    starts: list[int] = np.flatnonzero(changes).tolist()
    pending: Run | None = None
    for start, end in zip(starts, [*starts[1:], len(m)], strict=True):
        if keys[start] < 0:
            continue
        label, group = describe[int(keys[start]) // width][int(keys[start]) % width]
        run = Run(m[start], m[end - 1], label, group, BASES[int(bases[start])])
        if pending is not None and _continues(pending, run):
            pending = replace(pending, last=run.last)
            continue
        if pending is not None:
            yield pending
        pending = run
    if pending is not None:
        yield pending


def _continues(run: Run, following: Run) -> bool:
    return run.last + 1 == following.first and replace(run, first=0, last=0) == replace(following, first=0, last=0)


def panels(
    tree: SpecTree, family: Family, question: Question, points: Sequence[Point], archs: Sequence[Arch],
    base: Family | None = None, num_sms: int | None = None,
) -> list[Panel]:  # fmt: skip
    """One panel an arch; with a base family, what moved against it."""
    if base is None:
        return [panel(family, arch, question, points, num_sms) for arch in archs]
    return [difference_panel(base, family, arch, question, points, num_sms) for arch in archs]
