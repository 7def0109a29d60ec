"""Where a rule decides although none of its evidence covers the problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..expr import Compare, EnumWord, Name, parse_cond
from ..ir import CUSTOM, Cap, Family, Layer, Rule
from ..reachability import ArchRun, LayerRun
from .context import Context

Region = tuple[Compare, ...]
CLAIMING = ("measured", "conservative", "reported")
"""Bases that say something about measurements."""


def regions_by_rule(context: Context, family: Family) -> dict[str, list[Region]]:
    """Regions of each rule whose every piece of evidence states one."""
    words = {i.name: i.words for i in family.inputs if i.is_enum}
    found: dict[str, list[Region]] = {}
    for layer in family.layers:
        names = {i.name for i in family.inputs} | {f.name for f in layer.facts}
        for section in layer.sections:
            for rule in section.rules:
                texts = [context.tree.evidence[e].region for e in rule.evidence]
                if rule.basis in CLAIMING and texts and all(texts):
                    regions = [tuple(_bound(t, words) for t in region) for region in texts]
                    if all(_names(c) <= names for region in regions for c in region):
                        found[rule.id] = regions
    return found


def _bound(text: str, words: dict[str, tuple[str, ...]]) -> Compare:
    cond = parse_cond(text)
    assert isinstance(cond, Compare), "regions have been checked"
    if isinstance(cond.left, Name) and cond.left.name in words and isinstance(cond.right, Name):
        word = cond.right.name
        return Compare(cond.op, cond.left, EnumWord(word, words[cond.left.name].index(word)))
    return cond


def _names(cond: Compare) -> set[str]:
    from ..expr import names

    return set(names(cond))


def outside_evidence(run: ArchRun, layer: Layer, rule: Rule, regions: list[Region]) -> tuple[int, int] | None:
    """A place where the rule fires, outside every region, and where the list would decide otherwise without it.

    What a rule shares with the rules below it needs no evidence of its own. Neither does the fallback above
    an `m_cap`: there the rule declines.
    """
    part = run.layers[layer.name]
    index = part.program.rules.index(rule)
    mask = part.rules == index
    if isinstance(rule.outcome, Cap):
        mask &= part.codes == layer.values.index(CUSTOM)
    for region in regions:
        mask &= ~np.broadcast_to(part.conds.all_hold(region), mask.shape)
    if not mask.any():
        return None
    mask &= _differs(part, index, run)
    return run.place(mask) if mask.any() else None


def _differs(part: LayerRun, index: int, run: ArchRun) -> Any:
    """Where the outcome would be another if the list had no rule `index`."""
    rest = part.first_from(index + 1)
    nothing = rest == np.iinfo(rest.dtype).max
    rules = np.where(nothing, -1, rest.astype(np.int16))
    if part.program.caps is not None:
        caps = np.array([*part.program.caps, 0], np.int64)
        codes = (run.survey.values["M"] > caps[rules]).astype(np.int16)
    else:
        codes = np.array([*part.program.table, -1], np.int16)[rules]
    return nothing | (codes != part.codes)
