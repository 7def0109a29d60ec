"""Where a rule decides although none of its evidence covers the problem."""

from __future__ import annotations

import numpy as np

from ..arrays import evaluate_arrays
from ..expr import COMPARE, Compare, EnumWord, Expr, Name, parse_cond
from ..ir import CUSTOM, Cap, Family, Layer, Rule
from ..probes import FactEnv
from ..reachability import ArchRun
from .context import Context

Region = tuple[Compare, ...]
CLAIMING = ("measured", "conservative", "reported")
"""Bases that say something about measurements."""


def regions_by_rule(context: Context, family: Family) -> dict[str, list[Region]]:
    """Regions of each rule whose every piece of evidence states one."""
    words = {i.name: i.words for i in family.inputs if i.is_enum}
    found: dict[str, list[Region]] = {}
    for layer in family.layers:
        for section in layer.sections:
            for rule in section.rules:
                texts = [context.tree.evidence[e].region for e in rule.evidence]
                if rule.basis in CLAIMING and texts and all(texts):
                    found[rule.id] = [tuple(_bound(t, words) for t in region) for region in texts]
    return found


def _bound(text: str, words: dict[str, tuple[str, ...]]) -> Compare:
    cond = parse_cond(text)
    assert isinstance(cond, Compare), "regions have been checked"
    if isinstance(cond.left, Name) and cond.left.name in words and isinstance(cond.right, Name):
        word = cond.right.name
        return Compare(cond.op, cond.left, EnumWord(word, words[cond.left.name].index(word)))
    return cond


def facts_for(family: Family, layer: Layer) -> dict[str, Expr]:
    """Facts a region may use: those of any layer; where several define a name, the layer of the rule has it."""
    return {f.name: f.expr for other in (*family.layers, layer) for f in other.facts}


def outside_evidence(run: ArchRun, layer: Layer, rule: Rule, regions: list[Region]) -> tuple[int, int] | None:
    """A place where the rule fires, outside every region, and where the list would decide otherwise without it.

    What a rule shares with the rules below it needs no evidence of its own. Neither does the fallback above
    an `m_cap`: there the rule declines.
    """
    part = run.layers[layer.name]
    index = part.effective.index(rule)
    mask = part.rules == index
    if isinstance(rule.outcome, Cap):
        mask &= part.codes == layer.values.index(CUSTOM)
    env = FactEnv(facts_for(run.survey.family, layer), run.survey.values)
    for region in regions:
        inside = np.ones(mask.shape, bool)
        for cond in region:
            inside &= COMPARE[cond.op](evaluate_arrays(cond.left, env), evaluate_arrays(cond.right, env))
        mask &= ~inside
    if not mask.any():
        return None
    mask &= part.without(index, run) != part.codes
    return run.place(mask) if mask.any() else None
