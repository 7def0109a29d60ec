"""Rule lists in a form that can be compared: facts and predicates written out, unreachable rules dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from .expr import Bin, CeilDiv, Compare, Cond, Expr, Name, Pred
from .ir import CUSTOM, PATH_VALUES, AnyCond, Cap, Choice, Family, Layer, Outcome, Rule, Value

Form: TypeAlias = "tuple[object, ...]"


@dataclass(frozen=True)
class ArchRules:
    """One family as one arch sees it."""

    family: Family
    arch: str

    def rules(self, layer: Layer) -> tuple[Rule, ...]:
        """The effective list up to the first rule that always holds."""
        kept = []
        for rule in layer.effective(self.arch):
            kept.append(rule)
            if not rule.conds:
                break
        return tuple(kept)

    def is_total(self, layer: Layer) -> bool:
        """Whether the list ends in a rule that always holds (E201, E202)."""
        rules = self.rules(layer)
        return bool(rules) and not rules[-1].conds

    @cached_property
    def _possible(self) -> dict[str, tuple[Value, ...]]:
        return {}

    def possible(self, layer: str) -> tuple[Value, ...]:
        """Outcomes that some rule of the list names, in the order of the layer's values."""
        if layer not in self._possible:
            found: set[Value] = set()
            for rule in self.rules(self.family.layer_by_name[layer]):
                found.update(self._values(rule.outcome))
            order = self.family.layer_by_name[layer].values
            self._possible[layer] = tuple(v for v in order if v in found)
        return self._possible[layer]

    def _values(self, outcome: Outcome) -> tuple[Value, ...]:
        if isinstance(outcome, Choice):
            return (outcome.value,)
        if isinstance(outcome, Cap):
            return (CUSTOM,) if outcome.limit is None else PATH_VALUES
        return self.possible(outcome.layer)

    @cached_property
    def _forms(self) -> dict[str, Form]:
        return {}

    def form(self, name: str) -> Form:
        """What the layer computes, down to the inputs. Equal forms decide alike; unequal ones may."""
        if name not in self._forms:
            layer = self.family.layer_by_name[name]
            writer = _Writer(self, layer)
            gate = tuple(writer.cond(c) for c in layer.gate)
            rules = tuple(
                (tuple(writer.cond(c) for c in r.conds), writer.outcome(r.outcome)) for r in self.rules(layer)
            )
            self._forms[name] = (layer.kind, gate, rules)
        return self._forms[name]

    def rule_forms(self, layer: Layer) -> dict[str, Form]:
        """Conditions and outcome of each rule, by id."""
        writer = _Writer(self, layer)
        return {r.id: (tuple(writer.cond(c) for c in r.conds), writer.outcome(r.outcome)) for r in self.rules(layer)}

    def mentions(self, layer: Layer, wanted: str) -> bool:
        """Whether the conditions of the list, down to the inputs, read this input."""
        writer = _Writer(self, layer)
        conds = [*layer.gate, *(c for r in self.rules(layer) for c in r.conds)]
        return any(_contains(writer.cond(c), Name(wanted)) for c in conds)


class _Writer:
    """Replaces names by what they stand for."""

    def __init__(self, rules: ArchRules, layer: Layer) -> None:
        self.of, self.layer = rules, layer
        self.facts = {f.name: f.expr for f in layer.facts}
        self.layers = rules.family.layer_by_name
        self.written: dict[str, object] = {}

    def outcome(self, outcome: Outcome) -> object:
        if isinstance(outcome, Choice):
            return outcome.value
        if isinstance(outcome, Cap):
            return ("cap", outcome.limit)
        return ("keep", self.of.form(outcome.layer))

    def cond(self, cond: Cond | AnyCond) -> object:
        if isinstance(cond, AnyCond):
            return ("any", *(self.cond(c) for c in cond.conds))
        if isinstance(cond, Pred):
            terms = self.layer.predicate_by_name[cond.name].terms
            return ("not" if cond.negated else "all", *(self.cond(t) for t in terms))
        assert isinstance(cond, Compare)
        return (cond.op, self.expr(cond.left), self.expr(cond.right))

    def expr(self, expr: Expr) -> object:
        if isinstance(expr, Name):
            return self.name(expr.name)
        if isinstance(expr, CeilDiv):
            return ("ceil_div", self.name(expr.name.name), expr.divisor)
        if isinstance(expr, Bin):
            return (expr.op, self.expr(expr.left), self.expr(expr.right))
        return expr

    def name(self, name: str) -> object:
        if name in self.facts:
            if name not in self.written:
                self.written[name] = self.expr(self.facts[name])
            return self.written[name]
        layer, _, field = name.partition(".")
        if layer not in self.layers:
            return Name(name)
        table: Form = ()
        if field:
            tiles = self.of.family.tile_by_id
            table = tuple((v, tiles[str(v)].fields[field]) for v in self.of.possible(layer))
        return ("outcome", self.of.form(layer), table)


def _contains(form: object, wanted: Name) -> bool:
    return any(part == wanted for part in _leaves(form))


def _leaves(form: object) -> Iterator[object]:
    if isinstance(form, tuple):
        for part in form:
            yield from _leaves(part)
    else:
        yield form
