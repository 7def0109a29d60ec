"""Which rules fire and which tiles are launched, arch by arch, on problems seeded from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .expr import COMPARE, Compare, Cond, Pred, names
from .ir import AnyCond, Choice, Family, Layer, Rule, SpecTree
from .probes import FactEnv, seed_problems, thresholds
from .vector import ABSENT, Program, compile_layer, evaluate_arrays

COLUMNS, ROWS = 2400, 24
"""Size of the first survey: columns are choices of all inputs but M."""
RETRY_COLUMNS = 3000
"""Size of the second, which is aimed at the rules that the first did not reach."""

Problem = Mapping[str, "int | str"]


class _Conds:
    """Truth of conditions on a fixed set of problems. What reads no outcome is computed once for all archs."""

    def __init__(self, layer: Layer, values: Mapping[str, Any], shared: _Conds | None = None) -> None:
        self.layer = layer
        self.env = FactEnv({f.name: f.expr for f in layer.facts}, values)
        self.shared = shared
        self.known: dict[Any, Any] = {}

    @cached_property
    def tainted(self) -> set[str]:
        """Facts and predicates that depend on an earlier outcome."""
        inputs = set(self.env)
        bad: set[str] = set()
        for fact in self.layer.facts:
            if any(n in bad or n not in inputs for n in names(fact.expr)):
                bad.add(fact.name)
            inputs.add(fact.name)
        for predicate in self.layer.predicates:
            used = [n for t in predicate.terms for n in _names(t)]
            if any(n in bad or n not in inputs for n in used):
                bad.add(predicate.name)
            inputs.add(predicate.name)
        return bad | {n for n in self._all_names() if n not in inputs}

    def _all_names(self) -> set[str]:
        return {n for c in _all_conds(self.layer) for n in _names(c)}

    def holds(self, cond: Cond | AnyCond) -> Any:
        if self.shared is not None and not any(n in self.shared.tainted for n in _names(cond)):
            return self.shared.holds(cond)
        value = self.known.get(cond)
        if value is None:
            value = self.known[cond] = self._compute(cond)
        return value

    def _compute(self, cond: Cond | AnyCond) -> Any:
        if isinstance(cond, AnyCond):
            return np.logical_or.reduce(np.broadcast_arrays(*(self.holds(c) for c in cond.conds)))
        if isinstance(cond, Pred):
            if cond.negated:
                return ~self.holds(Pred(cond.name))
            return self.all_hold(self.layer.predicate_by_name[cond.name].terms)
        assert isinstance(cond, Compare)
        left, right = evaluate_arrays(cond.left, self.env), evaluate_arrays(cond.right, self.env)
        return np.asarray(COMPARE[cond.op](left, right))

    def all_hold(self, conds: Sequence[Cond | AnyCond]) -> Any:
        """Conjunction, in the smallest shape that its parts broadcast to."""
        result: Any = None
        for part in sorted((self.holds(c) for c in conds), key=np.size):
            result = part if result is None else result & part
        return np.ones((1, 1), bool) if result is None else result


def _names(cond: Cond | AnyCond) -> tuple[str, ...]:
    return tuple(n for c in cond.conds for n in names(c)) if isinstance(cond, AnyCond) else names(cond)


def _all_conds(layer: Layer) -> Iterator[Cond | AnyCond]:
    yield from layer.gate
    for section in layer.sections:
        for rule in section.rules:
            yield from rule.conds
    for predicate in layer.predicates:
        yield from predicate.terms


@dataclass
class LayerRun:
    """One layer of one arch on all problems. Both arrays are -1 where the layer has no outcome."""

    program: Program
    conds: _Conds
    rules: Any
    """Index of the rule that fired, in `program.rules`."""
    codes: Any
    """Index of the outcome, in `layer.values`."""

    def first_from(self, start: int) -> Any:
        """Index of the first rule from `start` on that holds, or 255 (65535 with many rules), gates ignored."""
        kind = np.uint8 if len(self.program.rules) < 255 else np.uint16
        first = np.full(self.rules.shape, np.iinfo(kind).max, kind)
        return _first(self.program.rules, start, self.conds, first)


@dataclass
class ArchRun:
    """All layers of one arch on all problems."""

    survey: Survey
    arch: str
    layers: dict[str, LayerRun] = field(default_factory=dict)

    def fired(self, layer: str) -> set[int]:
        """Indices of the rules that fired somewhere."""
        rules = self.layers[layer].rules
        return set(np.flatnonzero(np.bincount((rules + 1).ravel())[1:]).tolist())

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
                rule: Rule = run.program.rules[int(run.rules[at])]
                if isinstance(rule.outcome, Choice):
                    return rule
        raise LookupError("no tile is launched there")

    def place(self, mask: Any) -> tuple[int, int]:
        """A place where the mask holds; of all those the one with the least M of the first column."""
        mask = np.broadcast_to(mask, self.survey.shape)
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

    def __init__(self, family: Family, values: Mapping[str, Any]) -> None:
        self.family = family
        self.values = values
        self.shape: tuple[int, int] = values["M"].shape
        self.shared = {layer.name: _Conds(layer, values) for layer in family.layers}

    def run(self, arch: str) -> ArchRun:
        """Every layer on every problem. Problems that meet no rule have no outcome."""
        result = ArchRun(self, arch)
        env = dict(self.values)
        for layer in self.family.layers:
            program = compile_layer(self.family, layer, arch)
            run = self._layer(program, env, result)
            result.layers[layer.name] = run
            for name, table in program.published:
                env[name] = table[run.codes]
            env.setdefault(layer.name, run.codes)
        return result

    def _layer(self, program: Program, env: Mapping[str, Any], done: ArchRun) -> LayerRun:
        conds = _Conds(program.layer, env, self.shared[program.layer.name])
        kind = np.uint8 if len(program.rules) < 255 else np.uint16
        none = np.iinfo(kind).max
        first = _first(program.rules, 0, conds, np.full(self.shape, none, kind))
        rules = first.astype(np.int16)
        gate = conds.all_hold(program.layer.gate)
        for earlier in {n.split(".")[0] for c in program.layer.gate for n in names(c)} & set(done.layers):
            gate = gate & (done.layers[earlier].codes != ABSENT)
        np.copyto(rules, ABSENT, where=~gate | (first == none))
        return LayerRun(program, conds, rules, _codes(program, rules, env, done))


def _first(rules: Sequence[Rule], start: int, conds: _Conds, first: Any) -> Any:
    """Least index of a rule that holds: a byte is 0 where one holds and 255 elsewhere, so `| index` gives either."""
    kind = first.dtype.type
    for index in range(start, len(rules)):
        missed = conds.all_hold(rules[index].conds).view(np.uint8).astype(kind, copy=False) - kind(1)
        np.minimum(first, missed | kind(index), out=first)
        if not rules[index].conds:
            break
    return first


def _codes(program: Program, rules: Any, env: Mapping[str, Any], done: ArchRun) -> Any:
    if program.caps is not None:
        caps = np.array([*program.caps, 0], np.int64)
        codes = (env["M"] > caps[rules]).astype(np.int16)
    else:
        codes = np.array([*program.table, ABSENT], np.int16)[rules]
        if program.kept is not None:
            layer, mapping = program.kept
            np.copyto(codes, mapping[done.layers[layer].codes], where=codes == ABSENT)
    np.copyto(codes, ABSENT, where=rules == ABSENT)
    return codes


def surveys(tree: SpecTree, family: Family) -> Iterator[ArchRun]:
    """Runs of every arch: first on problems seeded from all rules, then on some aimed at what did not fire.

    Each run is dropped by the caller before the next is made, so that memory stays small.
    """
    sm_counts = sorted({s for a in tree.archs.values() for s in a.profile.sm_counts})
    missing = {(layer.name, r.id) for layer in family.layers for s in layer.sections for r in s.rules}
    survey = Survey(family, seed_problems(family, sm_counts, _all(family), COLUMNS, ROWS))
    for arch in tree.archs:
        run = survey.run(arch)
        missing -= _fired(run)
        yield run
    if not missing:
        return
    archs = [a for a in tree.archs if any(_has(layer, a, missing) for layer in family.layers)]
    wanted = [(y, [r for s in y.sections for r in s.rules if (y.name, r.id) in missing]) for y in family.layers]
    found = thresholds(family, wanted)
    survey = Survey(family, seed_problems(family, sm_counts, found, RETRY_COLUMNS, ROWS, seed=1000))
    for arch in archs:
        yield survey.run(arch)


def _all(family: Family) -> Any:
    return thresholds(family, [(layer, None) for layer in family.layers])


def _fired(run: ArchRun) -> set[tuple[str, str]]:
    return {(n, run.layers[n].program.rules[i].id) for n in run.layers for i in run.fired(n)}


def _has(layer: Layer, arch: str, missing: set[tuple[str, str]]) -> bool:
    return any((layer.name, r.id) in missing for r in layer.effective(arch))
