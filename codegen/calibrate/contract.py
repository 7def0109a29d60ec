"""Conditions that a new rule needs besides its thresholds: what its kernels require, and the types measured.

New rules stand in front of old ones, also of those that keep a kernel away from what it cannot do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import evaluate_arrays
from ..expr import COMPARE, Bin, Compare, EnumWord, Int, Name, format_node
from ..ir import Family, Layer, Section, Tile
from ..vector import Evaluator
from .judge import Judged
from .proposals import Candidate

ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 17, 24, 32, 33, 48, 64, 128, 256, 384, 512, 1024)
COLUMNS = (64, 512, 896, 1024, 2048, 3072, 4096, 6144, 8192, 11_008, 14_336, 28_672, 128_256)
DEPTHS = (16, 48, 64, 96, 512, 1000, 1536, 2048, 2080, 4096, 4112, 4128, 4160, 8192, 11_008, 14_336, 28_704)

APART = ("layout",)
"""Enumerated inputs of which each word has kernels of its own: times of one say nothing of another."""


def needed(
    family: Family, layer: Layer, target: Section, cells: Sequence[Judged], candidate: Candidate
) -> list[str]:  # fmt: skip
    """Texts of the conditions without which problems that were never measured would reach the rule."""
    covered = [c for c, changed in zip(cells, candidate.changed, strict=True) if changed]
    arch, num_sms = cells[0].choices.cell.arch, cells[0].choices.cell.num_sms
    wanted = [*_types(family, cells), *_words(family, cells), *_multiples(family, layer, covered, candidate)]
    reach = Reach(family, layer, arch, num_sms, target)
    return [format_node(c) for c in wanted if reach.violated(c)]


def _types(family: Family, cells: Sequence[Judged]) -> list[Compare]:
    """Types measured. bfloat16 and float16 have the same kernels and stand for each other; float32 has its own."""
    words = family.dtypes
    seen = {c.choices.cell.dtype for c in cells}
    left = Name("dtype")
    if "f32" not in words:
        return []
    if seen == {"f32"}:
        return [Compare("==", left, EnumWord("f32", words.index("f32")))]
    return [] if "f32" in seen else [Compare("!=", left, EnumWord("f32", words.index("f32")))]


def _words(family: Family, cells: Sequence[Judged]) -> list[Compare]:
    """Words measured, of inputs whose words have kernels of their own."""
    found = []
    for item in family.inputs:
        seen = {c.choices.cell.words.get(item.name, item.words[0]) for c in cells} if item.name in APART else set()
        if len(seen) == 1:
            word = seen.pop()
            found.append(Compare("==", Name(item.name), EnumWord(word, item.words.index(word))))
    return found


def _multiples(family: Family, layer: Layer, covered: Sequence[Judged], candidate: Candidate) -> list[Compare]:
    """Multiples of K that the kernels ask for, where nobody below could decide otherwise.

    A layer that names an engine needs what all tiles of that engine ask for; a layer of tiles what those launched ask
    for, unless a later layer repairs the choice. The layers below a path see to it themselves.
    """
    if layer.kind == "tile" and not any(other.repairs == layer.name for other in family.layers):
        names = {c.choices.launches.get(candidate.outcome) for c in covered}
        found = [_steps(t) for t in family.tiles if t.id in names]
        steps = {step: cond for table in found for step, cond in table.items()}
    else:
        tables = [_steps(t) for t in family.tiles if t.engine == candidate.outcome]
        least = min((max(table, default=1) for table in tables), default=1)
        steps = {step: cond for table in tables for step, cond in table.items() if step == least}
    return [c for step, c in sorted(steps.items()) if not any(o != step and o % step == 0 for o in steps)]


def _steps(tile: Tile) -> dict[int, Compare]:
    """The conditions `x % step == 0` that a tile asks for, by step."""
    found = {}
    for cond in tile.requires:
        if isinstance(cond, Compare) and cond.op == "==" and isinstance(cond.left, Bin) and cond.left.op == "%":
            assert isinstance(cond.left.right, Int)
            found[cond.left.right.value] = cond
    return found


class Reach:
    """Which problems of a sample are not settled before a section."""

    def __init__(self, family: Family, layer: Layer, arch: str, num_sms: int, target: Section) -> None:
        axes = {"M": ROWS, "N": COLUMNS, "K": DEPTHS, "dtype": range(len(family.dtypes)), "blocksize": (32, 64, 128)}
        axes |= {name: range(len(family.input_by_name[name].words)) for name in APART if name in family.input_by_name}
        known = [n for n in axes if n in family.input_by_name]
        self.env = {
            name: np.array(axes[name], np.int64).reshape([-1 if i == at else 1 for i in range(len(known))])
            for at, name in enumerate(known)
        }
        self.env["num_sms"] = np.array(num_sms)
        covering = [s for s in layer.sections if s.covers(arch)]
        first = sum(len(s.rules) for s in covering[: covering.index(target)])
        self.reached = Evaluator(family, arch).decide(self.env)[layer.name].rules >= first

    def violated(self, cond: Compare) -> bool:
        """Whether a problem gets to the section without meeting the condition."""
        meets = COMPARE[cond.op](evaluate_arrays(cond.left, self.env), evaluate_arrays(cond.right, self.env))
        return bool((self.reached & ~meets).any())
