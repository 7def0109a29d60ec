"""Cells for a cost table: every tile that could run a problem, of any engine, unless its size makes it hopeless."""

from __future__ import annotations

from collections.abc import Collection

from ..evaluate import Decision, decide, encode_problem, holds
from ..ir import Arch, Choice, Family, Rule, Tile
from ..resources import is_legal
from .candidates import Choices
from .plan import Design
from .records import Cell

MOST_EMPTY = 2.05
"""A tile has at most so many times the rows of A, or LEAST_ROWS."""
LEAST_ROWS = 64
MOST_TILES = 8
"""Tiles of rows that A is cut into at most, unless a tile has LARGE_ROWS."""
LARGE_ROWS = 128


def cost_plan(family: Family, arch: Arch, engines: Collection[str], design: Design) -> list[Choices]:
    """The cells of the design, weight by weight, each with what runs it today and what else could."""
    cells = [
        design.cell(arch.name, dtype, M, point.N, point.K)
        for point in design.points
        for dtype in design.dtypes
        for M in design.rows
    ]
    unique = {c.key(): c for c in cells}.values()
    found = [cost_choices(family, arch, engines, cell) for cell in unique]
    return [c for c in found if c is not None and c.challengers]


def cost_choices(family: Family, arch: Arch, engines: Collection[str], cell: Cell) -> Choices | None:
    """None where no tile is decided: there is nothing to compare with."""
    decision = decide(family, arch.name, cell.problem())
    env = encode_problem(family, cell.problem())
    today = decision.tile(family)
    rule = _last_rule(decision, family)
    if today is None or rule is None:
        return None
    built = _named(family, arch)
    legal = [
        tile.id
        for tile in family.tiles
        if tile.id in built and tile.engine in engines and is_legal(arch.profile, tile)
        and _hopeful(tile, cell.M)
        and all(holds(family.layers[0], c, env) for c in tile.requires)
    ]  # fmt: skip
    return Choices(cell, today, rule, {name: name for name in dict.fromkeys([today, *legal])}, env)


def _named(family: Family, arch: Arch) -> set[str]:
    """Tiles that some rule of the arch yields: others are not in its image."""
    layers = [layer for layer in family.layers if layer.kind == "tile"]
    outcomes = [rule.outcome for layer in layers for rule in layer.effective(arch.name)]
    return {str(o.value) for o in outcomes if isinstance(o, Choice)}


def _last_rule(decision: Decision, family: Family) -> Rule | None:
    rules = [decision.results[layer.name].rule for layer in family.layers if layer.kind == "tile"]
    return next((r for r in reversed(rules) if r is not None), None)


def _hopeful(tile: Tile, M: int) -> bool:
    rows = tile.fields.get("mt", tile.fields.get("mb", 1))
    assert isinstance(rows, int)
    return rows <= max(MOST_EMPTY * M, LEAST_ROWS if M > 16 else LEAST_ROWS // 2) and (
        rows >= LARGE_ROWS or -(-M // rows) <= MOST_TILES
    )
