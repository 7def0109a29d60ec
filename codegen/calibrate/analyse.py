"""From records to a patch, or to the statement that none can be defended. Needs no card: same records, same result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import Family, Layer, SpecTree, Value
from .candidates import Choices, choices
from .check import Checked, check_patch, foreseen
from .holdout import HeldOut, defended_fit
from .judge import Judged, campaign_noise, judge_cells
from .patch import Patch, Style, make_patch, reachable, target_section
from .proposals import Fitted, Guards
from .records import Header, Pass


@dataclass(frozen=True)
class Analysis:
    """What a campaign shows. `patch` is None when no rule is defended."""

    header: Header
    layer: str
    passes: tuple[Pass, ...]
    cells: tuple[Judged, ...]
    seen: tuple[Judged, ...]
    """Cells that new rules would see: those not settled by sections in front of them."""
    fitted: Fitted | None
    held_out: tuple[HeldOut, ...]
    patch: Patch | None
    checked: Checked | None
    noise: float
    failed: tuple[tuple[str, str], ...] = ()

    @property
    def wins(self) -> list[Judged]:
        return [c for c in self.cells if c.best[1] > 0]

    def outcomes(self) -> list[tuple[Judged, Value]]:
        """Every cell that new rules would see, with its outcome under them."""
        ordered = sorted(self.seen, key=lambda c: c.choices.cell.key())
        if self.fitted is None:
            return [(c, c.choices.outcome) for c in ordered]
        return [(c, foreseen(c, index, self.fitted)) for index, c in enumerate(ordered)]

    @property
    def conclusion(self) -> str:
        """One sentence."""
        if self.patch is None:
            proven = len(self.wins)
            return f"No rule can be defended here: {proven} of {len(self.cells)} cells have a proven faster choice."
        count = len(self.patch.rules)
        return f"{count} rule{'s' * (count != 1)} can be defended."


def planned(
    tree: SpecTree, family: Family, layer: Layer, passes: Sequence[Pass], *, through: bool = False
) -> list[Choices]:
    """The choices of every recorded cell, as the specs have them now."""
    cells = {p.cell.key(): p.cell for p in passes}
    archs = tree.archs
    found = [
        choices(family, archs[c.arch], layer, c, through=through) for _, c in sorted(cells.items()) if c.arch in archs
    ]
    return [c for c in found if c is not None]


def analyse(
    tree: SpecTree, family: Family, layer: Layer, header: Header, passes: Sequence[Pass], *,
    guards: Guards | None = None, extend: Sequence[str] = (), style: Style | None = None,
    failed: Sequence[tuple[str, str]] = (),
) -> Analysis:  # fmt: skip
    """Judge, fit, validate, write. Records whose incumbent is not what the specs choose now are passed over."""
    guards = guards or Guards()
    recorded = planned(tree, family, layer, passes, through=header.through)
    cells = judge_cells(recorded, passes, header.method)
    noise = campaign_noise(passes, header.method)
    fitted, patch, checked = None, None, None
    held_out: list[HeldOut] = []
    seen: list[Judged] = []
    if any(c.best[1] > 0 for c in cells):
        target = target_section(layer, header.device.arch, cells)
        seen = reachable(layer, header.device.arch, cells, target)
        fitted, held_out = defended_fit(seen, layer, guards, extend)
        if fitted.rules:
            patch = make_patch(tree, family, layer, header, passes, seen, fitted, style or Style())
            checked = check_patch(tree, family.name, layer, patch, seen, fitted, through=header.through)
    return Analysis(
        header=header,
        layer=layer.name,
        passes=tuple(passes),
        cells=tuple(cells),
        seen=tuple(seen),
        fitted=fitted,
        held_out=tuple(held_out),
        patch=patch,
        checked=checked,
        noise=noise,
        failed=tuple(failed),
    )
