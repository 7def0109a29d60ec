"""Grids of problems as broadcastable arrays, for one arch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .ir import Arch, Family, Input, SpecTree
from .models import GridFile
from .vector import Ints

DEFAULT_GRID = "decisions"
"""Grid that commands use unless one is named."""


class GridError(ValueError):
    """The grid names something the tree does not have, or holds problems outside the family's limits."""


@dataclass(frozen=True)
class Point:
    """A weight matrix of a grid: N output features, K input features, and where it occurs."""

    N: int
    K: int
    name: str = ""


@dataclass(frozen=True)
class ArchGrid:
    """All problems of a grid for one arch; axes are num_sms, further enumerations, dtype, shape, M in this order."""

    arch: str
    num_sms: tuple[int, ...]
    enums: tuple[tuple[str, tuple[str, ...]], ...]
    """Enumerated inputs with the words enumerated; dtype comes last. What is left out has its first word."""
    points: tuple[Point, ...]
    M: tuple[int, ...]
    blocksize: int

    @property
    def shape(self) -> tuple[int, ...]:
        words = (len(words) for _, words in self.enums)
        return (len(self.num_sms), *words, len(self.points), len(self.M))

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    def problems(self, family: Family) -> dict[str, Ints]:
        """Inputs of the family as arrays that broadcast to `shape`."""
        axes = len(self.shape)
        arrays = {
            "num_sms": _on_axis(self.num_sms, 0, axes),
            "N": _on_axis([p.N for p in self.points], axes - 2, axes),
            "K": _on_axis([p.K for p in self.points], axes - 2, axes),
            "M": _on_axis(self.M, axes - 1, axes),
            "blocksize": np.array(self.blocksize),
        }
        for axis, (name, words) in enumerate(self.enums, start=1):
            known = family.input_by_name[name].words
            arrays[name] = _on_axis([known.index(w) for w in words], axis, axes)
        return {name: array for name, array in arrays.items() if name in family.input_by_name}

    def problem(self, index: Sequence[int]) -> dict[str, int | str]:
        """The problem at an index of the grid, as `evaluate.decide` takes it."""
        point = self.points[index[-2]]
        problem: dict[str, int | str] = {"M": self.M[index[-1]], "N": point.N, "K": point.K}
        problem["num_sms"] = self.num_sms[index[0]]
        problem["blocksize"] = self.blocksize
        problem.update({name: words[index[axis]] for axis, (name, words) in enumerate(self.enums, start=1)})
        return problem


def _on_axis(values: Sequence[int], axis: int, axes: int) -> Ints:
    return np.array(values, np.int64).reshape([-1 if i == axis else 1 for i in range(axes)])


def pick_grid(trees: Sequence[SpecTree], family: str, name: str | None) -> GridFile:
    """The named grid of the first tree that has it. Without a name `decisions`, or else the family's first.

    Raises GridError.
    """
    wanted = name or DEFAULT_GRID
    for tree in trees:
        grid = tree.grids.get(wanted)
        if grid is not None and grid.family == family:
            return grid
    found = {n: g for tree in reversed(trees) for n, g in tree.grids.items() if g.family == family}
    if name is None and found:
        return next(iter(found.values()))
    known = sorted(found)
    raise GridError(f"family '{family}' has no grid '{wanted}'; grids: {', '.join(known) or 'none'}")


def grid_archs(tree: SpecTree, grid: GridFile) -> list[Arch]:
    """The archs of a tree that the grid enumerates; names the tree lacks are left out."""
    return [a for a in tree.archs.values() if grid.archs == "all" or a.name in grid.archs]


def expand(family: Family, arch: Arch, grid: GridFile, enumerated: Sequence[Input] | None = None) -> ArchGrid:
    """The grid's problems for one arch. Raises GridError for words or values the family does not have.

    Of the enumerated inputs besides dtype only those are enumerated that the arch's rules read, or those given.
    """
    if grid.num_sms == "profile":
        counts = arch.profile.sm_counts
    elif grid.num_sms == "first":
        counts = arch.profile.sm_counts[:1]
    else:
        counts = grid.num_sms
    dtypes = family.dtypes if grid.dtypes == "all" else grid.dtypes
    unknown = [d for d in dtypes if d not in family.dtypes]
    if unknown:
        raise GridError(f"grid '{grid.name}' names dtype '{unknown[0]}'; known: {', '.join(family.dtypes)}")
    enums = [(i.name, i.words) for i in (family.enumerated(arch.name) if enumerated is None else enumerated)]
    points = grid_points(grid)
    if not points:
        raise GridError(f"grid '{grid.name}' has no shapes: give `shapes`, or both N and K")
    found = ArchGrid(
        arch.name, tuple(counts), (*enums, ("dtype", tuple(dtypes))), points, tuple(grid.M), grid.blocksize
    )
    for name, array in found.problems(family).items():
        limit = family.input_by_name[name].limit
        if limit and array.max() > limit:
            raise GridError(f"grid '{grid.name}' has {name} = {array.max()}; the family's limit is {limit}")
    return found


def grid_points(grid: GridFile) -> tuple[Point, ...]:
    """The grid's shapes, then the product of its N and K."""
    listed = [Point(s.N, s.K, s.name) for s in grid.shapes]
    return (*listed, *(Point(n, k) for n in grid.N for k in grid.K))


def block_size(problems: Mapping[str, Any]) -> int:
    """How many problems broadcastable arrays stand for."""
    return int(np.prod(np.broadcast_shapes(*(np.shape(a) for a in problems.values())), dtype=np.int64))


def seeded_grid(family: Family, arch: Arch, *, dense: bool = True) -> Iterator[dict[str, Ints]]:
    """Problems around every threshold of the arch's rules; see `seeds.seeded_grid`."""
    from .seeds import seeded_grid as generate

    return generate([family], arch, dense=dense)
