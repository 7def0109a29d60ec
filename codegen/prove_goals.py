"""What a claim comes down to: for one arch, a condition on problems that must never (or somewhere) hold.

Every goal is stated twice, for z3 (`query`) and for the interpreter (`check`), and a third time over arrays (`mask`)
for the enumeration that follows an unanswered query. No answer of z3 is believed without `check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .evaluate import Decision, bind_outcome, decide, encode_problem, holds
from .expr import Cond, format_node, names
from .ir import CUSTOM, FALLBACK, Family, Layer, Value
from .normal import ArchRules
from .smt import Encoder, FreeOutcomes, Outcomes, Problem, Problems, RuleOutcomes, differ
from .smt_solve import Problemset, Query
from .smt_space import Space, Z3Bool, conj, disj, negate


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

    def _open(self, inputs: Problems, keep: Iterable[str]) -> dict[str, Outcomes]:
        """Free outcomes for every layer but some."""
        kept = set(keep)
        return {
            layer.name: FreeOutcomes(inputs.space, layer.name, self._possible(layer.name))
            for layer in self.head.family.layers
            if layer.name not in kept
        }

    def _possible(self, layer: str) -> tuple[Value, ...]:
        found = list(self.head.possible(layer))
        if self.base and layer in self.base.family.layer_by_name:
            found += [v for v in self.base.possible(layer) if v not in found]
        return tuple(found)


@dataclass
class DifferGoal(Goal):
    """Head and base yield different outcomes of a layer, for a problem of a region."""

    layer: str = ""
    region: Region = Region()
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
        given = self._open(inputs, {layer.name for layer in self.head.family.layers} - self.assume) if local else {}
        head = Encoder(inputs, self.head.family, self.head.arch, given)
        base = Encoder(inputs, self.base.family, self.base.arch, given)
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
        return _value(head, self.layer) != _value(base, self.layer)

    def _decide(self, problem: Problem) -> tuple[Decision, Decision]:
        assert self.base is not None
        return decide(self.head.family, self.head.arch, problem), decide(self.base.family, self.base.arch, problem)

    def describe(self, problems: Problemset) -> str:
        head, base = self._decide(problems[0])
        return (
            f"{self.layer} is {_told(head, self.layer)} on {self._side(self.head)}, "
            f"{_told(base, self.layer)} {'on ' + self._side(self.base) if self._archs_differ() else 'in the base'}"
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
        return _value(head, self.layer) == self.target and _value(base, self.layer) == self.source


@dataclass
class FiresGoal(Goal):
    """A rule decides some problem of a region."""

    rule: str = ""
    region: Region = Region()

    @property
    def layer(self) -> Layer:
        rule = self.head.family.rule_by_id[self.rule]
        return next(x for x in self.head.family.layers if any(rule in s.rules for s in x.sections))

    def shortcut(self) -> bool:
        return self.rule not in {r.id for r in self.head.rules(self.layer)}

    def query(self, z3: Any, *, local: bool) -> Query | None:
        if local and self.layer is self.head.family.layers[0]:
            return None
        space = Space(z3)
        inputs = Problems.of(space, self.families)
        encoder = Encoder(inputs, self.head.family, self.arch, self._open(inputs, [self.layer.name]) if local else {})
        outcomes = encoder.outcomes(self.layer.name)
        assert isinstance(outcomes, RuleOutcomes)
        conds = [outcomes.fires(self.rule), self.region.encode(encoder)]
        return Query(space, [inputs], conds, self.check, is_exact=not local)

    def check(self, problems: Problemset) -> bool:
        decision = decide(self.head.family, self.arch, problems[0])
        fired = decision.rule_id(self.layer.name) == self.rule
        return fired and self.region.holds(self.head.family, problems[0], decision)

    def describe(self, problems: Problemset) -> str:
        return f"rule {self.rule} fires on {self.arch}"


@dataclass
class ImpliesGoal(Goal):
    """A problem meets `when` and not `then`."""

    when: tuple[Cond, ...] = ()
    then: tuple[Cond, ...] = ()

    def query(self, z3: Any, *, local: bool) -> Query | None:
        if local:
            return None
        space = Space(z3)
        inputs = Problems.of(space, self.families)
        encoder = Encoder(inputs, self.head.family, self.arch)
        conds = [encoder.scope.all(self.when), negate(z3, encoder.scope.all(self.then))]
        return Query(space, [inputs], conds, self.check)

    def check(self, problems: Problemset) -> bool:
        family = self.head.family
        decision = decide(family, self.arch, problems[0])
        met = conds_hold(family, problems[0], decision, self.when)
        return met and not conds_hold(family, problems[0], decision, self.then)

    def describe(self, problems: Problemset) -> str:
        decision = decide(self.head.family, self.arch, problems[0])
        broken = [c for c in self.then if not conds_hold(self.head.family, problems[0], decision, [c])]
        read = {n.partition(".")[0] for c in broken for n in names(c)} & set(self.head.family.layer_by_name)
        outcomes = "".join(f"; {name} is {_told(decision, name)}" for name in sorted(read))
        return f"'{format_node(broken[0])}' does not hold on {self.arch}{outcomes}"


@dataclass
class MonotoneGoal(Goal):
    """Of two problems that differ in M alone, the smaller falls back and the larger does not."""

    layer: str = "path"

    def shortcut(self) -> bool:
        """Without M in a condition, only caps read it."""
        return not self.head.mentions(self.head.family.layer_by_name[self.layer], "M")

    def query(self, z3: Any, *, local: bool) -> Query | None:
        if local:
            return None
        space = Space(z3)
        one = Problems.of(space, self.families)
        larger = space.integer("M'", 1, one.terms["M"].high)
        two = Problems(space, {**one.terms, "M": larger}, one.words)
        low = Encoder(one, self.head.family, self.arch).outcomes(self.layer)
        high = Encoder(two, self.head.family, self.arch).outcomes(self.layer)
        conds = [low.is_value(FALLBACK), high.is_value(CUSTOM), one.terms["M"].expr < larger.expr]
        return Query(space, [one, two], conds, self.check)

    def check(self, problems: Problemset) -> bool:
        low, high = (decide(self.head.family, self.arch, p).value(self.layer) for p in problems)
        return low == FALLBACK and high == CUSTOM and int(problems[0]["M"]) < int(problems[1]["M"])

    def describe(self, problems: Problemset) -> str:
        low, high = (decide(self.head.family, self.arch, p) for p in problems)
        return (
            f"{self.layer} is {_told(low, self.layer)} at M={problems[0]['M']}, "
            f"{_told(high, self.layer)} at M={problems[1]['M']} on {self.arch}"
        )


@dataclass
class LaunchGoal(Goal):
    """A tile is emitted that the arch cannot launch, or none where one must be."""

    region: Region | None = None
    faults: dict[str, str] = field(default_factory=dict)
    """Tiles that are illegal on the arch, each with the reason."""
    dtypes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Element types for which the launch table has an entry, by tile."""

    def _tile_layers(self) -> Sequence[Layer]:
        return [layer for layer in self.head.family.layers if layer.kind == "tile"]

    def shortcut(self) -> bool:
        return self.region is None and not any(self._can_fail(t) for t in self._tiles())

    def _tiles(self) -> list[str]:
        return sorted({str(v) for layer in self._tile_layers() for v in self.head.possible(layer.name)})

    def _can_fail(self, tile: str) -> bool:
        known = self.head.family.tile_by_id.get(tile)
        fewer = self.dtypes.get(tile, self.head.family.dtypes) != self.head.family.dtypes
        return known is None or tile in self.faults or bool(known.requires) or fewer

    def query(self, z3: Any, *, local: bool) -> Query | None:
        if local:
            return None
        space = Space(z3)
        inputs = Problems.of(space, self.families)
        encoder = Encoder(inputs, self.head.family, self.arch)
        layers = [encoder.outcomes(layer.name) for layer in self._tile_layers()]
        bad = [
            conj(z3, (_last_is(z3, layers, tile), self._fails(z3, encoder, tile)))
            for tile in self._tiles()
            if self._can_fail(tile)
        ]
        if self.region is not None:
            idle = [negate(z3, layer.active) for layer in layers]
            bad.append(conj(z3, (*idle, self.region.encode(encoder))))
        return Query(space, [inputs], [disj(z3, bad)], self.check)

    def _fails(self, z3: Any, encoder: Encoder, tile: str) -> Z3Bool:
        if tile in self.faults:
            return z3.BoolVal(True)
        built = self.dtypes.get(tile, self.head.family.dtypes)
        dtype, words = encoder.inputs.terms["dtype"].expr, encoder.inputs.words["dtype"]
        wrong = [dtype == index for index, word in enumerate(words) if word not in built]
        requires = encoder.scope.all(self.head.family.tile_by_id[tile].requires)
        return disj(z3, (*wrong, negate(z3, requires)))

    def check(self, problems: Problemset) -> bool:
        return self._fault(problems[0]) is not None

    def _fault(self, problem: Problem) -> str | None:
        family = self.head.family
        decision = decide(family, self.arch, problem)
        tile = decision.tile(family)
        if tile is None:
            missing = self.region is not None and self.region.holds(family, problem, decision)
            return f"no tile is emitted on {self.arch}" if missing else None
        if tile in self.faults:
            return f"tile {tile} is emitted on {self.arch}: {self.faults[tile]}"
        if problem["dtype"] not in self.dtypes.get(tile, family.dtypes):
            return f"tile {tile} is emitted on {self.arch} for {problem['dtype']}, which its engine has no kernel for"
        broken = [c for c in family.tile_by_id[tile].requires if not conds_hold(family, problem, decision, [c])]
        return f"tile {tile} is emitted on {self.arch} without '{format_node(broken[0])}'" if broken else None

    def describe(self, problems: Problemset) -> str:
        return str(self._fault(problems[0]))


def _last_is(z3: Any, layers: Sequence[Outcomes], tile: str) -> Z3Bool:
    """The last tile layer with an outcome yields this tile."""
    result: Z3Bool = z3.BoolVal(False)
    for layer in layers:
        result = disj(z3, (layer.is_value(tile), conj(z3, (negate(z3, layer.active), result))))
    return result


def _value(decision: Decision, layer: str) -> Value | None:
    return decision.value(layer) if layer in decision.results else None


def _told(decision: Decision, layer: str) -> str:
    if _value(decision, layer) is None:
        return "absent"
    return f"{decision.value(layer)} (rule {decision.rule_id(layer)})"


__all__ = [
    "DifferGoal",
    "FiresGoal",
    "Goal",
    "ImpliesGoal",
    "LaunchGoal",
    "MonotoneGoal",
    "Region",
    "TransitionGoal",
]
