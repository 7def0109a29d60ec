"""From the rule IR to z3: what each layer yields for one arch, as formulas over a shared set of inputs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

from .costs import compares_costs
from .expr import COMPARE, Bin, CeilDiv, Compare, Cond, EnumWord, Expr, Int, Name, Pred, names
from .ir import CUSTOM, AnyCond, Cap, Choice, Family, Layer, Outcome, Rule, Value
from .normal import ArchRules
from .smt_problems import Problems
from .smt_space import Term, Z3Bool, Z3Int, conj, constant, disj, negate


class Outcomes:
    """What a layer may yield. `is_value(v)` says when it yields v; `active` says when it yields anything."""

    def __init__(self, values: tuple[Value, ...], active: Z3Bool) -> None:
        self.values = values
        self.active = active

    def is_value(self, value: Value) -> Z3Bool:
        raise NotImplementedError


class FreeOutcomes(Outcomes):
    """Any value where the gate holds: what is known of a layer whose rules are not looked into."""

    def __init__(self, encoder: Encoder, layer: Layer) -> None:
        super().__init__(encoder.of.possible(layer.name), LayerScope(encoder, layer).all(layer.gate))
        self._z3 = encoder.space.z3
        self._choice = encoder.space.integer(f"{layer.name}?", 0, len(self.values) - 1)

    def is_value(self, value: Value) -> Z3Bool:
        if value not in self.values:
            return self._z3.BoolVal(False)
        chosen = _compare(self._z3, "==", self._choice, constant(self.values.index(value)))
        return conj(self._z3, (self.active, chosen))


class RuleOutcomes(Outcomes):
    """The rules of a layer for one arch, encoded."""

    def __init__(self, encoder: Encoder, layer: Layer) -> None:
        self.encoder, self.layer = encoder, layer
        self.z3 = encoder.space.z3
        scope = LayerScope(encoder, layer)
        super().__init__(encoder.of.possible(layer.name), scope.all(layer.gate))
        self.rules: tuple[Rule, ...] = encoder.of.rules(layer)
        self.conds: tuple[Z3Bool, ...] = tuple(scope.rule(r) for r in self.rules)
        self._made: dict[Value, Z3Bool] = {}

    def is_value(self, value: Value) -> Z3Bool:
        if value not in self._made:
            self._made[value] = conj(self.z3, (self.active, self._chain(value)))
        return self._made[value]

    def _chain(self, value: Value) -> Z3Bool:
        """First match wins, folded from the last rule upwards."""
        z3 = self.z3
        result: Z3Bool = z3.BoolVal(False)
        for index in range(len(self.rules) - 1, -1, -1):
            outcome, cond = self.rules[index].outcome, self.conds[index]
            if isinstance(outcome, Choice) or (isinstance(outcome, Cap) and outcome.limit is None):
                yields = value == (outcome.value if isinstance(outcome, Choice) else CUSTOM)
                result = disj(z3, (cond, result)) if yields else conj(z3, (self._unless[index], result))
            else:
                result = z3.If(cond, self._yields(outcome, value), result)
        return result

    @cached_property
    def _unless(self) -> list[Z3Bool]:
        return [negate(self.z3, cond) for cond in self.conds]

    def _yields(self, outcome: Outcome, value: Value) -> Z3Bool:
        z3 = self.z3
        assert not isinstance(outcome, Choice)
        if isinstance(outcome, Cap):
            assert outcome.limit is not None
            within = _compare(z3, "<=", self.encoder.inputs.terms["M"], constant(outcome.limit))
            return within if value == CUSTOM else negate(z3, within)
        return self.encoder.outcomes(outcome.layer).is_value(value)

    def fires(self, rule_id: str) -> Z3Bool:
        """When the layer is active and this rule is its first match."""
        z3 = self.z3
        for index, rule in enumerate(self.rules):
            if rule.id == rule_id:
                return conj(z3, (self.active, *self._unless[:index], self.conds[index]))
        return z3.BoolVal(False)


class Encoder:
    """One family on one arch over a set of problems. Layers are encoded when they are first asked for.

    The rules of layers in `left_open` are not looked into; where another encoder is given, its outcomes are taken.
    With `free_costs` any tile of a cost table may be cheaper than any other: more than can be, so that what is
    impossible then is impossible.
    """

    def __init__(
        self,
        inputs: Problems,
        family: Family,
        arch: str,
        left_open: Iterable[str] = (),
        agreeing: Encoder | None = None,
        *,
        free_costs: bool = False,
    ) -> None:
        self.inputs, self.family, self.arch = inputs, family, arch
        self.of = ArchRules(family, arch)
        self.space = inputs.space
        self._open, self._agreeing, self.free_costs = frozenset(left_open), agreeing, free_costs
        self._outcomes: dict[str, Outcomes] = {}

    def outcomes(self, layer: str) -> Outcomes:
        if layer not in self._outcomes:
            self._outcomes[layer] = self._encode(self.family.layer_by_name[layer])
        return self._outcomes[layer]

    def _encode(self, layer: Layer) -> Outcomes:
        if layer.name not in self._open:
            return RuleOutcomes(self, layer)
        return self._agreeing.outcomes(layer.name) if self._agreeing else FreeOutcomes(self, layer)

    @cached_property
    def scope(self) -> LayerScope:
        """For conditions over inputs and outcomes that belong to no layer."""
        return LayerScope(self, None)

    def field(self, name: str, value: Value) -> int:
        """A field of a tile as an integer."""
        return int(self.family.tile_by_id[str(value)].fields[name])


class LayerScope:
    """Encodes the expressions of one layer."""

    def __init__(self, encoder: Encoder, layer: Layer | None) -> None:
        self.encoder, self.layer = encoder, layer
        self.space = encoder.space
        self.z3 = encoder.space.z3
        self._facts: dict[str, Term] = {}
        self._exprs = {f.name: f.expr for f in layer.facts} if layer else {}
        self._preds: dict[str, Z3Bool] = {}

    def all(self, conds: Iterable[Cond | AnyCond]) -> Z3Bool:
        return conj(self.z3, (self.cond(c) for c in conds))

    def rule(self, rule: Rule) -> Z3Bool:
        """The conditions of a rule. With free costs those that compare costs hold as they like, unless they have to."""
        if not self.encoder.free_costs or rule.cost is None:
            return self.all(rule.conds)
        compared = [c for c in rule.conds if compares_costs(c)]
        if not compared:
            return self.all(rule.conds)
        met = self.all(c for c in rule.conds if not compares_costs(c))
        return conj(self.z3, (met, disj(self.z3, (self.z3.Bool(f"cheapest {rule.id}"), self._escaped(compared)))))

    def _escaped(self, compared: Iterable[Cond]) -> Z3Bool:
        """Whether every tile that is compared with cannot run."""
        assert self.layer is not None
        parts: list[Z3Bool] = []
        for cond in compared:
            if not isinstance(cond, Pred):
                return self.z3.BoolVal(False)
            for term in self.layer.predicate_by_name[cond.name].terms:
                others = term.conds if isinstance(term, AnyCond) else ()
                parts.append(disj(self.z3, (self.cond(c) for c in others if not compares_costs(c))))
        return conj(self.z3, parts)

    def cond(self, cond: Cond | AnyCond) -> Z3Bool:
        if isinstance(cond, AnyCond):
            return disj(self.z3, (self.cond(c) for c in cond.conds))
        if isinstance(cond, Pred):
            assert self.layer is not None
            if cond.name not in self._preds:
                self._preds[cond.name] = self.all(self.layer.predicate_by_name[cond.name].terms)
            holds = self._preds[cond.name]
            return negate(self.z3, holds) if cond.negated else holds
        return self._comparison(cond)

    def _comparison(self, cond: Compare) -> Z3Bool:
        if isinstance(cond.left, Name) and isinstance(cond.right, (Int, EnumWord)):
            name = cond.left.name
            if isinstance(cond.right, EnumWord) and name in self.encoder.inputs.words:
                return self._word(name, cond.op == "==", cond.right.word)
            layer, _, field = name.partition(".")
            if name not in self._exprs and layer in self.encoder.family.layer_by_name:
                return self._outcome(layer, field, cond.op, cond.right)
        present = [] if self.layer else self._presence(cond)
        return conj(self.z3, (*present, _compare(self.z3, cond.op, self.term(cond.left), self.term(cond.right))))

    def _presence(self, cond: Compare) -> list[Z3Bool]:
        """Outside a layer, nothing guarantees that the outcomes of a comparison are there."""
        found = {n.partition(".")[0] for n in names(cond)} & set(self.encoder.family.layer_by_name)
        return [self.encoder.outcomes(name).active for name in sorted(found)]

    def _word(self, name: str, equal: bool, word: str) -> Z3Bool:
        words = self.encoder.inputs.words[name]
        if word not in words:
            return self.z3.BoolVal(not equal)
        op = "==" if equal else "!="
        return _compare(self.z3, op, self.encoder.inputs.terms[name], constant(words.index(word)))

    def _outcome(self, layer: str, field: str, op: str, right: Int | EnumWord) -> Z3Bool:
        """A comparison of an outcome with a constant: the values that pass, one by one."""
        outcomes, wanted = self.encoder.outcomes(layer), right.word if isinstance(right, EnumWord) else right.value
        passing = [
            v
            for v in outcomes.values
            if COMPARE[op](self.encoder.field(field, v) if field else _like(v, wanted), wanted)
        ]
        return disj(self.z3, (outcomes.is_value(v) for v in passing))

    def term(self, expr: Expr) -> Term:
        if isinstance(expr, Int):
            return constant(expr.value)
        if isinstance(expr, EnumWord):
            return constant(expr.code)
        if isinstance(expr, Name):
            return self._name(expr.name)
        if isinstance(expr, CeilDiv):
            return self.space.quotient(self._name(expr.name.name), expr.divisor, expr.divisor - 1)
        return self._binary(expr)

    def _binary(self, expr: Bin) -> Term:
        left = self.term(expr.left)
        if expr.op in ("//", "%"):
            divide = self.space.quotient if expr.op == "//" else self.space.remainder
            return divide(left, self.term(expr.right).low)
        right = self.term(expr.right)
        return self.space.add(left, right) if expr.op == "+" else self.space.multiply(left, right)

    def _name(self, name: str) -> Term:
        if name in self._exprs:
            if name not in self._facts:
                self._facts[name] = self.term(self._exprs[name])
            return self._facts[name]
        if name in self.encoder.inputs.terms:
            return self.encoder.inputs.terms[name]
        return self._outcome_term(*name.partition(".")[::2])

    def _outcome_term(self, layer: str, field: str) -> Term:
        """An outcome inside arithmetic: a case distinction over its values. Only for layers whose gate holds."""
        outcomes = self.encoder.outcomes(layer)
        cases = [(v, self.encoder.field(field, v) if field else int(v)) for v in outcomes.values]
        numbers = [number for _, number in cases]
        if min(numbers) == max(numbers):
            return constant(numbers[0])
        expr: Z3Int = self.z3.IntVal(numbers[-1])
        for value, number in cases[:-1]:
            expr = self.z3.If(outcomes.is_value(value), self.z3.IntVal(number), expr)
        return Term(expr, min(numbers), max(numbers))


def _like(value: Value, wanted: Value) -> Any:
    return str(value) if isinstance(wanted, str) else value


def _compare(z3: Any, op: str, left: Term, right: Term) -> Z3Bool:
    """A comparison, decided at once where the bounds decide it."""
    if left.is_constant and right.is_constant:
        return z3.BoolVal(COMPARE[op](left.low, right.low))
    if (op in ("<", "<=") and COMPARE[op](left.high, right.low)) or (
        op in (">", ">=") and COMPARE[op](left.low, right.high)
    ):
        return z3.BoolVal(True)
    if op in ("<", "<=") and not COMPARE[op](left.low, right.high):
        return z3.BoolVal(False)
    if op in (">", ">=") and not COMPARE[op](left.high, right.low):
        return z3.BoolVal(False)
    return COMPARE[op](left.expr, right.expr)


def differ(z3: Any, one: Outcomes, two: Outcomes) -> Z3Bool:
    """When two layers yield different values, or only one of them yields any."""
    values = [v for v in one.values if v in two.values]
    extra = [v for v in one.values if v not in two.values]
    parts = [conj(z3, (two.active, negate(z3, one.active)))]
    parts += [one.is_value(v) for v in extra]
    parts += [conj(z3, (one.is_value(v), negate(z3, two.is_value(v)))) for v in values]
    return disj(z3, parts)
