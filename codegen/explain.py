"""Why one problem is decided as it is, and how far it is from being decided otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .costs import compares_costs
from .evaluate import Decision, bind_outcome, decide, encode_problem, facts_env, holds, outcome_value
from .expr import COMPARE, Compare, ExprError, evaluate_expr, format_node, parse_cond
from .ir import Family, Layer, Rule, SpecTree, Value
from .models import EvidenceRecord
from .vector import Evaluator, Ints, Outcomes

FIRST_WINDOW = 256
"""Values tried at once at first; the window grows eightfold until the limit of the input is reached."""
VARIABLES = ("M", "N", "K", "num_sms")


@dataclass(frozen=True)
class Cited:
    """Evidence of a rule. `inside`: whether the problem lies in the region measured; None if none is stated."""

    id: str
    record: EvidenceRecord | None
    inside: bool | None


@dataclass(frozen=True)
class LayerExplanation:
    """Outcome of one layer. Without outcome, `unmet` holds the conjuncts of its gate that fail."""

    layer: str
    value: Value | None
    rule: Rule | None
    evidence: tuple[Cited, ...] = ()
    runner_up: Rule | None = None
    runner_up_value: Value | None = None
    unmet: tuple[str, ...] = ()
    costs: tuple[tuple[str, int], ...] = ()
    """Where the least of a table was taken: tiles that could run with their costs in picoseconds, the least first."""


@dataclass(frozen=True)
class Moved:
    """What a layer does beyond a threshold."""

    layer: str
    before: Value | None
    after: Value | None
    rule: str | None


@dataclass(frozen=True)
class Nearest:
    """The nearest value of one input, in one direction, at which any layer's outcome changes.

    `value` is None when no value up to the input's limit (or down to 1) changes anything; `step` is the
    distance between the values tried: for K the blocksize, as far as K is a multiple of it.
    """

    variable: str
    direction: int
    step: int
    value: int | None = None
    moved: tuple[Moved, ...] = ()


@dataclass(frozen=True)
class Explanation:
    family: Family
    arch: str
    problem: Mapping[str, int | str]
    layers: tuple[LayerExplanation, ...]
    launch: str | None
    nearest: tuple[Nearest, ...]


def explain(tree: SpecTree, family: Family, arch: str, problem: Mapping[str, int | str]) -> Explanation:
    """Explain one decision. Raises ProblemError for a bad problem, KeyError when a layer has no rule for it."""
    decision = decide(family, arch, problem)
    env = encode_problem(family, problem)
    layers = []
    for layer in family.layers:
        layers.append(_layer(tree, family, layer, arch, decision, env))
        bind_outcome(family, layer, decision.value(layer.name), env)
    return Explanation(
        family, arch, dict(problem), tuple(layers), decision.tile(family), tuple(nearest(family, arch, problem))
    )


def _layer(
    tree: SpecTree, family: Family, layer: Layer, arch: str, decision: Decision, env: Mapping[str, int]
) -> LayerExplanation:
    result = decision.results[layer.name]
    if result.rule is None:
        return LayerExplanation(layer.name, None, None, unmet=tuple(_unmet(layer, env)))
    full = facts_env(layer, env)
    rules = layer.effective(arch)
    costs = tuple(_costs(layer, rules, result.rule, full))
    second = _runner_up(layer, rules, result.rule, costs, full)
    value = None if second is None else outcome_value(family, layer, second, full)
    evidence = tuple(_cited(tree, family, name, full) for name in result.rule.evidence)
    return LayerExplanation(layer.name, result.value, result.rule, evidence, second, value, costs=costs)


def _runner_up(
    layer: Layer, rules: Sequence[Rule], fired: Rule, costs: Sequence[tuple[str, int]], env: Mapping[str, int]
) -> Rule | None:
    """What would decide without the rule that fired: of a table the next in cost, else the next rule that holds."""
    if len(costs) > 1:
        return next(r for r in rules if r.location == fired.location and r.cost and r.cost[0] == costs[1][0])
    later = rules[rules.index(fired) + 1 :]
    return next((r for r in later if all(holds(layer, c, env) for c in r.conds)), None)


def _costs(layer: Layer, rules: Sequence[Rule], fired: Rule, env: Mapping[str, int]) -> list[tuple[str, int]]:
    """Costs of the tiles that competed with the rule that fired: rules that stand for one in the specs."""
    if fired.cost is None:
        return []
    found = []
    for rule in rules:
        if rule.cost is None or rule.location != fired.location:
            continue
        if all(holds(layer, c, env) for c in rule.conds if not compares_costs(c)):
            found.append((rule.cost[0], env[rule.cost[1]]))
    return sorted(found, key=lambda pair: pair[1])


def _unmet(layer: Layer, env: Mapping[str, int]) -> Iterator[str]:
    """Conjuncts of the gate that fail; one that reads an outcome which is not there counts as failing."""
    for cond in layer.gate:
        try:
            met = holds(layer, cond, env)
        except KeyError:
            met = False
        if not met:
            yield format_node(cond)


def _cited(tree: SpecTree, family: Family, name: str, env: Mapping[str, int]) -> Cited:
    record = tree.evidence.get(name)
    inside = None if record is None or not record.region else _inside(family, record.region, env)
    return Cited(name, record, inside)


def _inside(family: Family, region: Sequence[str], env: Mapping[str, int]) -> bool | None:
    words = {w: i for item in family.inputs if item.is_enum for i, w in enumerate(item.words)}
    try:
        for text in region:
            cond = parse_cond(text)
            if not isinstance(cond, Compare):
                return None
            left, right = (evaluate_expr(side, {**words, **env}) for side in (cond.left, cond.right))
            if not COMPARE[cond.op](left, right):
                return False
    except (ExprError, KeyError):
        return None
    return True


def nearest(family: Family, arch: str, problem: Mapping[str, int | str]) -> Iterator[Nearest]:
    """The nearest change in M, N, K and num_sms, upwards and downwards, found by trying every value in between."""
    evaluator = Evaluator(family, arch)
    env = encode_problem(family, problem)
    here = evaluator.decide(env)
    for variable in VARIABLES:
        item = family.input_by_name.get(variable)
        if item is None:
            continue
        blocksize = env.get("blocksize", 1)
        step = blocksize if variable == "K" and env["K"] % blocksize == 0 else 1
        for direction in (1, -1):
            yield _search(evaluator, env, here, Nearest(variable, direction, step), item.limit)


def _search(evaluator: Evaluator, env: Mapping[str, int], here: Outcomes, goal: Nearest, limit: int) -> Nearest:
    start = env[goal.variable]
    count = (limit - start if goal.direction > 0 else start - 1) // goal.step
    done, window = 0, FIRST_WINDOW
    while done < count:
        size = min(window, count - done)
        values = start + goal.direction * goal.step * np.arange(done + 1, done + size + 1, dtype=np.int64)
        outcomes = evaluator.decide({**env, goal.variable: values})
        hit = _first_change(here, outcomes)
        if hit is not None:
            return _found(evaluator, goal, here, outcomes, hit, values)
        done, window = done + size, window * 8
    return goal


def _first_change(here: Outcomes, outcomes: Outcomes) -> int | None:
    changed = np.any([outcomes[name].codes != arrays.codes for name, arrays in here.items()], axis=0)
    return int(np.argmax(changed)) if changed.any() else None


def _found(evaluator: Evaluator, goal: Nearest, here: Outcomes, outcomes: Outcomes, hit: int, values: Ints) -> Nearest:
    moved = []
    for layer in evaluator.family.layers:
        before, after = int(here[layer.name].codes), int(outcomes[layer.name].codes[hit])
        if before != after:
            rule = int(outcomes[layer.name].rules[hit])
            name = None if rule < 0 else layer.effective(evaluator.arch)[rule].id
            shown = [None if code < 0 else layer.values[code] for code in (before, after)]
            moved.append(Moved(layer.name, shown[0], shown[1], name))
    return Nearest(goal.variable, goal.direction, goal.step, int(values[hit]), tuple(moved))
