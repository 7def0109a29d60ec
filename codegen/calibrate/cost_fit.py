"""Costs from times: for every tile the coefficients of a cost table, so that the least cost is the fastest tile.

The times of a tile are a sum of counts of the problem (`models.costs`), each times a coefficient that is not negative.
What a cell has in common, a clock that fell or a card that warmed up, is taken out of it; cells in which a tile is far
from being chosen count little, and so do times that lie far from what the others say. Everything is deterministic: the
same times give the same coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = "npt.NDArray[np.float64]"

KEYS = (
    "start", "step", "each", "each_step", "round", "round_step", "whole", "whole_step", "share", "share_step",
    "weight", "input", "output", "outside_step",
)  # fmt: skip
PICOSECONDS = 1e6
"""In a microsecond."""
ROUNDS = 5
"""Times that all coefficients are fitted, each with the weights and common factors of the one before."""
TEMPERATURE = 0.2
"""A tile slower than the best by e^TEMPERATURE counts 1/e."""
LEAST_WEIGHT = 0.03
TRUSTED = 0.05
"""Errors beyond this count as their size, not as their square: some times are off, and no sum of counts is exact."""
NEAR = 1.3
"""Tiles up to so many times slower than the best tell what a cell has in common."""
MIN_CELLS = 8


@dataclass(frozen=True)
class Geometry:
    """What a tile computes at a time: rows and columns of the output, parts of K, and tiles at once on the card."""

    rows: int
    columns: int
    split: int
    resident: int


@dataclass(frozen=True)
class Timed:
    """One cell: the problem, and the microseconds of every tile that ran it."""

    M: int
    N: int
    K: int
    times: Mapping[str, float]


@dataclass
class Cost:
    """Fitted coefficients of one tile, in picoseconds."""

    geometry: Geometry
    blocks: int
    clusters: int
    values: dict[str, int] = field(default_factory=dict)

    known: dict[tuple[int, int, int], int] = field(default_factory=dict, compare=False, repr=False)

    def of(self, M: int, N: int, K: int) -> int:
        """The cost as the rules compute it."""
        if (M, N, K) not in self.known:
            self.known[M, N, K] = self._sum(M, N, K)
        return self.known[M, N, K]

    def _sum(self, M: int, N: int, K: int) -> int:
        counts = features(self.geometry, self.blocks, self.clusters, M, N, K)
        return sum(self.values.get(key, 0) * count for key, count in zip(KEYS, counts, strict=True))


def features(tile: Geometry, blocks: int, clusters: int, M: int, N: int, K: int) -> tuple[int, ...]:
    """The counts that KEYS are multiplied by."""
    columns = -(-N // tile.columns)
    tiles, steps = -(-M // tile.rows) * columns, -(-K // 64)
    last = tiles - 1
    rounds = last // blocks
    wholes = (last + max(0, blocks - clusters)) // blocks if clusters else 0
    shares = last // clusters if clusters else 0
    outside = M * (tile.rows - 1) % tile.rows * columns
    return (
        1, steps, tiles, tiles * steps, rounds, rounds * steps, wholes, wholes * steps, shares, shares * steps,
        N * K // 1024, M * K // 1024, M * N // 1024, outside * steps,
    )  # fmt: skip


def layouts(tile: Geometry) -> list[tuple[int, int]]:
    """Pairs of (blocks, clusters) that may be resident: clusters do not always fill the card."""
    if tile.split == 1:
        return [(tile.resident, 0)]
    most = tile.resident // tile.split
    return [(c * tile.split, c) for c in range(most, max(1, most * 5 // 6) - 1, -1)]


def nonnegative(A: Floats, y: Floats) -> tuple[Floats, float]:
    """The x >= 0 that minimises |A x - y|, and that distance (Lawson and Hanson)."""
    scale = np.sqrt((A * A).sum(axis=0))
    scale[scale == 0] = 1.0
    A = A / scale
    x = np.zeros(A.shape[1])
    active = np.zeros(A.shape[1], bool)
    limit = 1e-9 * max(1.0, float(np.abs(A.T @ y).max()))
    for _ in range(10 * A.shape[1]):
        slope = A.T @ (y - A @ x)
        slope[active] = -np.inf
        best = int(np.argmax(slope))
        if slope[best] <= limit:
            break
        active[best] = True
        while True:
            trial = np.zeros_like(x)
            # Not by the normal equations: their rounding would differ between machines in digits that are kept.
            trial[active] = np.linalg.lstsq(A[:, active], y, rcond=1e-10)[0]
            low = active & (trial <= 0)
            if not low.any():
                x = trial
                break
            step = np.min(x[low] / np.maximum(x[low] - trial[low], 1e-300))
            x = x + step * (trial - x)
            active &= x > 1e-14
            x[~active] = 0.0
    return x / scale, float(np.linalg.norm(A @ (x) - y))


def fit_costs(cells: Sequence[Timed], tiles: Mapping[str, Geometry]) -> dict[str, Cost]:
    """Costs of every tile that ran often enough."""
    places = _places(cells, tiles)
    common = np.ones(len(cells))
    best = np.array([min(c.times.values()) for c in cells])
    costs: dict[str, Cost] = {}
    for number in range(ROUNDS):
        predicted = _predictions(cells, costs) if number else None
        costs = {name: _one(name, at, cells, tiles[name], common, best, predicted) for name, at in places.items()}
        common = cell_factors(cells, costs, best)
    return costs


def _places(cells: Sequence[Timed], tiles: Mapping[str, Geometry]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, cell in enumerate(cells):
        for name in cell.times:
            found.setdefault(name, []).append(index)
    return {name: at for name, at in found.items() if name in tiles and len(at) >= MIN_CELLS}


def _predictions(cells: Sequence[Timed], costs: Mapping[str, Cost]) -> list[dict[str, float]]:
    return [{n: max(1.0, costs[n].of(c.M, c.N, c.K)) for n in c.times if n in costs} for c in cells]


def _one(
    name: str, at: list[int], cells: Sequence[Timed], tile: Geometry, common: Floats, best: Floats,
    predicted: list[dict[str, float]] | None,
) -> Cost:  # fmt: skip
    times = np.array([cells[i].times[name] for i in at])
    behind = np.maximum(0.0, np.log(times / best[at]))
    weights = np.ones(len(at))
    if predicted is not None:
        expected = np.array([math.log(predicted[i][name] / min(predicted[i].values())) for i in at])
        weights = np.maximum(np.exp(-np.minimum(behind, expected) / TEMPERATURE), LEAST_WEIGHT)
    target = times / common[at]
    if predicted is not None:
        error = target * PICOSECONDS / np.array([predicted[i][name] for i in at]) - 1
        weights = weights / (1 + (error / TRUSTED) ** 2) ** 0.25
    weights = weights / target
    found: tuple[float, Cost] | None = None
    for blocks, clusters in layouts(tile):
        rows = [features(tile, blocks, clusters, cells[i].M, cells[i].N, cells[i].K) for i in at]
        A = np.array(rows, np.float64) * weights[:, None]
        x, distance = nonnegative(A, target * weights)
        if found is None or distance < found[0] * (1 - 1e-9):
            values = {k: round(float(v) * PICOSECONDS) for k, v in zip(KEYS, x, strict=True)}
            found = distance, Cost(tile, blocks, clusters, {k: v for k, v in values.items() if v})
    assert found is not None
    return found[1]


def cell_factors(cells: Sequence[Timed], costs: Mapping[str, Cost], best: Floats) -> Floats:
    """How much slower than predicted a cell is as a whole."""
    found = np.ones(len(cells))
    for index, cell in enumerate(cells):
        logs = [
            math.log(cell.times[n] * PICOSECONDS / max(1, costs[n].of(cell.M, cell.N, cell.K)))
            for n in cell.times
            if n in costs and cell.times[n] < NEAR * best[index]
        ]
        if logs:
            found[index] = math.exp(float(np.median(logs)))
    return found
