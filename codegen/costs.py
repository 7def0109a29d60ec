"""Cost tables in terms of plain facts and rules, so that nothing that reads rules needs to know of them.

`cheapest: TABLE` stands for one rule a tile: the tile's cost is at most that of every later tile. Earlier tiles have
failed by then, so the first rule that holds has the least cost of all, and of equals the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from .diagnostics import Location
from .emit_cpp import identifier
from .expr import Bin, CeilDiv, Compare, CompareOp, Cond, Expr, Int, Name, Pred
from .ir import AnyCond, Choice, Fact, Predicate, Rule, Tile, Value
from .models.costs import CostEntry

FLIPPED: dict[CompareOp, CompareOp] = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}
PREFIX = "cost_"
"""Of facts that stand for parts of a cost table."""
STEPS = "cost_steps"
TERMS = (
    ("step", (STEPS,)),
    ("each", ("tiles",)),
    ("each_step", ("tiles", STEPS)),
    ("round", ("rounds",)),
    ("round_step", ("rounds", STEPS)),
    ("whole", ("wholes",)),
    ("whole_step", ("wholes", STEPS)),
    ("share", ("shares",)),
    ("share_step", ("shares", STEPS)),
    ("weight", ("cost_weight",)),
    ("input", ("cost_input",)),
    ("output", ("cost_output",)),
    ("outside_step", ("outside", STEPS)),
)
"""Coefficients of an entry, and the counts that each is multiplied by."""


@dataclass(frozen=True)
class Candidate:
    """A tile that a layer could yield, what the layer yields for it, and where its cost stands."""

    entry: CostEntry
    tile: Tile
    value: Value
    place: Location


def cost_name(table: str, tile: str) -> str:
    """The fact that holds the cost of a tile."""
    return f"{PREFIX}{table}_{identifier(tile.replace('-', '_'))}"


def is_cost(node: Expr) -> bool:
    """Whether this is the cost of a tile, or a count that costs are made of."""
    return isinstance(node, Name) and node.name.startswith(PREFIX)


def compares_costs(cond: Cond) -> bool:
    """Whether a condition of a rule says that its tile costs no more than another one."""
    return cond.name.startswith(PREFIX) if isinstance(cond, Pred) else is_cost(cond.left) and is_cost(cond.right)


def cost_facts(table: str, candidates: Iterable[Candidate]) -> Iterator[Fact]:
    """Facts in an order in which each needs earlier ones only; a count that several tiles share comes once for each."""
    for found in candidates:
        counts = {name: (made, expr) for name, made, expr in _counts(found.entry)}
        used = [name for key, names in TERMS if getattr(found.entry, key) for name in names]
        for name in _needed(used, counts):
            made, expr = counts[name]
            yield Fact(made, expr, found.place)
        total: Expr = Int(found.entry.start)
        for key, names in TERMS:
            factor = getattr(found.entry, key)
            if factor:
                term: Expr = Int(factor)
                for name in names:
                    term = Bin("*", term, Name(counts[name][0]))
                total = Bin("+", total, term)
        yield Fact(cost_name(table, found.entry.id), total, found.place)


def _counts(entry: CostEntry) -> Iterator[tuple[str, str, Expr]]:
    """Name within an entry, name as a fact, and expression of everything a coefficient may be multiplied by."""
    size, blocks = f"{entry.rows}x{entry.columns}", entry.blocks
    tiles, last = f"cost_tiles_{size}", f"cost_last_{size}"
    column_tiles = CeilDiv(Name("N"), entry.columns)
    yield STEPS, STEPS, CeilDiv(Name("K"), 64)
    for name, factors in (("cost_weight", ("N", "K")), ("cost_input", ("M", "K")), ("cost_output", ("M", "N"))):
        yield name, name, Bin("//", Bin("*", Name(factors[0]), Name(factors[1])), Int(1024))
    yield "tiles", tiles, Bin("*", CeilDiv(Name("M"), entry.rows), column_tiles)
    yield "last", last, Bin("+", Name(tiles), Int(-1))
    yield "rounds", f"cost_rounds_{size}_{blocks}", Bin("//", Name(last), Int(blocks))
    if entry.clusters:
        late = f"cost_late_{size}_{blocks}_{entry.clusters}"
        yield "late", late, Bin("+", Name(last), Int(max(0, blocks - entry.clusters)))
        yield "wholes", f"{late}_wholes", Bin("//", Name(late), Int(blocks))
        yield "shares", f"cost_shares_{size}_{entry.clusters}", Bin("//", Name(last), Int(entry.clusters))
    else:
        yield "wholes", "cost_none", Int(0)
        yield "shares", "cost_none", Int(0)
    rest = Bin("%", Bin("*", Name("M"), Int(entry.rows - 1)), Int(entry.rows))
    yield "outside", f"cost_outside_{size}", Bin("*", rest, column_tiles)


NEEDS = {"tiles": ("tiles",), "rounds": ("tiles", "last", "rounds"), "wholes": ("tiles", "last", "late", "wholes"),
         "shares": ("tiles", "last", "shares")}  # fmt: skip


def _needed(used: Iterable[str], counts: dict[str, tuple[str, Expr]]) -> list[str]:
    wanted = [part for name in used for part in NEEDS.get(name, (name,)) if part in counts]
    return list(dict.fromkeys(wanted))


def cheapest_rules(
    table: str, rule: Rule, candidates: Sequence[Candidate], met: Iterable[Cond]
) -> tuple[tuple[Rule, ...], tuple[Predicate, ...]]:
    """One rule a candidate, and the predicates that they need.

    `met` are conditions that hold wherever the layer is asked; what else a tile requires becomes a condition of its
    own rule, and later tiles that cannot run do not count as cheaper.
    """
    known = {*met, *rule.conds}
    needs = [tuple(c for c in found.tile.requires if c not in known) for found in candidates]
    rules, predicates = [], []
    for index, found in enumerate(candidates):
        conds: list[Cond] = [*rule.conds, *needs[index]]
        for other in range(index + 1, len(candidates)):
            less = Compare("<=", *(Name(cost_name(table, candidates[i].entry.id)) for i in (index, other)))
            if needs[other]:
                name = f"{cost_name(table, found.entry.id)}_{identifier(rule.id.replace('-', '_'))}_{other}"
                escapes = tuple(Compare(FLIPPED[c.op], c.left, c.right) for c in needs[other] if isinstance(c, Compare))
                predicates.append(Predicate(name, (AnyCond((less, *escapes)),), found.place))
                conds.append(Pred(name))
            else:
                conds.append(less)
        name = f"{rule.id}-{found.entry.id}"
        cost = found.entry.id, cost_name(table, found.entry.id)
        rules.append(replace(rule, id=name, conds=tuple(conds), outcome=Choice(found.value), cost=cost))
    return tuple(rules), tuple(predicates)
