"""The support matrix: which engine serves which arch in which family, and how well founded that is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .images import mentioned_tiles
from .ir import Arch, Family, SpecTree
from .resources import is_legal

BEGIN, END = "<!-- matrix:begin -->", "<!-- matrix:end -->"
ORDER = ("measured", "conservative", "reported", "modelled", "assumed", "contract")


@dataclass(frozen=True)
class Cell:
    """One arch, family and engine. `bases` are the bases of the rules that pick the engine's tiles there."""

    arch: str
    family: str
    engine: str
    status: str
    tiles: tuple[str, ...]
    bases: tuple[str, ...]


def matrix(tree: SpecTree) -> list[Cell]:
    """All cells in spec order. status: `dispatched`, `built` (legal, but no rule picks it) or `absent`."""
    return [
        _cell(arch, family, engine)
        for family in tree.families.values()
        for arch in tree.archs.values()
        for engine in dict.fromkeys(t.engine for t in family.tiles)
    ]


def _cell(arch: Arch, family: Family, engine: str) -> Cell:
    own = [t for t in family.tiles if t.engine == engine]
    picked = mentioned_tiles(family, arch.name)
    tiles = tuple(t.id for t in own if t.id in picked)
    if tiles:
        return Cell(arch.name, family.name, engine, "dispatched", tiles, _bases(arch, family, tiles))
    legal = tuple(t.id for t in own if is_legal(arch.profile, t))
    return Cell(arch.name, family.name, engine, "built" if legal else "absent", legal, ())


def _bases(arch: Arch, family: Family, tiles: Sequence[str]) -> tuple[str, ...]:
    found = {
        rule.basis or "assumed"
        for layer in family.layers
        if layer.kind == "tile"
        for rule in layer.effective(arch.name)
        if getattr(rule.outcome, "value", None) in tiles
    }
    return tuple(b for b in ORDER if b in found)


def as_markdown(tree: SpecTree) -> str:
    """One table a family: archs down, engines across."""
    cells = matrix(tree)
    parts = []
    for family in tree.families:
        engines = list(dict.fromkeys(c.engine for c in cells if c.family == family))
        by_place = {(c.arch, c.engine): c for c in cells if c.family == family}
        parts.append(f"| `{family}` | products | {' | '.join(engines)} | figures of the arch |")
        parts.append("|---" * (len(engines) + 3) + "|")
        for arch in tree.archs.values():
            row = [_text(by_place[arch.name, engine]) for engine in engines]
            products = ", ".join(arch.profile.products) or "any other"
            parts.append(f"| {arch.name} | {products} | {' | '.join(row)} | {arch.profile.status} |")
        parts.append("")
    return "\n".join(parts)


def _text(cell: Cell) -> str:
    if cell.status != "dispatched":
        return "–" if cell.status == "absent" else "no rule"
    count = f"{len(cell.tiles)} tile{'s' if len(cell.tiles) != 1 else ''}"
    return f"{count} ({', '.join(cell.bases)})"


def as_rows(tree: SpecTree) -> list[dict[str, object]]:
    """Plain rows, for JSON."""
    return [asdict(cell) for cell in matrix(tree)]


def replace_between_markers(text: str, table: str, path: Path) -> str:
    """The text with what stands between the markers replaced. ValueError without exactly one pair of markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{path} needs exactly one {BEGIN} and one {END}")
    pattern = re.compile(re.escape(BEGIN) + r".*?" + re.escape(END), re.S)
    return pattern.sub(lambda _: f"{BEGIN}\n{table}{END}", text)
