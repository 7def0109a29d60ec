"""Problems worth trying: integers around every threshold that the rules state, solved for each input.

A coarse grid misses rules that hold between two close thresholds. Here every comparison of the rules is solved
for N, K and M in turn, given the inputs chosen before, and the problems lie at the solution and one beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .expr import Bin, Compare, Expr, Int, Name, names, walk
from .ir import AnyCond, Cap, Family, Input, Layer, Rule
from .vector import evaluate_arrays

ORDER = ("N", "K", "M")
"""Inputs in the order in which they are solved for; every other input is picked before."""
USUAL = {
    "M": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "N": (64, 256, 1024, 1536, 2048, 3072, 4096, 5120, 8192, 11_008, 14_336, 28_672, 128_256),
    "K": (64, 256, 1024, 1536, 2048, 3072, 4096, 5120, 8192, 11_008, 14_336, 28_672),
    "blocksize": (64,),
}


@dataclass(frozen=True)
class Threshold:
    """Two sides of a comparison, the facts they may use, and the integer inputs they come down to."""

    left: Expr
    right: Expr
    facts: Mapping[str, Expr]
    inputs: frozenset[str]


class FactEnv(dict[str, Any]):
    """Names to arrays; facts are computed when first read."""

    def __init__(self, facts: Mapping[str, Expr], values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.facts = facts

    def __missing__(self, name: str) -> Any:
        value = self[name] = evaluate_arrays(self.facts[name], self)
        return value


class Mixer:
    """Pseudo-random integers that are the same with every version of numpy."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, bound: int, shape: tuple[int, ...]) -> Any:
        """Integers from 0 to bound - 1."""
        self.state += 1
        count = int(np.prod(shape))
        x = np.arange(count, dtype=np.uint64) + np.uint64(self.state * 0x9E3779B97F4A7C15 % 2**64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        return ((x >> np.uint64(33)) % np.uint64(bound)).astype(np.int64).reshape(shape)

    def pick(self, values: Sequence[int], shape: tuple[int, ...]) -> Any:
        return np.array(values, np.int64)[self.below(len(values), shape)]


def thresholds(family: Family, layers: Iterable[tuple[Layer, Iterable[Rule] | None]]) -> list[Threshold]:
    """Comparisons over integer inputs, of the given rules and the predicates they use, and their caps on M.

    None stands for all rules of a layer.
    """
    integers = {i.name for i in family.inputs if not i.is_enum}
    found: dict[tuple[str, str], Threshold] = {}
    for layer, rules in layers:
        facts = {f.name: f.expr for f in layer.facts}
        for compare in _comparisons(layer, rules):
            inputs = _inputs(compare, facts)
            if inputs and inputs <= integers:
                key = (_expanded(compare.left, facts), _expanded(compare.right, facts))
                found.setdefault(key, Threshold(compare.left, compare.right, facts, inputs))
    return list(found.values())


def _comparisons(layer: Layer, rules: Iterable[Rule] | None) -> Iterable[Compare]:
    if rules is None:
        rules = (r for s in layer.sections for r in s.rules)
    rules = tuple(rules)
    for rule in rules:
        if isinstance(rule.outcome, Cap) and rule.outcome.limit:
            yield Compare("<=", Name("M"), Int(rule.outcome.limit))
    pending: list[Any] = [c for r in rules for c in r.conds]
    used: set[str] = set()
    while pending:
        cond = pending.pop()
        if isinstance(cond, AnyCond):
            pending.extend(cond.conds)
        elif isinstance(cond, Compare):
            yield cond
        elif cond.name not in used:
            used.add(cond.name)
            pending.extend(layer.predicate_by_name[cond.name].terms)


def _inputs(node: Any, facts: Mapping[str, Expr]) -> frozenset[str]:
    found: set[str] = set()
    for name in names(node):
        found |= _inputs(facts[name], facts) if name in facts else {name}
    return frozenset(found)


def _expanded(node: Expr, facts: Mapping[str, Expr]) -> str:
    """A text that is equal for equal meanings, facts written out."""
    if isinstance(node, Name) and node.name in facts:
        return _expanded(facts[node.name], facts)
    parts = [_expanded(n, facts) if isinstance(n, Name) and n is not node else repr(n) for n in walk(node)]
    return "(" + " ".join(parts) + ")"


def seed_problems(
    family: Family,
    sm_counts: Sequence[int],
    found: Sequence[Threshold],
    columns: int,
    rows: int,
    seed: int = 1,
) -> dict[str, Any]:
    """Arrays by input: M has the shape (columns, rows), every other input (columns, 1)."""
    mixer = Mixer(seed)
    values: dict[str, Any] = {}
    rounding = _moduli(found)
    for item in family.inputs:
        if item.name not in ORDER:
            values[item.name] = _pick_free(item, sm_counts, found, mixer, (columns, 1))
    for name in ORDER:
        item = family.input_by_name[name]
        shape = (columns, rows if name == "M" else 1)
        values[name] = _solved(item, values, found, mixer, shape)
        if name != "M":
            values[name] = _rounded(values[name], rounding, item.limit, mixer)
    return values


def _pick_free(item: Input, sm_counts: Sequence[int], found: Sequence[Threshold], mixer: Mixer, shape: Any) -> Any:
    if item.is_enum:
        return mixer.below(len(item.words), shape)
    seeded = _base(item, found)
    usual = sm_counts if item.name == "num_sms" else [v for v in USUAL.get(item.name, ()) if v <= item.limit]
    values = np.where(mixer.below(3, shape) == 0, _any_size(item, mixer, shape), mixer.pick(seeded, shape))
    return np.where(mixer.below(4, shape) > 0, mixer.pick(list(usual), shape), values) if usual else values


def _any_size(item: Input, mixer: Mixer, shape: Any) -> Any:
    """Values of which each size from 1 to the limit has an equal share, whatever its magnitude."""
    bits = mixer.below(item.limit.bit_length() + 1, shape)
    return np.minimum(mixer.below(1 << 30, shape) % (np.int64(1) << bits) + 1, item.limit)


def _base(item: Input, found: Sequence[Threshold]) -> list[int]:
    """Thresholds of this input alone, with their neighbours, and usual values."""
    values = {1, item.limit, *USUAL.get(item.name, ())}
    for threshold in found:
        if threshold.inputs == {item.name}:
            solution = _turn(threshold, item)
            values |= {solution - 1, solution, solution + 1}
    return sorted(v for v in values if 1 <= v <= item.limit)


def _solved(item: Input, values: Mapping[str, Any], found: Sequence[Threshold], mixer: Mixer, shape: Any) -> Any:
    """For half of the places a base value or any size at all, for the others the solution of some comparison."""
    base = mixer.pick(_base(item, found), shape)
    result = np.where(mixer.below(4, shape) == 0, _any_size(item, mixer, shape), base)
    known = {*values, item.name}
    usable = [t for t in found if item.name in t.inputs and len(t.inputs) > 1 and t.inputs <= known]
    if not usable:
        return result
    flat = result.reshape(-1)
    place = np.arange(flat.size)
    choice = mixer.below(2 * len(usable), (flat.size,))
    width = shape[1]
    for index, threshold in enumerate(usable):
        at = place[choice == index]
        given = {n: values[n][at // width, 0] for n in threshold.inputs if n != item.name}
        solution = _solve(threshold, item, given, at.shape) + mixer.below(3, at.shape) - 1
        flat[at] = np.where(solution >= item.limit, flat[at], np.maximum(solution, 1))
    return flat.reshape(shape)


def _turn(threshold: Threshold, item: Input) -> int:
    """`_solve` for a threshold of one input, in plain numbers: an array of one takes ten times as long."""

    def side(value: int) -> bool:
        env = FactEnv(threshold.facts, {item.name: value})
        return bool(evaluate_arrays(threshold.left, env) >= evaluate_arrays(threshold.right, env))

    low, high = 1, item.limit
    first = side(low)
    for _ in range(item.limit.bit_length()):
        middle = (low + high) >> 1
        if side(middle) == first:
            low = middle
        else:
            high = middle
    return high


def _solve(threshold: Threshold, item: Input, given: Mapping[str, Any], shape: Any) -> Any:
    """The least value at which `left >= right` differs from what it is at 1, else the limit."""

    def side(value: Any) -> Any:
        env = FactEnv(threshold.facts, {**given, item.name: value})
        return evaluate_arrays(threshold.left, env) >= evaluate_arrays(threshold.right, env)

    low = np.ones(shape, np.int64)
    high = np.full(shape, item.limit, np.int64)
    first = side(low)
    for _ in range(item.limit.bit_length()):
        middle = (low + high) >> 1
        same = side(middle) == first
        low = np.where(same, middle, low)
        high = np.where(same, high, middle)
    return high


def _moduli(found: Sequence[Threshold]) -> list[int]:
    moduli = {64}
    for threshold in found:
        for node in (*walk(threshold.left), *walk(threshold.right)):
            if isinstance(node, Bin) and node.op == "%" and isinstance(node.right, Int):
                moduli.add(node.right.value)
    return sorted(moduli)


def _rounded(values: Any, moduli: Sequence[int], limit: int, mixer: Mixer) -> Any:
    """Two places of three become the multiple of some modulus below or above, where there is one within the limit."""
    modulus = mixer.pick(moduli, values.shape)
    multiple = np.maximum((values + mixer.below(2, values.shape) * (modulus - 1)) // modulus, 1) * modulus
    return np.where((mixer.below(3, values.shape) > 0) & (multiple <= limit), multiple, values)
