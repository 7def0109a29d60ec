"""Goals about two sides: this tree and a base, or two archs of one tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .evaluate import Decision, decide
from .ir import Value
from .normal import ArchRules
from .prove_goals import EVERYWHERE, Goal, Region, told, value_in
from .smt import Encoder, RuleOutcomes, differ
from .smt_problems import Problem, Problems
from .smt_solve import Problemset, Query
from .smt_space import Space, Z3Bool, disj, negate


@dataclass
class DifferGoal(Goal):
    """Head and base yield different outcomes of a layer, for a problem of a region."""

    layer: str = ""
    region: Region = EVERYWHERE
    assume: frozenset[str] = frozenset()
    """Layers that may be taken to agree: others of the same claim, or identical ones."""

    def shortcut(self) -> bool:
        assert self.base is not None
        one, two = (self.layer in s.family.layer_by_name for s in (self.head, self.base))
        return one and two and self.head.form(self.layer) == self.base.form(self.layer)

    def query(self, z3: Any, *, local: bool) -> Query | None:
        assert self.base is not None
        if local and not self.assume:
            return None
        space = Space(z3)
        inputs = Problems.of(space, self.families)
        left_open = self.assume if local else ()
        head = Encoder(inputs, self.head.family, self.head.arch, left_open)
        base = Encoder(inputs, self.base.family, self.base.arch, left_open, agreeing=head)
        conds = [self._differ(z3, head, base, self.layer), self.region.encode(head), *self._unmatched(z3, head, base)]
        if not local:
            conds += [negate(z3, self._differ(z3, head, base, name)) for name in sorted(self.assume)]
        return Query(space, [inputs], conds, self.check, is_exact=not local)

    def _differ(self, z3: Any, head: Encoder, base: Encoder, layer: str) -> Z3Bool:
        sides = [e.outcomes(layer) for e in (head, base) if layer in e.family.layer_by_name]
        return differ(z3, *sides) if len(sides) == 2 else sides[0].active

    def _unmatched(self, z3: Any, head: Encoder, base: Encoder) -> list[Z3Bool]:
        """A difference needs a rule that only one list has to hold, where the common rules stand in one order."""
        if self.base is None or not all(self.layer in e.family.layer_by_name for e in (head, base)):
            return []
        lists = [s.rule_forms(s.family.layer_by_name[self.layer]) for s in (self.head, self.base)]
        known = [set(forms.values()) for forms in lists]
        common = [
            [f for f in forms.values() if f in other] for forms, other in zip(lists, reversed(known), strict=True)
        ]
        if common[0] != common[1]:
            return []
        loose: list[Z3Bool] = []
        for encoder, forms, other in zip((head, base), lists, reversed(known), strict=True):
            outcomes = encoder.outcomes(self.layer)
            assert isinstance(outcomes, RuleOutcomes)
            loose += [c for r, c in zip(outcomes.rules, outcomes.conds, strict=True) if forms[r.id] not in other]
        return [disj(z3, loose)] if self._same_gate() else []

    def _same_gate(self) -> bool:
        assert self.base is not None
        return self.head.form(self.layer)[1] == self.base.form(self.layer)[1]

    def check(self, problems: Problemset) -> bool:
        head, base = self._decide(problems[0])
        if not self.region.holds(self.head.family, problems[0], head):
            return False
        return value_in(head, self.layer) != value_in(base, self.layer)

    def _decide(self, problem: Problem) -> tuple[Decision, Decision]:
        assert self.base is not None
        return decide(self.head.family, self.head.arch, problem), decide(self.base.family, self.base.arch, problem)

    def describe(self, problems: Problemset) -> str:
        head, base = self._decide(problems[0])
        return (
            f"{self.layer} is {told(head, self.layer)} on {self._side(self.head)}, "
            f"{told(base, self.layer)} {'on ' + self._side(self.base) if self._archs_differ() else 'in the base'}"
        )

    def _archs_differ(self) -> bool:
        return self.base is not None and self.base.family is self.head.family

    def _side(self, side: ArchRules | None) -> str:
        return "" if side is None else side.arch


@dataclass
class TransitionGoal(DifferGoal):
    """A problem goes from one outcome in the base to another in the head."""

    source: Value = ""
    target: Value = ""

    def query(self, z3: Any, *, local: bool) -> Query | None:
        assert self.base is not None
        if local:
            return None
        space = Space(z3)
        inputs = Problems.of(space, self.families)
        head = Encoder(inputs, self.head.family, self.head.arch)
        base = Encoder(inputs, self.base.family, self.base.arch)
        conds = [head.outcomes(self.layer).is_value(self.target), base.outcomes(self.layer).is_value(self.source)]
        return Query(space, [inputs], [*conds, *self._unmatched(z3, head, base)], self.check)

    def check(self, problems: Problemset) -> bool:
        head, base = self._decide(problems[0])
        return value_in(head, self.layer) == self.target and value_in(base, self.layer) == self.source
