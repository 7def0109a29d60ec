"""Where the bytes of a wave come from: panels of A and B in an L2 that keeps the most recently used ones."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from .shape import TileShape


@dataclass(frozen=True)
class Traffic:
    """Mean over the waves of a problem."""

    waves: int
    tiles: int
    dram_bytes: float
    """Read from DRAM per wave."""
    miss_a: float
    """Part of the panels of A that were not in L2 when a wave began."""
    miss_b: float


def rasterise(rows: int, columns: int, supergroup: int, pairs: int) -> Iterator[tuple[int, int]]:
    """Tiles (row, column) in launch order: `pairs` columns of a cluster, down `supergroup` rows, then along N."""
    for top in range(0, rows, supergroup):
        for first in range(0, columns, pairs):
            for row in range(top, min(top + supergroup, rows)):
                for column in range(first, min(first + pairs, columns)):
                    yield row, column


def traffic(shape: TileShape, problem: tuple[int, int, int], sms: int, l2_bytes: float) -> Traffic:
    """Walks the waves of a persistent grid; a panel is one tile row of A or tile column of B over all of K.

    A wave runs in step along K, so a panel it needs is read at most once in it; a later wave finds the panel in L2 if
    less than `l2_bytes` of others were read since.
    """
    m, n, k = problem
    rows, columns = -(-m // shape.rows), -(-n // shape.columns)
    panel = {"a": 2 * shape.bytes_a * -(-k // shape.k), "b": 2 * shape.bytes_b * -(-k // shape.k)}
    tiles = list(rasterise(rows, columns, shape.supergroup, shape.pairs))
    slots = max(1, sms // 2)
    cache: OrderedDict[tuple[str, int], int] = OrderedDict()
    seen = {"a": 0, "b": 0}
    missed = {"a": 0, "b": 0}
    held = dram = 0
    for first in range(0, len(tiles), slots):
        wave = tiles[first : first + slots]
        wanted = {("a", row) for row, _ in wave} | {("b", column) for _, column in wave}
        for key in sorted(wanted):
            seen[key[0]] += 1
            if key in cache:
                cache.move_to_end(key)
                continue
            missed[key[0]] += 1
            dram += panel[key[0]]
            cache[key] = panel[key[0]]
            held += panel[key[0]]
        while held > l2_bytes and cache:
            held -= cache.popitem(last=False)[1]
    waves = -(-len(tiles) // slots)
    return Traffic(waves, len(tiles), dram / waves, missed["a"] / seen["a"], missed["b"] / seen["b"])
