"""Decide whether a condition on problems can hold: z3 on linear terms, refined until the answer is a true one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .smt_problems import Problem, Problems
from .smt_space import Space, Z3Bool, lemmas_at, value_of

Problemset: TypeAlias = "tuple[Problem, ...]"
Check: TypeAlias = Callable[[Problemset], bool]

SEED = 1
LOGIC = "QF_LIA"


class EncodingError(AssertionError):
    """z3 and the interpreter disagree about a problem: a bug in the encoding."""


@dataclass(frozen=True)
class Answer:
    """`unsat`: no problem at all. `sat`: these problems, as the interpreter confirmed. `unknown`: out of time."""

    status: Literal["unsat", "sat", "unknown"]
    problems: Problemset = ()
    rounds: int = 0


@dataclass
class Query:
    """Is there a problem (or, for statements about two of them, a pair) for which `conditions` hold?

    `check` asks the interpreter the same question about concrete problems; no answer `sat` is given without it.
    """

    space: Space
    inputs: Sequence[Problems]
    conditions: Sequence[Z3Bool]
    check: Check
    is_exact: bool = True
    """False where earlier layers are left open: a model the interpreter refuses then proves nothing."""
    lemmas: list[Z3Bool] = field(default_factory=list)

    def solve(self, deadline: float) -> Answer:
        """Answer by `deadline` (time.monotonic seconds), or `unknown`."""
        z3 = self.space.z3
        if any(z3.is_false(c) for c in self.conditions):
            return Answer("unsat")
        rounds = 0
        while time.monotonic() < deadline:
            rounds += 1
            result, model = self._check(deadline)
            if result == z3.unsat:
                return Answer("unsat", rounds=rounds)
            if model is None:
                break
            problems = self._read(model)
            if self.check(problems):
                return Answer("sat", problems, rounds)
            lemmas = lemmas_at(self.space, model)
            if not lemmas:
                if self.is_exact:
                    raise EncodingError(f"z3 says that {problems} satisfies the query, the interpreter does not")
                break
            self.lemmas += lemmas
            pinned = self._pin_factors(model, deadline)
            if pinned is not None:
                return Answer("sat", pinned, rounds)
        return Answer("unknown", rounds=rounds)

    def _check(self, deadline: float, *assumptions: Z3Bool) -> tuple[Any, Any]:
        """z3's answer to the conditions with all lemmas, and the model if there is one."""
        z3 = self.space.z3
        solver = z3.SolverFor(LOGIC)
        solver.set("random_seed", SEED)
        solver.set("timeout", max(1, int((deadline - time.monotonic()) * 1000)))
        solver.add(*self.space.facts, *self.conditions, *self.lemmas, *assumptions)
        result = solver.check()
        return result, solver.model() if result == z3.sat else None

    def _read(self, model: Any) -> Problemset:
        return tuple(p.read(lambda e: value_of(model, e)) for p in self.inputs)

    def _pin_factors(self, model: Any, deadline: float) -> Problemset | None:
        """Look for a problem near a model: with one factor of every product held, products are linear and exact."""
        held: dict[int, Z3Bool] = {}
        exact: list[Z3Bool] = []
        for product in self.space.products:
            is_x = product.x.expr.get_id() in held
            factor, rest = (product.x, product.y) if is_x else (product.y, product.x)
            value = value_of(model, factor.expr)
            held[factor.expr.get_id()] = factor.expr == value
            exact.append(product.value == value * rest.expr)
        _, found = self._check(deadline, *held.values(), *exact)
        if found is None:
            return None
        problems = self._read(found)
        return problems if self.check(problems) else None
