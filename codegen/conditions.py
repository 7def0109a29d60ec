"""Truth of conditions on a fixed set of problems, shared between archs where no earlier outcome is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .expr import COMPARE, Compare, Cond, Pred, names
from .ir import AnyCond, Layer
from .probes import FactEnv
from .vector import evaluate_arrays


class Conds:
    """Truth of conditions on a fixed set of problems. What reads no outcome is computed once for all archs."""

    def __init__(self, layer: Layer, values: Mapping[str, Any], shared: Conds | None = None) -> None:
        self.layer = layer
        self.env = FactEnv({f.name: f.expr for f in layer.facts}, values)
        self.shared = shared
        self.known: dict[Any, Any] = {}
        self.free_of_outcomes: dict[int, bool] = {}

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
        return bad | {n for n in self.all_names() if n not in inputs}

    def all_names(self) -> set[str]:
        """Every name that a gate, rule, predicate or fact of the layer reads."""
        found = {n for c in _all_conds(self.layer) for n in _names(c)}
        return found | {n for f in self.layer.facts for n in names(f.expr)}

    def holds(self, cond: Cond | AnyCond) -> Any:
        if self.shared is not None and self.shared.is_free(cond):
            return self.shared.holds(cond)
        value = self.known.get(cond)
        if value is None:
            value = self.known[cond] = self._compute(cond)
        return value

    def is_free(self, cond: Cond | AnyCond) -> bool:
        """Whether the condition reads inputs alone. Conditions are told apart by identity: the family keeps them."""
        free = self.free_of_outcomes.get(id(cond))
        if free is None:
            free = self.free_of_outcomes[id(cond)] = not any(n in self.tainted for n in _names(cond))
        return free

    def _compute(self, cond: Cond | AnyCond) -> Any:
        if isinstance(cond, AnyCond):
            return np.logical_or.reduce(np.broadcast_arrays(*(self.holds(c) for c in cond.conds)))
        if isinstance(cond, Pred):
            terms = self.layer.predicate_by_name[cond.name].terms
            return ~self.all_hold(terms) if cond.negated else self.all_hold(terms)
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
