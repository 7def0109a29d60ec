"""A designed grid: weights of real models by sizes of M, and seeded points on both sides of today's thresholds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..grid import Point
from ..ir import Arch, Family, Layer
from ..vector import Evaluator
from .candidates import Choices, choices
from .records import Cell
from .shapes import ROWS, SHAPES

DENSE_M = 2048
DENSE_N = 512
"""Multiples of 64 that N is searched over."""


@dataclass(frozen=True)
class Design:
    """What a campaign covers. `seeded` counts the points taken around thresholds."""

    dtypes: tuple[str, ...]
    num_sms: int
    points: tuple[Point, ...] = SHAPES
    rows: tuple[int, ...] = ROWS
    blocksize: int = 64
    words: tuple[tuple[str, str], ...] = ()
    seeded: int = 60
    max_cells: int | None = None
    through: bool = False
    seed: int = 1

    def cell(self, arch: str, dtype: str, M: int, N: int, K: int) -> Cell:
        words = dict(self.words)
        return Cell(
            arch=arch, num_sms=self.num_sms, dtype=dtype, M=M, N=N, K=K, blocksize=self.blocksize, words=words
        )  # fmt: skip


def plan(family: Family, arch: Arch, layer: Layer, design: Design) -> list[Choices]:
    """The cells that the layer decides and that have a challenger, in a fixed order."""
    cells = [
        design.cell(arch.name, dtype, M, point.N, point.K)
        for point in design.points
        for dtype in design.dtypes
        for M in design.rows
    ]
    cells += Seeds(family, arch, layer, design).cells()
    found = [choices(family, arch, layer, c, through=design.through) for c in {c.key(): c for c in cells}.values()]
    contested = [c for c in found if c is not None and c.challengers]
    if design.max_cells is not None and len(contested) > design.max_cells:
        picked = sorted(random.Random(design.seed).sample(range(len(contested)), design.max_cells))
        contested = [contested[i] for i in picked]
    return contested


class Seeds:
    """Cells on both sides of the flips of a layer's outcome."""

    def __init__(self, family: Family, arch: Arch, layer: Layer, design: Design) -> None:
        self.family, self.arch, self.layer, self.design = family, arch, layer, design
        self.evaluator = Evaluator(family, arch.name)

    def cells(self) -> list[Cell]:
        """A seeded choice among all flips along M and along N: as many of the one kind as of the other."""
        count, chosen = self.design.seeded // 4, []
        generator = random.Random(self.design.seed)
        for pairs in (list(self._along_m()), list(self._along_n())):
            picked = sorted(generator.sample(range(len(pairs)), min(count, len(pairs))))
            chosen += [cell for index in picked for cell in pairs[index]]
        return chosen

    def _along_m(self) -> Iterator[tuple[Cell, Cell]]:
        rows = np.arange(1, DENSE_M + 1)
        for dtype in self.design.dtypes:
            for point in self.design.points:
                for at in self._flips(dtype, M=rows, N=point.N, K=point.K):
                    yield self._pair(dtype, ((int(rows[i]), point.N) for i in (at, at + 1)), point.K)

    def _along_n(self) -> Iterator[tuple[Cell, Cell]]:
        columns = np.arange(1, DENSE_N + 1) * 64
        for dtype in self.design.dtypes:
            for K in sorted({p.K for p in self.design.points}):
                for M in self.design.rows:
                    for at in self._flips(dtype, M=M, N=columns, K=K):
                        yield self._pair(dtype, ((M, int(columns[i])) for i in (at, at + 1)), K)

    def _pair(self, dtype: str, sizes: Iterator[tuple[int, int]], K: int) -> tuple[Cell, Cell]:
        first, second = (self.design.cell(self.arch.name, dtype, M, N, K) for M, N in sizes)
        return first, second

    def _flips(self, dtype: str, **sizes: Any) -> list[int]:
        words = {"dtype": dtype, **dict(self.design.words)}
        codes = {n: self.family.input_by_name[n].words.index(w) for n, w in words.items()}
        given = {**sizes, **codes, "num_sms": self.design.num_sms, "blocksize": self.design.blocksize}
        problems = {name: np.asarray(value) for name, value in given.items() if name in self.family.input_by_name}
        found = self.evaluator.decide(problems)[self.layer.name].codes
        return [int(i) for i in np.flatnonzero(np.diff(found))]
