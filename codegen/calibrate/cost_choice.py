"""Costs that were fitted to times, moved a little so that choices by them are right.

No sum of counts is exact, and the least squares do not know where an error matters: of two tiles of nearly equal cost,
where they compete. Here the regret is made small itself. It has steps, so the choice is softened: a tile is
taken with a probability that falls by e for each SOFTNESS by which its cost lies above the least. The errors of times
stay in the sum, so that coefficients which no choice depends on remain where they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .cost_fit import (
    KEYS,
    LEAST_WEIGHT,
    PICOSECONDS,
    TEMPERATURE,
    TRUSTED,
    Cost,
    Floats,
    Timed,
    cell_factors,
    features,
)

SOFTNESS = 0.01
CAP = 0.2
"""What is slower than the best by more than this share is wrong all the same, and an outlier at times."""
TIMES = 1.0
"""How much the errors of times count beside the regret."""
STEPS = 600
RATE = 0.004
"""Relative change of a coefficient by the first step; later ones fall to a tenth of it."""


@dataclass
class _Moved:
    """A tile on the way: where it was timed, its counts there, and the logarithms of its coefficients."""

    at: list[int]
    keys: list[str]
    counts: Floats
    logs: Floats
    target: Floats
    """Logarithms of its times, without what each cell has in common."""
    weights: Floats
    mean: Floats
    square: Floats

    def costs(self) -> Floats:
        found: Floats = self.counts @ np.exp(self.logs)
        return found

    def step(self, slope: Floats, number: int) -> None:
        """One step of Adam."""
        self.mean = 0.9 * self.mean + 0.1 * slope
        self.square = 0.99 * self.square + 0.01 * slope**2
        rate = RATE * (1 - 0.9 * number / STEPS)
        self.logs = self.logs - rate * self.mean / (1 - 0.9**number) / (
            np.sqrt(self.square / (1 - 0.99**number)) + 1e-9
        )


def refined(costs: Mapping[str, Cost], cells: Sequence[Timed]) -> dict[str, Cost]:
    """Costs with the same coefficients that are not 0, and other values of them."""
    best = np.array([min(c.times.values()) for c in cells])
    factors = cell_factors(cells, costs, best)
    tiles = [_moved(name, cost, cells, best, factors) for name, cost in costs.items()]
    behind = np.zeros((len(cells), len(tiles)))
    for column, (name, tile) in enumerate(zip(costs, tiles, strict=True)):
        times = np.array([cells[i].times[name] for i in tile.at])
        behind[tile.at, column] = np.minimum(np.log(times / best[tile.at]), CAP)
    for number in range(1, STEPS + 1):
        _step(tiles, behind, number)
    return {name: _cost(cost, tile) for (name, cost), tile in zip(costs.items(), tiles, strict=True)}


def _moved(name: str, cost: Cost, cells: Sequence[Timed], best: Floats, factors: Floats) -> _Moved:
    at = [i for i, cell in enumerate(cells) if name in cell.times]
    keys = [key for key in KEYS if cost.values.get(key)]
    rows = [features(cost.geometry, cost.blocks, cost.clusters, c.M, c.N, c.K) for c in (cells[i] for i in at)]
    counts = np.array(rows, np.float64)[:, [KEYS.index(key) for key in keys]]
    times = np.array([cells[i].times[name] for i in at])
    weights = np.maximum((times / best[at]) ** (-1 / TEMPERATURE), LEAST_WEIGHT)
    logs = np.log([cost.values[key] / PICOSECONDS for key in keys])
    none = np.zeros(len(keys))
    return _Moved(at, keys, counts, logs, np.log(times / factors[at]), weights, none, none)


def _step(tiles: Sequence[_Moved], behind: Floats, number: int) -> None:
    costs = [tile.costs() for tile in tiles]
    logs = np.full(behind.shape, np.inf)
    for column, (tile, cost) in enumerate(zip(tiles, costs, strict=True)):
        logs[tile.at, column] = np.log(cost)
    taken = np.exp((logs.min(axis=1, keepdims=True) - logs) / SOFTNESS)
    taken /= taken.sum(axis=1, keepdims=True)
    regret = (taken * behind).sum(axis=1, keepdims=True)
    slopes = taken * (regret - behind) / SOFTNESS
    for column, (tile, cost) in enumerate(zip(tiles, costs, strict=True)):
        error = np.log(cost) - tile.target
        slope = slopes[tile.at, column] + 2 * TIMES * tile.weights * error / np.sqrt(1 + (error / TRUSTED) ** 2)
        tile.step((slope / cost) @ tile.counts * np.exp(tile.logs), number)


def _cost(cost: Cost, tile: _Moved) -> Cost:
    values = np.exp(tile.logs) * PICOSECONDS
    moved = {key: round(float(value)) for key, value in zip(tile.keys, values, strict=True)}
    return Cost(cost.geometry, cost.blocks, cost.clusters, {key: value for key, value in moved.items() if value})
