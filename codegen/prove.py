"""Prove claims: split each into goals, one per arch and layer, answer them, and say what was found."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .ir import Claim, SpecTree
from .prove_goals import Goal
from .prove_single import FiresGoal
from .prove_split import Bases, ProveError, split_claim
from .prove_witness import simplify
from .smt_solve import Answer, Problemset
from .smt_space import import_z3

Status: TypeAlias = Literal["proved", "counterexample", "unknown", "skipped"]
DEFAULT_TIMEOUT = 30.0
ENUMERATION_SECONDS = 10.0
"""For all goals of a claim together."""


@dataclass(frozen=True)
class Witness:
    """Concrete problems for which the interpreter confirms what `text` says."""

    arch: str
    problems: Problemset
    text: str


@dataclass(frozen=True)
class Verdict:
    """The answer to a claim.

    `counterexample` has witnesses, except for a `rule-fires` that was refuted: there the proof is that no problem
    exists. A proved `rule-fires` has one witness per arch.
    """

    claim: Claim
    status: Status
    detail: str
    witnesses: tuple[Witness, ...] = ()
    seconds: float = 0.0
    archs: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class _Outcome:
    """Whether a goal's condition can hold: True, False or not known."""

    goal: Goal
    holds: bool | None
    problems: Problemset = ()
    how: Literal["rules", "solver", "enumeration"] = "solver"
    enumerated: int = 0


PLAIN = ((True, False), (False, False))
"""Ways to ask: with earlier layers left open or not, with free costs or not. The last is exact, the others quick."""
WITH_COSTS = ((False, True), (False, False))


class Prover:
    """Answers claims about one tree."""

    def __init__(self, tree: SpecTree, bases: Bases, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.tree, self.bases, self.timeout = tree, bases, timeout
        self._z3: Any = None

    def prove(self, claim: Claim) -> Verdict:
        """The verdict on one claim. Raises ProveError where the trees cannot be compared."""
        start = time.monotonic()
        goals = split_claim(claim, self.tree, self.bases)
        if goals is None:
            return Verdict(claim, "skipped", "it compares with a base: give --base BASE")
        wanted = claim.model.claim == "rule-fires"
        outcomes = []
        for goal in goals:
            outcome = self._answer(goal, start + self.timeout, ENUMERATION_SECONDS / len(goals))
            outcomes.append(outcome)
            if outcome.holds is not None and outcome.holds != wanted:
                break
        verdict = _existential if wanted else _universal
        status, detail, witnesses = verdict(self, outcomes)
        archs = tuple(dict.fromkeys(g.arch for g in goals))
        return Verdict(claim, status, detail, witnesses, time.monotonic() - start, archs)

    def _answer(self, goal: Goal, deadline: float, enumeration: float) -> _Outcome:
        if goal.shortcut():
            return _Outcome(goal, False, how="rules")
        self._z3 = self._z3 or import_z3()
        has_costs = any(rule.cost for layer in goal.head.family.layers for rule in goal.head.rules(layer))
        for local, goal.free_costs in WITH_COSTS if has_costs else PLAIN:
            query = goal.query(self._z3, local=local)
            if query is None:
                continue
            share = self.timeout / 4 if local else self.timeout / 2 if goal.free_costs else self.timeout
            answer: Answer = query.solve(min(deadline, time.monotonic() + share))
            if answer.status != "unknown":
                return _Outcome(goal, answer.status == "sat", answer.problems)
        arch = self.tree.archs.get(goal.arch)
        if arch is None:
            return _Outcome(goal, None)
        from .prove_dense import enumerate_goal

        count, hit = enumerate_goal(goal, arch, time.monotonic() + enumeration)
        return _Outcome(goal, True if hit else None, hit or (), "enumeration", count)

    def witness(self, outcome: _Outcome) -> Witness:
        """The finding in its most readable form, confirmed by the interpreter."""
        goal = outcome.goal
        problems = simplify(goal, outcome.problems, self.tree.archs.get(goal.arch))
        assert goal.check(problems)
        return Witness(goal.arch, problems, goal.describe(problems))


def _universal(prover: Prover, outcomes: list[_Outcome]) -> tuple[Status, str, tuple[Witness, ...]]:
    """The condition of no goal can hold."""
    if outcomes and outcomes[-1].holds:
        witness = prover.witness(outcomes[-1])
        return "counterexample", witness.text, (witness,)
    open_goals = [o for o in outcomes if o.holds is None]
    if open_goals:
        return "unknown", _told_unknown(prover, open_goals), ()
    return "proved", _told_proved(outcomes), ()


def _existential(prover: Prover, outcomes: list[_Outcome]) -> tuple[Status, str, tuple[Witness, ...]]:
    """The condition of every goal can hold."""
    if not outcomes:
        return "counterexample", "the rule is in the list of no arch", ()
    last = outcomes[-1]
    if last.holds is False:
        goal = last.goal
        assert isinstance(goal, FiresGoal)
        why = "is not in the list, or stands behind one that always holds" if last.how == "rules" else "can never fire"
        return "counterexample", f"rule {goal.rule} {why} on {goal.arch}", ()
    open_goals = [o for o in outcomes if o.holds is None]
    if open_goals:
        return "unknown", _told_unknown(prover, open_goals), ()
    witnesses = tuple(prover.witness(o) for o in outcomes)
    return "proved", f"fires on {', '.join(o.goal.arch for o in outcomes)}", witnesses


def _told_proved(outcomes: list[_Outcome]) -> str:
    plain = sum(o.how == "rules" for o in outcomes)
    solved = len(outcomes) - plain
    parts = [f"{plain} by equal or absent rules"] * bool(plain) + [f"{solved} by z3"] * bool(solved)
    archs = {o.goal.arch for o in outcomes}
    return f"{_count(len(archs), 'arch')}, {_count(len(outcomes), 'goal')}: {', '.join(parts)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _told_unknown(prover: Prover, open_goals: list[_Outcome]) -> str:
    archs = ", ".join(dict.fromkeys(o.goal.arch for o in open_goals))
    count = sum(o.enumerated for o in open_goals)
    return (
        f"z3 gave no answer within {prover.timeout:g} s for {archs}; "
        f"no counterexample among {count:_} decisions around the thresholds of the rules; not a proof"
    )


def prove_all(prover: Prover, claims: Iterable[Claim]) -> list[Verdict]:
    """Verdicts in the order of the claims."""
    return [prover.prove(claim) for claim in claims]


__all__ = ["DEFAULT_TIMEOUT", "Bases", "ProveError", "Prover", "Verdict", "Witness", "prove_all"]
