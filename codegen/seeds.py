"""Problems that sit on the thresholds of the rules: a grid that no rule's region slips through.

Every comparison is solved for M, N and K by bisection (all comparisons with the variable on one side and no `%`
are monotone in it), and both sides of the flip are kept, with the neighbouring multiples of the rules' moduli.
N is solved for alone, then K for each N and N for each K, so that the corners between two thresholds are met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import evaluate_arrays
from .expr import COMPARE, Bin, CeilDiv, Compare, Expr, Int, map_names, names, walk
from .ir import AnyCond, Arch, Family, Layer
from .vector import Ints

VARIABLES = ("M", "N", "K")


@dataclass(frozen=True)
class Threshold:
    """A comparison over inputs alone: facts are expanded and outcomes replaced by one of their values."""

    left: Expr
    right: Expr
    op: str
    reads: frozenset[str]

    def solve(self, variable: str, env: dict[str, Any], limit: int) -> Ints:
        """Values of the variable on both sides of each flip, broadcast over `env`; empty if it never flips."""
        sides = [variable in names(side) for side in (self.left, self.right)]
        if all(sides) or _has_modulus(self.left, variable) or _has_modulus(self.right, variable):
            return np.zeros(0, np.int64)
        flips = {"<": (">=",), ">=": (">=",), "<=": (">",), ">": (">",)}.get(self.op, (">=", ">"))
        return np.stack([self._bisect(variable, op, env, limit, rising=sides[0]) for op in flips])

    def _bisect(self, variable: str, op: str, env: dict[str, Any], limit: int, *, rising: bool) -> Ints:
        """The last value before the flip of `left op right`; 0 or `limit` when it does not flip within the range."""
        shape = np.broadcast_shapes(*(np.shape(env[n]) for n in self.reads if n != variable), ())
        low, high = np.zeros(shape, np.int64), np.full(shape, limit + 1, np.int64)
        while np.any(high - low > 1):
            middle = (low + high) // 2
            full = {**env, variable: middle}
            beyond = COMPARE[op](evaluate_arrays(self.left, full), evaluate_arrays(self.right, full))
            beyond = beyond if rising else ~np.asarray(beyond)
            low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
        return low


def _has_modulus(expr: Expr, variable: str) -> bool:
    return any(isinstance(n, Bin) and n.op == "%" and variable in names(n) for n in walk(expr))


def thresholds(family: Family, arch: str) -> list[Threshold]:
    """Every comparison that the arch's rules can read, over inputs alone, without duplicates."""
    found: dict[tuple[Expr, Expr, str], Threshold] = {}
    for layer in family.layers:
        facts = _expanded_facts(layer)
        for cond in _comparisons(layer, arch):
            for outcome in _outcome_values(family, layer, cond):
                left, right = (_expand(side, {**facts, **outcome}) for side in (cond.left, cond.right))
                reads = frozenset(names(left)) | frozenset(names(right))
                if reads & {*VARIABLES, "num_sms", "blocksize"}:
                    found[left, right, cond.op] = Threshold(left, right, cond.op, reads)
    return list(found.values())


def _comparisons(layer: Layer, arch: str) -> Iterator[Compare]:
    for conds in (layer.gate, *(r.conds for r in layer.effective(arch))):
        yield from (c for c in conds if isinstance(c, Compare))
    for predicate in layer.predicates:
        for term in predicate.terms:
            parts = term.conds if isinstance(term, AnyCond) else (term,)
            yield from (c for c in parts if isinstance(c, Compare))


def _expanded_facts(layer: Layer) -> dict[str, Expr]:
    facts: dict[str, Expr] = {}
    for fact in layer.facts:
        facts[fact.name] = _expand(fact.expr, facts)
    return facts


def _expand(expr: Expr, values: dict[str, Expr]) -> Expr:
    """The expression with names replaced; ceil_div of a replaced name becomes its sum and division."""
    if isinstance(expr, CeilDiv) and expr.name.name in values:
        return Bin("//", Bin("+", values[expr.name.name], Int(expr.divisor - 1)), Int(expr.divisor))
    if isinstance(expr, Bin):
        return Bin(expr.op, _expand(expr.left, values), _expand(expr.right, values))
    return map_names(expr, lambda n: values.get(n.name, n))


def _outcome_values(family: Family, layer: Layer, cond: Compare) -> list[dict[str, Expr]]:
    """One substitution for every value that an earlier outcome read by the comparison can have."""
    facts = {f.name: f.expr for f in layer.facts}
    read = set(names(cond))
    for name in list(read):
        if name in facts:
            read |= set(names(facts[name]))
    choices: list[dict[str, Expr]] = [{}]
    for name in sorted(read):
        earlier = family.layer_by_name.get(name.split(".")[0])
        if earlier is None:
            continue
        if earlier.kind == "tile":
            field = name.split(".", 1)[1]
            values = {int(family.tile_by_id[str(v)].fields[field]) for v in earlier.values}
        else:
            values = {v if isinstance(v, int) else i for i, v in enumerate(earlier.values)}
        choices = [{**c, name: Int(v)} for c in choices for v in sorted(values)][:16]
    return choices


def moduli(found: Sequence[Threshold], variable: str) -> list[int]:
    """Divisors by which the variable is taken in `%`, `//` or ceil_div anywhere."""
    result: set[int] = set()
    for threshold in found:
        for node in (*walk(threshold.left), *walk(threshold.right)):
            if isinstance(node, CeilDiv) and node.name.name == variable:
                result.add(node.divisor)
            elif isinstance(node, Bin) and node.op in ("//", "%") and variable in names(node.left):
                assert isinstance(node.right, Int)
                result.add(node.right.value)
    return sorted(result)


class Seeder:
    """Builds the seeds of one arch and SM count from the thresholds of one or more families (same inputs)."""

    def __init__(self, family: Family, found: Sequence[Threshold], num_sms: int, *, dense: bool) -> None:
        self.family = family
        self.found = found
        self.dense = dense
        self.limits = {i.name: i.limit for i in family.inputs if not i.is_enum}
        self.env: dict[str, Any] = {
            "num_sms": num_sms,
            "blocksize": min(64, self.limits.get("blocksize", 64)),
        }
        self.env.update({i.name: 0 for i in family.inputs if i.is_enum})
        self.moduli = {v: moduli(found, v) for v in VARIABLES}

    def solve(self, variable: str, *, given: dict[str, Ints]) -> Ints:
        """Both sides of every flip of the comparisons that read the variable and, besides it, what is given."""
        allowed = {variable, *given}
        parts = [np.zeros(0, np.int64)]
        shape = np.broadcast_shapes(*(a.shape for a in given.values()), ())
        for threshold in self.found:
            reads = threshold.reads & set(VARIABLES)
            if variable in reads and reads <= allowed and (not given or reads != {variable}):
                flips = threshold.solve(variable, {**self.env, **given}, self.limits[variable])
                parts += [np.broadcast_to(f, shape).reshape(-1) for f in flips]
        if len(parts) == 1:
            return np.zeros((0, shape[0] if shape else 1), np.int64)
        return np.concatenate([p[None] for p in parts[1:]])

    def around(self, variable: str, flips: Ints) -> Ints:
        """The flips themselves, one beyond, and the multiples of the moduli on both sides; last axis is new."""
        steps = [m for m in self.moduli[variable] if 1 < m <= 128][-2 if self.dense else -1 :]
        sides = [flips, flips + 1] + ([flips - 1, flips + 2] if self.dense else [])
        for step in steps:
            sides += [flips // step * step, (flips // step + 1) * step]
        return np.clip(np.stack(sides, axis=-1), 1, self.limits[variable])

    def base(self, variable: str) -> Ints:
        """Values of the variable alone: solved thresholds, multiples of moduli, and a coarse sweep."""
        limit = self.limits[variable]
        sweep = [round(2 ** (e / 2)) for e in range(2 * limit.bit_length())]
        steps = self.moduli[variable] or [1]
        blocks = [m * c + d for m in steps for c in (1, 2, 3, 4) for d in (0, 1)]
        aligned = [(v + 127) // 128 * 128 + d for v in sweep if v > 128 for d in (0, 64)]
        solved = self.around(variable, self.solve(variable, given={})).reshape(-1)
        values = np.unique(np.concatenate([solved, np.array([*sweep, *blocks, *aligned], np.int64)]))
        return values[(values >= 1) & (values <= limit)]

    def pairs(self, first: Ints, second: Ints) -> tuple[Ints, Ints]:
        """(N, K): the product of the bases, K solved for every N, N solved for every K; without duplicates."""
        k_solved = self.around("K", self.solve("K", given={"N": first}))
        n_solved = self.around("N", self.solve("N", given={"K": second}))
        thin = 1 if self.dense else 2
        columns = [
            (np.repeat(first[::thin], len(second[::thin])), np.tile(second[::thin], len(first[::thin]))),
            (np.broadcast_to(first[:, None], k_solved.shape).reshape(-1), k_solved.reshape(-1)),
            (n_solved.reshape(-1), np.broadcast_to(second[:, None], n_solved.shape).reshape(-1)),
        ]
        keys = np.unique(np.concatenate([n * (self.limits["K"] + 1) + k for n, k in columns]))
        return keys // (self.limits["K"] + 1), keys % (self.limits["K"] + 1)

    def blocks(self) -> Iterator[dict[str, Ints]]:
        """The seeds as broadcastable arrays: enumerations on the leading axes."""
        base = {v: self.base(v) for v in VARIABLES}
        n, k = self.pairs(base["N"], base["K"])
        yield self._block(M=base["M"], N=n[:, None], K=k[:, None])
        rows = base["M"][base["M"] <= 8192]
        solved = self.around("N", self.solve("N", given={"M": rows}))
        columns = np.unique(np.stack([np.broadcast_to(rows[:, None], solved.shape), solved], -1).reshape(-1, 2), axis=0)
        depth = base["K"][:: 2 if self.dense else 6]
        yield self._block(M=columns[:, :1], N=columns[:, 1:], K=depth)
        if "blocksize" in self.limits:
            yield self._blocksizes(base)

    def _blocksizes(self, base: dict[str, Ints]) -> dict[str, Ints]:
        sizes = np.array([s for s in (16 << i for i in range(12)) if s <= self.limits["blocksize"]], np.int64)
        depth = np.unique(np.concatenate([sizes, sizes * 3, sizes + 32, np.array(self.moduli["K"] or [64])]))
        depth = depth[depth <= self.limits["K"]]
        return self._block(
            M=base["M"][::4],
            N=base["N"][::8, None],
            K=depth[:, None, None],
            blocksize=sizes[:, None, None, None],
        )

    def _block(self, **arrays: Ints) -> dict[str, Ints]:
        axes = max(a.ndim for a in arrays.values())
        block: dict[str, Ints] = {"num_sms": np.array(self.env["num_sms"])}
        if "blocksize" in self.limits:
            block["blocksize"] = np.array(self.env["blocksize"])
        block.update(arrays)
        for item in self.family.inputs:
            if item.is_enum:
                block[item.name] = np.arange(len(item.words)).reshape(-1, *(1,) * axes)
                axes += 1
        return block


def seeded_grid(families: Sequence[Family], arch: Arch, *, dense: bool = True) -> Iterator[dict[str, Ints]]:
    """Problems around every threshold of the arch's rules in any of the families (which share their inputs).

    Yields blocks for `vector.Evaluator.decide`, for each SM count of the profile. `dense=False` keeps the flips
    of single thresholds and half of the rest: some ten times fewer problems.
    """
    found = list({(t.left, t.right, t.op): t for f in families for t in thresholds(f, arch.name)}.values())
    for count in arch.profile.sm_counts:
        yield from Seeder(families[0], found, count, dense=dense).blocks()
