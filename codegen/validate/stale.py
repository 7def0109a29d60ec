"""W405 and W406 (and E301 for `requires`): what the specs still say although nothing needs it any more."""

from __future__ import annotations

from ..expr import names
from ..ir import AnyCond, Layer
from ..models.layers import CHEAPEST
from .completeness import siblings
from .context import Context, listed


def check(context: Context) -> None:
    for _, layer in context.layers():
        check_w405(context, layer)
        check_w406(context, layer)
    check_e301_requires(context)
    check_w406_tables(context)


def check_w405(context: Context, layer: Layer) -> None:
    """`omits` gives a reason that nobody asked for."""
    ended: set[str] = set()
    for section in layer.sections:
        asked = [a for a in siblings(context, section) if a not in ended]
        needless = [a for a in section.omits if a not in asked]
        if needless:
            context.sink.add(
                "W405",
                section.location,
                f"section '{section.name}' gives a reason to omit {listed(needless)}, which needs none: not a "
                "sibling that gets here.",
                f"take {listed(needless)} out of `omits`",
            )
        if any(not r.conds for r in section.rules):
            ended |= {a for a in context.tree.archs if section.covers(a)}


def check_e301_requires(context: Context) -> None:
    """`requires` speaks of a kc that no tile of the document has: the condition guards nothing."""
    for file, models, document, _ in context.sources.tiles:
        present = {getattr(m, "kc", None) for m in models}
        for kc in file.requires:
            if kc not in present:
                place = document.locate_key(("requires", kc))
                known = listed(sorted({k for k in present if isinstance(k, int)}))
                context.sink.add("E301", place, f"`requires` names kc {kc}, which no tile here has.", f"kc: {known}")


def check_w406(context: Context, layer: Layer) -> None:
    """A fact or predicate is defined and never used."""
    used: set[str] = set()
    for fact in layer.facts:
        used.update(names(fact.expr))
    conds = [c for s in layer.sections for r in s.rules for c in r.conds]
    for predicate in layer.predicates:
        for term in predicate.terms:
            conds.extend(term.conds if isinstance(term, AnyCond) else [term])
    for cond in conds:
        used.update(names(cond))
    for kind, found in (("fact", layer.facts), ("predicate", layer.predicates)):
        for item in found:
            if item.name not in used:
                message = f"{kind} '{item.name}' of layer '{layer.name}' is never used."
                context.sink.add("W406", item.location, message, "drop it")


def check_w406_tables(context: Context) -> None:
    """A table of costs by which no rule of its family chooses."""
    used = {
        (folder, rule.outcome.value)
        for model, _, folder in context.sources.layers
        for section in model.sections
        for rule in section.rules
        if rule.outcome.key == CHEAPEST
    }
    for model, document, folder in context.sources.costs:
        if (folder, model.table) not in used:
            message = f"table of costs '{model.table}' is never used."
            context.sink.add("W406", document.locate(("table",)), message, "drop it")
