"""Whether a patch does what it says: the edited tree is sound, and decides every measured cell as the fit foresaw."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ..diagnostics import Diagnostic
from ..ir import FALLBACK, Arch, Family, Layer, SpecTree, Value
from ..validate import validate
from .candidates import choices
from .judge import Judged
from .patch import Patch, apply_patch
from .proposals import Fitted


@dataclass(frozen=True)
class Checked:
    """Findings that the patch brings in (not those that were there before), and cells decided otherwise than fitted."""

    new: tuple[Diagnostic, ...]
    surprises: tuple[str, ...]
    outside: str
    """What the patch changes on the grid of decisions, as text."""

    @property
    def ok(self) -> bool:
        return not self.surprises and not any(d.is_error for d in self.new)


def check_patch(
    tree: SpecTree, family: str, layer: Layer, patch: Patch, cells: Sequence[Judged], fitted: Fitted, *, through: bool
) -> Checked:
    """Apply the patch to a copy of the tree and look."""
    with TemporaryDirectory(prefix="tilewright-calibrate-") as temporary:
        root = Path(temporary) / Path(tree.root).resolve().name
        shutil.copytree(tree.root, root, ignore=shutil.ignore_patterns("examples"))
        before = {_identity(d) for d in validate(root).diagnostics}
        apply_patch(patch, root)
        report = validate(root)
        new = tuple(d for d in report.diagnostics if _identity(d) not in before)
        if report.tree is None or not report.ok:
            return Checked(new, (), "")
        after, archs = report.tree.families[family], report.tree.archs
        surprises = tuple(_surprises(after, archs, layer.name, cells, fitted, through))
        return Checked(new, surprises, _difference(tree, report.tree, family))


def _identity(found: Diagnostic) -> tuple[str, str]:
    """A finding without its example, which moves when rules are added."""
    return found.code, found.message.split(", for example")[0]


def _surprises(
    family: Family, archs: Mapping[str, Arch], layer: str, cells: Sequence[Judged], fitted: Fitted, through: bool
) -> list[str]:
    found = []
    ordered = sorted(cells, key=lambda c: c.choices.cell.key())
    for index, judged in enumerate(ordered):
        wanted = foreseen(judged, index, fitted)
        cell = judged.choices.cell
        now = choices(family, archs[cell.arch], family.layer_by_name[layer], cell, through=through)
        got = None if now is None else now.outcome
        if got != wanted:
            found.append(f"{cell}: {layer} is {got}, {wanted} was fitted")
    return found


def foreseen(judged: Judged, index: int, fitted: Fitted) -> Value:
    """The outcome of a cell under the fitted rules; `index` is its place in the order of keys."""
    for rule in fitted.rules:
        if rule.mask[index]:
            above = rule.cap is not None and rule.cap < judged.choices.cell.M
            return FALLBACK if above else rule.outcome
    return judged.choices.outcome


def _difference(before: SpecTree, after: SpecTree, family: str) -> str:
    from ..difference import compare
    from ..grid import DEFAULT_GRID

    grid = before.grids.get(DEFAULT_GRID)
    if grid is None or grid.family != family:
        return ""
    found = compare(before, after, family, grid)
    archs = ", ".join(sorted({c.arch for c in found.changes}))
    if not found.changes:
        return f"{found.enumerated} decisions enumerated on the grid {grid.name}, none changed"
    low, high = found.m_range or (0, 0)
    ways = ", ".join(f"{count} {way}" for way, count in sorted(found.directions.items()))
    return f"{found.enumerated} decisions enumerated, {found.changed} changed, on {archs}, M {low} to {high}: {ways}"
