"""Which decisions differ between two spec trees, over a declared grid or around the thresholds of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .grid import GridError, expand, grid_archs, grid_points
from .ir import Arch, Family, Input, SpecTree
from .models import GridFile
from .outcomes import Catalogue, Named, rule_numbers
from .vector import ABSENT, Evaluator, Ints, Outcomes


@dataclass(frozen=True)
class Change:
    """Problems of one arch that share everything but M, and move alike."""

    arch: str
    num_sms: int
    blocksize: int
    words: tuple[str, ...]
    """Of the enumerated inputs that rules of the arch read."""
    N: int
    K: int
    before: Named
    after: Named
    rules: tuple[str | None, str | None]
    """Rule of the first layer that moved, before and after."""
    direction: str
    M: tuple[int, ...]


@dataclass(frozen=True)
class ArchDifference:
    arch: str
    enumerated: int
    changes: tuple[Change, ...]
    reattributed: int
    """Problems that keep their outcomes, one of which is now decided by a rule of another id."""

    @property
    def changed(self) -> int:
        return sum(len(c.M) for c in self.changes)


@dataclass(frozen=True)
class Difference:
    """Everything that `tilewright diff` reports."""

    family: str
    grid: str
    archs: tuple[ArchDifference, ...]
    only_base: tuple[str, ...] = ()
    """Archs that only the base has; nothing is enumerated for them."""
    only_head: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    shape_names: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def enumerated(self) -> int:
        return sum(a.enumerated for a in self.archs)

    @property
    def changes(self) -> list[Change]:
        return [c for a in self.archs for c in a.changes]

    @property
    def changed(self) -> int:
        return sum(a.changed for a in self.archs)

    @property
    def reattributed(self) -> int:
        return sum(a.reattributed for a in self.archs)

    def count(self, key: Any) -> dict[Any, int]:
        """Changed problems by a property of their change, most frequent first."""
        counts: Counter[Any] = Counter()
        for change in self.changes:
            counts[key(change)] += len(change.M)
        return dict(counts.most_common())

    @property
    def directions(self) -> dict[str, int]:
        return self.count(lambda c: c.direction)

    @property
    def shapes(self) -> dict[tuple[int, int], int]:
        return dict(sorted(self.count(lambda c: (c.N, c.K)).items()))

    @property
    def m_range(self) -> tuple[int, int] | None:
        values = [m for c in self.changes for m in c.M]
        return (min(values), max(values)) if values else None


def compare(base: SpecTree, head: SpecTree, family: str, grid: GridFile | None) -> Difference:
    """Compare a family of two trees on a grid; without one, around every threshold of both trees.

    Raises GridError when a side lacks the family or cannot decide some problem.
    """
    sides = _Sides(_family(base, family, "base"), _family(head, family, "head"))
    archs = _archs(base, grid), _archs(head, grid)
    common = [a for n, a in archs[1].items() if n in archs[0]]
    found = []
    for arch in common:
        blocks = _seeded(sides, arch, archs[0][arch.name]) if grid is None else _declared(sides, arch, base, grid)
        found.append(sides.compare(arch.name, blocks))
    return Difference(
        family,
        "seeded from the rules" if grid is None else grid.name,
        tuple(found),
        tuple(n for n in archs[0] if n not in archs[1]),
        tuple(n for n in archs[1] if n not in archs[0]),
        tuple(_notes(base, head, sides)),
        {} if grid is None else {(p.N, p.K): p.name for p in grid_points(grid) if p.name},
    )


def _family(tree: SpecTree, name: str, side: str) -> Family:
    if name not in tree.families:
        raise GridError(f"the {side} has no family '{name}'; families: {', '.join(tree.families) or 'none'}")
    return tree.families[name]


def _archs(tree: SpecTree, grid: GridFile | None) -> dict[str, Arch]:
    return {a.name: a for a in (tree.archs.values() if grid is None else grid_archs(tree, grid))}


def _notes(base: SpecTree, head: SpecTree, sides: _Sides) -> Iterator[str]:
    profiles = [n for n in base.archs if n in head.archs and base.archs[n].profile != head.archs[n].profile]
    if profiles:
        yield f"arch profiles that differ: {', '.join(profiles)}"
    before, after = ([layer.name for layer in f.layers] for f in (sides.base, sides.head))
    if before != after:
        yield f"layers differ: {', '.join(before)} became {', '.join(after)}; common ones are compared"
    for item in sides.head.inputs:
        other = sides.base.input_by_name.get(item.name)
        if other is None:
            yield f"input {item.name} is new"
        elif item.limit != other.limit:
            yield f"the limit of {item.name} differs: {other.limit} became {item.limit}"
        elif item.is_enum and set(item.words) != set(other.words):
            yield f"words of {item.name} differ: {', '.join(other.words)} became {', '.join(item.words)}"
    moved = _moved_tiles(sides.base, sides.head)
    if moved:
        yield f"tiles that are new, gone or differ: {', '.join(moved)}"


def _moved_tiles(base: Family, head: Family) -> list[str]:
    before = {t.id: (t.engine, t.fields, t.requires) for t in base.tiles}
    after = {t.id: (t.engine, t.fields, t.requires) for t in head.tiles}
    return sorted(n for n in {*before, *after} if before.get(n) != after.get(n))


def _declared(sides: _Sides, arch: Arch, base: SpecTree, grid: GridFile) -> Iterator[dict[str, Any]]:
    cells = expand(sides.head, arch, grid, sides.enumerated(arch.name))
    counts = cells.num_sms
    if grid.num_sms == "profile":
        counts = tuple(sorted({*counts, *base.archs[arch.name].profile.sm_counts}))
    words = tuple((name, tuple(w for w in kept if sides.known(name, w))) for name, kept in cells.enums)
    yield dict(replace(cells, num_sms=counts, enums=words).problems(sides.head))


def _seeded(sides: _Sides, arch: Arch, before: Arch) -> Iterator[dict[str, Any]]:
    from .seeds import seeded_grid

    counts = tuple(sorted({*arch.profile.sm_counts, *before.profile.sm_counts}))
    wide = Arch(arch.profile.model_copy(update={"sm_counts": counts}), arch.location)
    for block in seeded_grid([sides.head, sides.base], wide, dense=False):
        read = {"dtype", *(i.name for i in sides.enumerated(arch.name))}
        for name in sides.enums:
            if name not in read:
                del block[name]
                continue
            kept = [i for i, w in enumerate(sides.head.input_by_name[name].words) if sides.known(name, w)]
            block[name] = block[name][kept]
        yield block


class _Sides:
    """The two families, and decisions of both on the same problems."""

    def __init__(self, base: Family, head: Family) -> None:
        self.base, self.head = base, head
        common = [layer.name for layer in head.layers if layer.name in base.layer_by_name]
        self.catalogue = Catalogue(common)
        self.common = common
        self.enums = [i.name for i in head.inputs if i.is_enum]

    def enumerated(self, arch: str) -> list[Input]:
        """Inputs of the head that rules of either side read on an arch."""
        read = {i.name for family in (self.base, self.head) for i in family.enumerated(arch)}
        return [i for i in self.head.inputs if i.name in read]

    def known(self, name: str, word: str) -> bool:
        """Whether the base knows the word of an enumerated input (or lacks the input altogether)."""
        item = self.base.input_by_name.get(name)
        return item is None or word in item.words

    def compare(self, arch: str, blocks: Iterator[dict[str, Any]]) -> ArchDifference:
        """Decide every block on both sides and collect what moved."""
        before, after = Evaluator(self.base, arch), Evaluator(self.head, arch)
        enumerated = reattributed = 0
        changes: list[Change] = []
        for block in blocks:
            try:
                sides = before.decide(self._for_base(block)), after.decide(block)
            except (KeyError, ValueError) as error:
                raise GridError(f"{arch} cannot be compared: {error.args[0]}") from None
            numbers = [self.catalogue.encode(f, o) for f, o in zip((self.base, self.head), sides, strict=True)]
            rules = self._rules(arch, sides)
            moved = numbers[0] != numbers[1]
            numbers = [np.broadcast_to(n, moved.shape) for n in numbers]
            enumerated += moved.size
            reattributed += int(np.count_nonzero(~moved & np.any(rules[0] != rules[1], axis=-1)))
            if moved.any():
                changes += self._changes(arch, block, numbers, rules, moved)
        return ArchDifference(arch, enumerated, tuple(changes), reattributed)

    def _for_base(self, block: dict[str, Any]) -> dict[str, Any]:
        """The block with words renumbered as the base numbers them."""
        result = {}
        for name, array in block.items():
            item = self.base.input_by_name.get(name)
            if item is None:
                continue
            words = self.head.input_by_name[name].words
            if item.is_enum and words != item.words:
                array = np.array([item.words.index(w) if w in item.words else 0 for w in words])[array]
            result[name] = array
        return result

    def _rules(self, arch: str, sides: tuple[Outcomes, Outcomes]) -> tuple[Ints, Ints]:
        """Rule numbers of the common layers on the last axis, for both sides."""
        self.rule_ids: dict[str, int] = {}
        result = []
        for family, outcomes in zip((self.base, self.head), sides, strict=True):
            layers = [family.layer_by_name[n] for n in self.common]
            result.append(
                np.stack([rule_numbers(x, arch, outcomes[x.name].rules, self.rule_ids) for x in layers], axis=-1)
            )
        shape = np.broadcast_shapes(result[0].shape, result[1].shape)
        return np.broadcast_to(result[0], shape), np.broadcast_to(result[1], shape)

    def _changes(
        self, arch: str, block: dict[str, Any], numbers: Sequence[Any], rules: tuple[Ints, Ints], moved: Any
    ) -> list[Change]:
        index = np.nonzero(moved)
        names = [n for n in ("num_sms", "blocksize", *self.enums, "N", "K") if n in block]
        columns = [np.broadcast_to(block[n], moved.shape)[index] for n in (*names, "M")]
        columns[-1:-1] = [numbers[0][index], numbers[1][index], *rules[0][index].T, *rules[1][index].T]
        table = np.unique(np.stack(columns, axis=-1), axis=0)
        starts = np.flatnonzero(np.any(np.diff(table[:, :-1], axis=0, prepend=-2) != 0, axis=1))
        return [
            self._change(arch, names, table[a], table[a:b, -1])
            for a, b in zip(starts, [*starts[1:], len(table)], strict=True)
        ]

    def _change(self, arch: str, names: list[str], row: Ints, m: Ints) -> Change:
        values = dict(zip(names, row.tolist(), strict=False))
        before, after = (self.catalogue.named[int(n)] for n in row[len(names) : len(names) + 2])
        layer, direction = self._direction(before, after)
        ids = {number: rule for rule, number in self.rule_ids.items()} | {ABSENT: None}
        at = len(names) + 2 + (self.common.index(layer) if layer in self.common else 0)
        words = tuple(self.head.input_by_name[n].words[values[n]] for n in self.enums if n in values)
        return Change(
            arch, values["num_sms"], values.get("blocksize", 0), words, values["N"], values["K"], before, after,
            (ids[int(row[at])], ids[int(row[at + len(self.common)])]), direction, tuple(m.tolist()),
        )  # fmt: skip

    def _direction(self, before: Named, after: Named) -> tuple[str, str]:
        """The first layer that moved and what it did; layers that only lead to the tile count as the tile."""
        moved = [n for n in self.common if before.values[n] != after.values[n]]
        for layer in moved:
            if all(isinstance(v, str) for v in self.head.layer_by_name[layer].values) and not self._tiles(layer):
                return layer, f"{layer}: {_shown(before.values[layer])} -> {_shown(after.values[layer])}"
        layer = moved[0] if moved else ""
        if before.tile != after.tile or not moved:
            return layer, f"tile: {_shown(before.tile)} -> {_shown(after.tile)}"
        return layer, f"{layer}: {before.values[layer]} -> {after.values[layer]} (same tile)"

    def _tiles(self, layer: str) -> bool:
        return self.head.layer_by_name[layer].kind == "tile"


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
