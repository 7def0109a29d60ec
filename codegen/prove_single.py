"""Goals about one tree: rules that fire, implications, crossovers in M, launch tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .evaluate import decide
from .expr import Cond, format_node
from .ir import CUSTOM, FALLBACK, Layer
from .prove_goals import EVERYWHERE, Goal, Region, conds_hold, layers_read, told
from .smt import Encoder, Outcomes, RuleOutcomes
from .smt_problems import Problem, Problems
from .smt_solve import Problemset, Query
from .smt_space import Space, Z3Bool, conj, disj, negate


@dataclass
class FiresGoal(Goal):
    """A rule decides some problem of a region."""

    rule: str = ""
    region: Region = EVERYWHERE

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
        encoder = Encoder(
            inputs, self.head.family, self.arch, self._others(self.layer.name) if local else (), free_costs=local
        )
        outcomes = encoder.outcomes(self.layer.name)
        assert isinstance(outcomes, RuleOutcomes)
        conds = [outcomes.fires(self.rule), self.region.encode(encoder)]
        return Query(space, [inputs], conds, self.check, is_exact=not local and not self.free_costs)

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
        space = Space(z3)
        inputs = Problems.of(space, self.families)
        read = layers_read(self.head.family, (*self.when, *self.then))
        left_open = self._others(*self._with_choices(read)) if local else ()
        encoder = Encoder(inputs, self.head.family, self.arch, left_open, free_costs=self.free_costs)
        conds = [encoder.scope.all(self.when), negate(z3, encoder.scope.all(self.then))]
        return Query(space, [inputs], conds, self.check, is_exact=not local and not self.free_costs)

    def check(self, problems: Problemset) -> bool:
        family = self.head.family
        decision = decide(family, self.arch, problems[0])
        met = conds_hold(family, problems[0], decision, self.when)
        return met and not conds_hold(family, problems[0], decision, self.then)

    def describe(self, problems: Problemset) -> str:
        decision = decide(self.head.family, self.arch, problems[0])
        broken = [c for c in self.then if not conds_hold(self.head.family, problems[0], decision, [c])]
        read = sorted(layers_read(self.head.family, broken))
        outcomes = "".join(f"; {name} is {told(decision, name)}" for name in read)
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
            f"{self.layer} is {told(low, self.layer)} at M={problems[0]['M']}, "
            f"{told(high, self.layer)} at M={problems[1]['M']} on {self.arch}"
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
        space = Space(z3)
        inputs = Problems.of(space, self.families)
        left_open = self._others(*self._deciding()) if local else ()
        encoder = Encoder(inputs, self.head.family, self.arch, left_open, free_costs=self.free_costs)
        layers = [encoder.outcomes(layer.name) for layer in self._tile_layers()]
        bad = [
            conj(z3, (_last_is(z3, layers, tile), self._fails(z3, encoder, tile)))
            for tile in self._tiles()
            if self._can_fail(tile)
        ]
        if self.region is not None:
            idle = [negate(z3, layer.active) for layer in layers]
            bad.append(conj(z3, (*idle, self.region.encode(encoder))))
        return Query(space, [inputs], [disj(z3, bad)], self.check, is_exact=not local and not self.free_costs)

    def _deciding(self) -> set[str]:
        """The tile layers that no later one repairs, and what their gates read."""
        layers = self._tile_layers()
        return self._with_choices({layer.name for layer in layers} - {str(layer.repairs) for layer in layers})

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
