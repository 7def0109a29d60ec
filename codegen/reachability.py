"""Which rules fire and which tiles are launched, arch by arch, on problems seeded from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .conditions import Conds
from .expr import names
from .ir import FALLBACK, Cap, Choice, Family, Layer, Rule, SpecTree, Value
from .probes import seed_problems, thresholds

COLUMNS, ROWS = 2000, 20
"""Size of the first survey: columns are choices of all inputs but M."""
RETRY_COLUMNS = 3000
"""Size of the second, which is aimed at the rules that the first did not reach."""

ABSENT = -1
"""Rule index and outcome code where a layer has no outcome."""

Problem = Mapping[str, "int | str"]


@dataclass
class LayerRun:
    """One layer of one arch on all problems. Both arrays are -1 where the layer has no outcome."""

    layer: Layer
    effective: tuple[Rule, ...]
    conds: Conds
    rules: Any
    """Index of the rule that fired, in `effective`."""
    codes: Any = None
    """Index of the outcome, in `layer.values`."""

    def without(self, index: int, done: ArchRun) -> Any:
        """Outcome codes if the list had no rule `index` and none before it; -1 where nothing is left."""
        first = _first(self.effective, index + 1, self.conds, self.rules.shape)
        return _codes(self.layer, self.effective, first, done)


@dataclass
class ArchRun:
    """All layers of one arch on all problems."""

    survey: Survey
    arch: str
    layers: dict[str, LayerRun] = field(default_factory=dict)
    _fired: dict[str, list[Rule]] = field(default_factory=dict)

    def for_twin(self, arch: str) -> ArchRun:
        """The run of an arch that has the same rules."""
        twin = replace(self, arch=arch)
        twin.tiles = self.tiles
        return twin

    def fired(self, layer: str) -> list[Rule]:
        """The rules that fired somewhere, in order."""
        if layer not in self._fired:
            run = self.layers[layer]
            counts = np.bincount(run.rules.ravel() + 1)[1:]
            self._fired[layer] = [run.effective[i] for i in np.flatnonzero(counts)]
        return self._fired[layer]

    @cached_property
    def tiles(self) -> Any:
        """Index in `family.tiles` of the tile that is launched, else -1."""
        order = {tile.id: index for index, tile in enumerate(self.survey.family.tiles)}
        result = np.full(self.survey.shape, ABSENT, np.int16)
        for name, run in self.layers.items():
            layer = self.survey.family.layer_by_name[name]
            if layer.kind == "tile":
                table = np.array([*(order[str(v)] for v in layer.values), ABSENT], np.int16)
                np.copyto(result, table[run.codes], where=run.codes != ABSENT)
        return result

    def picked_by(self, at: tuple[int, int]) -> Rule:
        """The rule whose choice is the tile launched at a place; a rule that keeps a tile is looked through."""
        for layer in reversed(self.survey.family.layers):
            run = self.layers.get(layer.name)
            if layer.kind == "tile" and run is not None and run.rules[at] != ABSENT:
                rule: Rule = run.effective[int(run.rules[at])]
                if isinstance(rule.outcome, Choice):
                    return rule
        raise LookupError("no tile is launched there")

    def place(self, mask: Any) -> tuple[int, int]:
        """A place where the mask holds, if possible with an SM count of the arch's own cards, and there the least M."""
        mask = np.broadcast_to(mask, self.survey.shape)
        usual = mask & np.isin(self.survey.values["num_sms"], self.survey.sm_counts.get(self.arch, ()))
        mask = usual if usual.any() else mask
        column = int(np.argmax(mask.any(axis=1)))
        rows = np.flatnonzero(mask[column])
        return column, int(rows[np.argmin(self.survey.values["M"][column, rows])])

    def problem(self, at: tuple[int, int]) -> Problem:
        """The problem at a place, with words for enumerated inputs."""
        result: dict[str, int | str] = {}
        for item in self.survey.family.inputs:
            array = self.survey.values[item.name]
            value = int(array[at if array.shape[1] > 1 else (at[0], 0)])
            result[item.name] = item.words[value] if item.is_enum else value
        return result


class Survey:
    """A family on one set of problems; `run` decides them for an arch."""

    def __init__(self, tree: SpecTree, family: Family, values: Mapping[str, Any]) -> None:
        self.family = family
        self.values = values
        self.sm_counts = {name: arch.profile.sm_counts for name, arch in tree.archs.items()}
        self.shape: tuple[int, int] = values["M"].shape
        self.shared = {layer.name: Conds(layer, values) for layer in family.layers}

    def runs(self, archs: Iterable[str]) -> Iterator[ArchRun]:
        """Runs of the archs, those with the same rules one after the other: they share the work."""
        alike: dict[tuple[int, ...], list[str]] = {}
        for arch in archs:
            rules = tuple(id(r) for layer in self.family.layers for r in layer.effective(arch))
            alike.setdefault(rules, []).append(arch)
        for first, *others in alike.values():
            run = self.run(first)
            yield run
            for arch in others:
                yield run.for_twin(arch)

    def run(self, arch: str) -> ArchRun:
        """Every layer on every problem. Problems that meet no rule have no outcome."""
        result = ArchRun(self, arch)
        env = dict(self.values)
        for layer in self.family.layers:
            run = self._layer(layer, arch, env, result)
            result.layers[layer.name] = run
            for name, table in self.published[layer.name].items():
                env[name] = table[run.codes]
        return result

    @cached_property
    def published(self) -> Mapping[str, Mapping[str, Any]]:
        """By layer: what later layers read of its outcome, as tables by code; the last entry is for ABSENT."""
        read = {n for conds in self.shared.values() for n in conds.all_names()}
        return {layer.name: dict(_published(self.family, layer, read)) for layer in self.family.layers}

    def _layer(self, layer: Layer, arch: str, env: Mapping[str, Any], done: ArchRun) -> LayerRun:
        conds = Conds(layer, env, self.shared[layer.name])
        effective = layer.effective(arch)
        rules = _first(effective, 0, conds, self.shape)
        gate = conds.all_hold(layer.gate)
        for earlier in {n.split(".")[0] for c in layer.gate for n in names(c)} & set(done.layers):
            gate = gate & (done.layers[earlier].codes != ABSENT)
        np.copyto(rules, ABSENT, where=~gate)
        return LayerRun(layer, effective, conds, rules, _codes(layer, effective, rules, done))


def _published(family: Family, layer: Layer, read: set[str]) -> Iterator[tuple[str, Any]]:
    for name in read:
        owner, _, field_name = name.partition(".")
        if owner == layer.name:
            yield name, np.array([*(_as_int(family, layer, v, field_name) for v in layer.values), 0], np.int64)


def _as_int(family: Family, layer: Layer, value: Value, field_name: str) -> int:
    if field_name:
        return int(family.tile_by_id[str(value)].fields[field_name])
    return value if isinstance(value, int) else layer.values.index(value)


def _first(rules: Sequence[Rule], start: int, conds: Conds, shape: tuple[int, int]) -> Any:
    """Index of the first rule from `start` on that holds, else ABSENT.

    The least index by byte arithmetic: a byte is 0 where a rule holds and 255 elsewhere, so `| index` gives
    the index or "none".
    """
    kind = np.uint8 if len(rules) < 255 else np.uint16
    none = np.iinfo(kind).max
    first = np.full(shape, none, kind)
    for index in range(start, len(rules)):
        held = conds.all_hold(rules[index].conds)
        if held.any():
            np.minimum(first, (held.view(np.uint8).astype(kind, copy=False) - kind(1)) | kind(index), out=first)
        if not rules[index].conds:
            break
    result = first.astype(np.int16)
    np.copyto(result, ABSENT, where=first == none)
    return result


def _codes(layer: Layer, rules: Sequence[Rule], fired: Any, done: ArchRun) -> Any:
    """Outcome codes for indices of rules."""
    if layer.kind == "m_cap":
        caps = np.array([*(_cap(r) for r in rules), 0], np.int64)
        codes = (done.survey.values["M"] > caps[fired]).astype(np.int16)
    else:
        table = [layer.values.index(r.outcome.value) if isinstance(r.outcome, Choice) else ABSENT for r in rules]
        codes = np.array([*table, ABSENT], np.int16)[fired]
    if layer.repairs:
        earlier = done.survey.family.layer_by_name[layer.repairs].values
        kept = np.array([*(layer.values.index(v) for v in earlier), ABSENT], np.int16)
        np.copyto(codes, kept[done.layers[layer.repairs].codes], where=codes == ABSENT)
    np.copyto(codes, ABSENT, where=fired == ABSENT)
    return codes


def _cap(rule: Rule) -> int:
    if isinstance(rule.outcome, Cap):
        return int(np.iinfo(np.int64).max) if rule.outcome.limit is None else rule.outcome.limit
    return 0 if isinstance(rule.outcome, Choice) and rule.outcome.value == FALLBACK else int(np.iinfo(np.int64).max)


def surveys(tree: SpecTree, family: Family) -> Iterator[ArchRun]:
    """Runs of every arch: first on problems seeded from all rules, then on some aimed at what did not fire.

    Each run is dropped by the caller before the next is made, so that memory stays small.
    """
    sm_counts = sorted({s for a in tree.archs.values() for s in a.profile.sm_counts})
    missing = {(layer.name, r.id) for layer in family.layers for s in layer.sections for r in s.rules}
    survey = Survey(tree, family, seed_problems(family, sm_counts, _all(family), COLUMNS, ROWS))
    for run in survey.runs(tree.archs):
        missing -= _fired(run)
        yield run
    if not missing:
        return
    archs = [a for a in tree.archs if any(_has(layer, a, missing) for layer in family.layers)]
    wanted = [(y, [r for s in y.sections for r in s.rules if (y.name, r.id) in missing]) for y in family.layers]
    found = thresholds(family, wanted)
    survey = Survey(tree, family, seed_problems(family, sm_counts, found, RETRY_COLUMNS, ROWS, seed=1000))
    yield from survey.runs(archs)


def _all(family: Family) -> Any:
    return thresholds(family, [(layer, None) for layer in family.layers])


def _fired(run: ArchRun) -> set[tuple[str, str]]:
    return {(n, r.id) for n in run.layers for r in run.fired(n)}


def _has(layer: Layer, arch: str, missing: set[tuple[str, str]]) -> bool:
    return any((layer.name, r.id) in missing for r in layer.effective(arch))
