"""Conditions and expressions of one layer over numpy arrays, each computed at most once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .expr import COMPARE, Bin, CeilDiv, Compare, Cond, EnumWord, Expr, Int, Name, Pred
from .ir import AnyCond

if TYPE_CHECKING:
    from .vector import Program


class LayerEnv(dict[str, Any]):
    """Inputs and earlier outcomes of one layer; facts and predicates are computed when first read."""

    def __init__(self, program: Program, inputs: Mapping[str, Any]) -> None:
        super().__init__(inputs)
        self.facts = {f.name: f.expr for f in program.layer.facts}
        self.predicates = program.layer.predicate_by_name
        self.slots = program.slots
        self.conds: dict[int, Any] = {}
        self.predicate_values: dict[str, Any] = {}

    def __missing__(self, name: str) -> Any:
        value = self[name] = evaluate_arrays(self.facts[name], self)
        return value

    def all_hold(self, conds: Sequence[Cond | AnyCond]) -> Any:
        """Conjunction, in the smallest shape that its parts broadcast to."""
        result: Any = np.True_
        for part in sorted((self.holds(c) for c in conds), key=np.size):
            if part.ndim == 0:
                if not part:
                    return np.False_
            else:
                result = part if result is np.True_ else result & part
        return result

    def holds(self, cond: Cond | AnyCond) -> Any:
        """A boolean array, in the shape of what the condition reads."""
        if isinstance(cond, AnyCond):
            result: Any = np.False_
            for part in cond.conds:
                result = result | self.holds(part)
            return result
        if isinstance(cond, Pred):
            value = self.predicate_values.get(cond.name)
            if value is None:
                value = self.all_hold(self.predicates[cond.name].terms)
                self.predicate_values[cond.name] = value
            return ~value if cond.negated else value
        slot = self.slots[id(cond)]
        value = self.conds.get(slot)
        if value is None:
            assert isinstance(cond, Compare)
            value = COMPARE[cond.op](evaluate_arrays(cond.left, self), evaluate_arrays(cond.right, self))
            value = self.conds[slot] = np.asarray(value)
        return value


def evaluate_arrays(node: Expr, env: Mapping[str, Any]) -> Any:
    """`expr.evaluate_expr` with shifts and masks for divisors that are powers of two; values are never negative."""
    if isinstance(node, Int):
        return node.value
    if isinstance(node, Name):
        return env[node.name]
    if isinstance(node, EnumWord):
        return node.code
    if isinstance(node, CeilDiv):
        return _divide(env[node.name.name] + (node.divisor - 1), node.divisor)
    assert isinstance(node, Bin)
    left = evaluate_arrays(node.left, env)
    if node.op in ("//", "%"):
        assert isinstance(node.right, Int)
        divisor = node.right.value
        if node.op == "//":
            return _divide(left, divisor)
        return left & (divisor - 1) if divisor & (divisor - 1) == 0 else left % divisor
    right = evaluate_arrays(node.right, env)
    return left + right if node.op == "+" else left * right


def _divide(value: Any, divisor: int) -> Any:
    return value >> (divisor.bit_length() - 1) if divisor & (divisor - 1) == 0 else value // divisor
