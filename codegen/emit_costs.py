"""Where the costs of tables stand in generated code: inside of the condition that all rules of a table share.

A layer of three tables has hundreds of costs and comparisons. A problem is asked for one table at most, and there
a tile mostly loses to one of the first that it is compared with, so neither may be computed ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from .costs import PREFIX
from .expr import Cond, Pred, names
from .ir import AnyCond, Fact, Layer, Predicate, Rule


@dataclass(frozen=True)
class Block:
    """Rules that stand together: what all of a table ask for, the costs they read, and what else each asks for."""

    guard: tuple[Cond, ...] | None
    facts: tuple[Fact, ...]
    rules: tuple[tuple[Rule, tuple[Cond | AnyCond, ...]], ...]


def shared(layer: Layer) -> tuple[tuple[Fact, ...], tuple[Predicate, ...]]:
    """Facts and predicates of a layer that are no table's, and stand in front of all rules."""
    facts = tuple(f for f in layer.facts if not f.name.startswith(PREFIX))
    return facts, tuple(p for p in layer.predicates if not p.name.startswith(PREFIX))


def blocks(layer: Layer, rules: Iterable[Rule]) -> Iterator[Block]:
    """The rules of a section in order, those that stand for one `cheapest` as a block of their own."""
    for of_table, group in groupby(rules, lambda rule: rule.location if rule.cost else None):
        found = tuple(group)
        if of_table is None:
            yield Block(None, (), tuple((rule, rule.conds) for rule in found))
            continue
        guard = _common([rule.conds for rule in found])
        rest = [tuple(_opened(layer, rule.conds[len(guard) :])) for rule in found]
        yield Block(guard, _read(layer, rest), tuple(zip(found, rest, strict=True)))


def _common(lists: Sequence[tuple[Cond, ...]]) -> tuple[Cond, ...]:
    """What all lists begin with."""
    return tuple(row[0] for row in takewhile(lambda row: len(set(row)) == 1, zip(*lists, strict=False)))


def _opened(layer: Layer, conds: Iterable[Cond]) -> Iterator[Cond | AnyCond]:
    """The conditions, a table's predicates by what they say: each is read once."""
    for cond in conds:
        if isinstance(cond, Pred) and cond.name.startswith(PREFIX):
            yield from layer.predicate_by_name[cond.name].terms
        else:
            yield cond


def _read(layer: Layer, conds: Iterable[Iterable[Cond | AnyCond]]) -> tuple[Fact, ...]:
    """The table's facts that the conditions rest on, in their order."""
    leaves = [leaf for row in conds for c in row for leaf in (c.conds if isinstance(c, AnyCond) else (c,))]
    wanted = {name for leaf in leaves for name in names(leaf)}
    found = []
    for fact in reversed(layer.facts):
        if fact.name in wanted and fact.name.startswith(PREFIX):
            found.append(fact)
            wanted.update(names(fact.expr))
    return tuple(reversed(found))
