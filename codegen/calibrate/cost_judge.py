"""What costs would choose, how much slower that is than the best tile, and which tiles are worth their rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .cost_choice import refined
from .cost_fit import Cost, Geometry, Timed, fit_costs

MISSED = 1e-4
"""Mean regret that a tile must save to be kept."""


def cheapest(costs: Mapping[str, Cost], names: Iterable[str], cell: Timed) -> str | None:
    """The name with the least cost among those that could run, the first of equals, as the rules choose."""
    ordered = [n for n in costs if n in set(names)]
    return min(ordered, key=lambda n: costs[n].of(cell.M, cell.N, cell.K), default=None)


def regrets(costs: Mapping[str, Cost], cells: Iterable[Timed]) -> list[float]:
    """How much slower than the best tile the cheapest one is, cell by cell; infinite where no tile has a cost."""
    found = []
    for cell in cells:
        name = cheapest(costs, cell.times, cell)
        found.append(cell.times[name] / min(cell.times.values()) - 1 if name else math.inf)
    return found


def fitted(cells: Sequence[Timed], tiles: Mapping[str, Geometry]) -> dict[str, Cost]:
    """Costs of every tile that ran often enough: fitted to its times, then to the choices."""
    costs = fit_costs(cells, tiles)
    return refined(costs, cells) if costs else {}


def left_out(cells: Sequence[Timed], tiles: Mapping[str, Geometry], folds: int = 8) -> list[float]:
    """Regrets of cells whose weights took no part in the fit; none where there is one weight only."""
    shapes = sorted({(c.N, c.K) for c in cells})
    if len(shapes) < 2:
        return []
    found: dict[int, float] = {}
    for fold in range(min(folds, len(shapes))):
        away = set(shapes[fold::folds])
        costs = fitted([c for c in cells if (c.N, c.K) not in away], tiles)
        held = [(i, c) for i, c in enumerate(cells) if (c.N, c.K) in away]
        found |= dict(zip((i for i, _ in held), regrets(costs, [c for _, c in held]), strict=True))
    return [found[i] for i in sorted(found)]


def used(costs: Mapping[str, Cost], cells: Sequence[Timed]) -> dict[str, Cost]:
    """The costs without tiles that are hardly missed: each would be a rule that gains next to nothing."""
    kept = dict(costs)
    while len(kept) > 1:
        now = _total(kept, cells)
        lost = {n: _total({m: c for m, c in kept.items() if m != n}, cells) - now for n in kept}
        least = min(lost, key=lost.__getitem__)
        if lost[least] > MISSED * len(cells):
            break
        del kept[least]
    return kept


def _total(costs: Mapping[str, Cost], cells: Sequence[Timed]) -> float:
    return sum(math.log1p(min(r, 10.0)) for r in regrets(costs, cells))


def summary(found: Sequence[float], limit: float = 0.03) -> dict[str, Any]:
    """Cells, those more than 3 % slower than the best tile, and the geometric mean of the regret.

    Cells in which no tile has a cost do not count: rules behind the table decide there.
    """
    judged = [r for r in found if math.isfinite(r)]
    wrong = sum(r > limit for r in judged)
    mean = math.expm1(sum(map(math.log1p, judged)) / max(1, len(judged)))
    return {"cells": len(judged), "mispicked": wrong, "regret_geomean": round(mean, 5)}
