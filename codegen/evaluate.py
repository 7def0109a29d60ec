"""The scalar interpreter: the oracle that every generated evaluator is tested against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .expr import COMPARE, Compare, Cond, Pred, evaluate_expr
from .ir import CUSTOM, FALLBACK, AnyCond, Cap, Choice, Family, Layer, Rule, Value

Problem = Mapping[str, "int | str"]


class ProblemError(ValueError):
    """An input of the problem is missing, unknown or outside the limits of the family."""


@dataclass(frozen=True)
class LayerResult:
    """Outcome of one layer; both are None when the layer's gate did not hold."""

    value: Value | None
    rule: Rule | None


@dataclass(frozen=True)
class Decision:
    """Outcomes of all layers for one problem, in family order."""

    results: Mapping[str, LayerResult]

    def value(self, layer: str) -> Value | None:
        return self.results[layer].value

    def rule_id(self, layer: str) -> str | None:
        rule = self.results[layer].rule
        return None if rule is None else rule.id

    def tile(self, family: Family) -> str | None:
        """The tile that is launched: the last tile layer with an outcome."""
        found = [self.value(layer.name) for layer in family.layers if layer.kind == "tile"]
        present = [v for v in found if v is not None]
        return str(present[-1]) if present else None


def decide(family: Family, arch: str, problem: Problem) -> Decision:
    """Evaluate every layer for one arch and problem.

    `problem` maps every input of the family to an int (1..limit) or, for enumerated inputs such as dtype, to
    its word. Raises ProblemError when it does not, KeyError when the arch has no rules.
    """
    env = encode_problem(family, problem)
    results: dict[str, LayerResult] = {}
    for layer in family.layers:
        results[layer.name] = _decide_layer(family, layer, arch, env)
        bind_outcome(family, layer, results[layer.name].value, env)
    return Decision(results)


def encode_problem(family: Family, problem: Problem) -> dict[str, int]:
    """Inputs as ints, words replaced by their codes. An enumerated input may be left out: its first word."""
    env: dict[str, int] = {}
    for item in family.inputs:
        value = problem.get(item.name, item.words[0] if item.is_enum and item.name != "dtype" else None)
        if value is None:
            raise ProblemError(f"input '{item.name}' is missing")
        env[item.name] = _encode(item.name, item.words, item.limit, value)
    return env


def _encode(name: str, words: tuple[str, ...], limit: int, value: int | str) -> int:
    if words:
        if value not in words:
            raise ProblemError(f"{name} is {value!r}; allowed: {', '.join(words)}")
        return words.index(str(value))
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProblemError(f"{name} is {value!r}; an integer is expected")
    if not 1 <= value <= limit:
        raise ProblemError(f"{name} is {value}; allowed: 1 to {limit}")
    return value


def bind_outcome(family: Family, layer: Layer, value: Value | None, env: dict[str, int]) -> None:
    """Make a layer's outcome readable by later layers. Outcomes of gated-off layers stay unbound."""
    if value is None:
        return
    env[layer.name] = value if isinstance(value, int) else layer.values.index(value)
    if layer.kind == "tile":
        for name, field in family.tile_by_id[str(value)].fields.items():
            if isinstance(field, int):
                env[f"{layer.name}.{name}"] = int(field)


def holds(layer: Layer, cond: Cond | AnyCond, env: Mapping[str, int]) -> bool:
    """Whether one conjunct (or `any:` list) holds. `env` has inputs, facts and earlier outcomes."""
    if isinstance(cond, AnyCond):
        return any(holds(layer, c, env) for c in cond.conds)
    if isinstance(cond, Pred):
        terms = layer.predicate_by_name[cond.name].terms
        return all(holds(layer, t, env) for t in terms) != cond.negated
    assert isinstance(cond, Compare)
    return bool(COMPARE[cond.op](evaluate_expr(cond.left, env), evaluate_expr(cond.right, env)))


def facts_env(layer: Layer, env: Mapping[str, int]) -> dict[str, int]:
    """`env` with the layer's facts added."""
    full = dict(env)
    for fact in layer.facts:
        full[fact.name] = evaluate_expr(fact.expr, full)
    return full


def _decide_layer(family: Family, layer: Layer, arch: str, env: Mapping[str, int]) -> LayerResult:
    if not all(holds(layer, c, env) for c in layer.gate):
        return LayerResult(None, None)
    full = facts_env(layer, env)
    for rule in layer.effective(arch):
        if all(holds(layer, c, full) for c in rule.conds):
            return LayerResult(outcome_value(family, layer, rule, full), rule)
    raise KeyError(f"layer '{layer.name}' has no rule for arch '{arch}' here (E201 or E202)")


def outcome_value(family: Family, layer: Layer, rule: Rule, env: Mapping[str, int]) -> Value:
    """The value a rule that fired yields in this environment."""
    outcome = rule.outcome
    if isinstance(outcome, Choice):
        return outcome.value
    if isinstance(outcome, Cap):
        return CUSTOM if outcome.limit is None or env["M"] <= outcome.limit else FALLBACK
    return family.layer_by_name[outcome.layer].values[env[outcome.layer]]
