"""Make a finding readable: the same thing shown by a problem that somebody would really run, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

from .evaluate import ProblemError
from .ir import Arch
from .prove_goals import Goal
from .smt_problems import Problem
from .smt_solve import Problemset

TYPICAL: dict[str, tuple[int, ...]] = {
    "M": (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "N": (4096, 1024, 2048, 8192, 11008, 14336),
    "K": (4096, 1024, 2048, 8192, 11008, 14336),
    "blocksize": (64, 32, 128, 16),
}
"""Values that a reader would try first."""
ORDER = ("num_sms", "blocksize", "dtype", "K", "N", "M")


def simplify(goal: Goal, problems: Problemset, arch: Arch | None) -> Problemset:
    """The same finding for problems closer to real ones, where there are any."""
    counts = arch.profile.sm_counts if arch else ()
    inputs = goal.head.family.input_by_name
    choices = {name: TYPICAL.get(name) or inputs[name].words for name in inputs if name != "num_sms"}
    if counts:
        choices["num_sms"] = counts
    typical = _first_typical(goal, problems, choices)
    if typical is not None:
        return typical
    for name in sorted(choices, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER)):
        problems = _replace_first(problems, name, choices[name], goal.check)
    return problems


def _first_typical(goal: Goal, problems: Problemset, choices: dict[str, Any]) -> Problemset | None:
    """A finding at a real SM count and round sizes; what two problems differ in is kept."""
    kept = _differing(problems)
    names = [name for name in ("num_sms", "N", "K", "M") if name in choices and name not in kept]
    rest = {n: c[0] for n, c in choices.items() if n not in names and n not in kept and n != "dtype"}
    for values in product(*(choices[name] for name in names)):
        changed = _changed(problems, {**rest, **dict(zip(names, values, strict=True))})
        if _holds(goal.check, changed):
            return changed
    return None


def _replace_first(
    problems: Problemset, name: str, choices: Iterable[Any], check: Callable[[Problemset], bool]
) -> Problemset:
    if name in _differing(problems):
        return problems
    return next((c for v in choices if _holds(check, c := _changed(problems, {name: v}))), problems)


def _differing(problems: Problemset) -> set[str]:
    return {name for name in problems[0] if len({p[name] for p in problems}) > 1}


def _changed(problems: Problemset, values: Problem) -> Problemset:
    return tuple({**p, **values} for p in problems)


def _holds(check: Callable[[Problemset], bool], problems: Problemset) -> bool:
    """A typical value may lie outside the limits of the family."""
    try:
        return check(problems)
    except ProblemError:
        return False
