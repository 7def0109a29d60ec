"""What a claim comes down to: for one arch, a condition on problems that must never (or somewhere) hold.

Every goal is stated twice, for z3 (`query`) and for the interpreter (`check`), and a third time over arrays (`mask`)
for the enumeration that follows an unanswered query. No answer of z3 is believed without `check`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .evaluate import Decision, bind_outcome, encode_problem, holds
from .expr import Cond, names
from .ir import Family, Value
from .normal import ArchRules
from .smt import Encoder
from .smt_problems import Problem
from .smt_solve import Problemset, Query
from .smt_space import Z3Bool, negate


@dataclass(frozen=True)
class Region:
    """A set of problems: those that meet all conjuncts, or with `inside=False` all others."""

    conds: tuple[Cond, ...] = ()
    inside: bool = True

    def encode(self, encoder: Encoder) -> Z3Bool:
        z3 = encoder.space.z3
        met = encoder.scope.all(self.conds)
        return met if self.inside else negate(z3, met)

    def holds(self, family: Family, problem: Problem, decision: Decision) -> bool:
        return conds_hold(family, problem, decision, self.conds) == self.inside


EVERYWHERE = Region()


def conds_hold(family: Family, problem: Problem, decision: Decision, conds: Iterable[Cond]) -> bool:
    """Whether all conjuncts over inputs and outcomes hold; one that names an absent outcome does not."""
    env = encode_problem(family, problem)
    for layer in family.layers:
        bind_outcome(family, layer, decision.value(layer.name), env)
    return all(all(n in env for n in names(c)) and holds(family.layers[0], c, env) for c in conds)


@dataclass
class Goal:
    """A condition on problems for one arch; `head` is the tree under test."""

    head: ArchRules
    base: ArchRules | None = None
    free_costs: bool = field(default=False, kw_only=True)
    """Whether any tile of a cost table may be cheaper than any other: more problems than there are, found sooner."""
    families: tuple[Family, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.families = (self.head.family,) if self.base is None else (self.head.family, self.base.family)

    @property
    def arch(self) -> str:
        return self.head.arch

    def shortcut(self) -> bool:
        """Whether the condition can never hold for a reason visible in the rules themselves."""
        return False

    def query(self, z3: Any, *, local: bool) -> Query | None:
        """The condition for z3. `local` leaves earlier layers open; None where that would change nothing."""
        raise NotImplementedError

    def check(self, problems: Problemset) -> bool:
        """The condition, by the interpreter."""
        raise NotImplementedError

    def describe(self, problems: Problemset) -> str:
        """What is the case for these problems, in a few words."""
        raise NotImplementedError

    def _others(self, *keep: str) -> frozenset[str]:
        """All layers but some."""
        return frozenset(layer.name for layer in self.head.family.layers) - set(keep)

    def _with_choices(self, layers: set[str]) -> set[str]:
        """Layers and the choices that gate them: mostly enough for a proof."""
        known = self.head.family.layer_by_name
        gates = layers_read(self.head.family, [c for name in layers for c in known[name].gate])
        return layers | {name for name in gates if known[name].kind == "choice"}


def layers_read(family: Family, conds: Iterable[Cond]) -> set[str]:
    """Layers whose outcomes the conjuncts name."""
    return {n.partition(".")[0] for c in conds for n in names(c)} & set(family.layer_by_name)


def value_in(decision: Decision, layer: str) -> Value | None:
    """A layer's outcome; None also where the tree has no such layer."""
    return decision.value(layer) if layer in decision.results else None


def told(decision: Decision, layer: str) -> str:
    """A layer's outcome and the rule that decides it."""
    if value_in(decision, layer) is None:
        return "absent"
    return f"{decision.value(layer)} (rule {decision.rule_id(layer)})"
