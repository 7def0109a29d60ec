"""Rules: one document per layer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from .base import Count, Kebab, Positive, SpecModel, Text, Word

Basis: TypeAlias = Literal["measured", "conservative", "reported", "assumed", "contract", "modelled"]


CHEAPEST = "cheapest"
"""Key of a rule that takes the least of a table of costs."""
MAX_DEFINITIONS = 64
"""Facts, and predicates, of one layer: each may rest on the one before, and evaluation recurses."""


class AnyOf(SpecModel):
    """A disjunction; allowed in predicates only."""

    any: tuple[Text, ...] = Field(min_length=2)
    """Conjuncts of which at least one must hold."""


class OutcomeValue(SpecModel):
    """What a rule yields: the key it was written under and its value."""

    key: Word
    """`m_cap`, `tile`, the layer's name, or `cheapest`."""
    value: Text | Count
    """An integer, a word, a tile id, or the name of a table of costs."""


class RuleModel(SpecModel):
    """First rule whose conjuncts all hold decides. Its outcome stands under `m_cap`, `tile` or the layer's name."""

    id: Kebab
    """Unique in the family, never reused."""
    when: tuple[Text, ...] = ()
    """Conjuncts; none means always."""
    outcome: OutcomeValue
    """Written as `m_cap: 256`, `engine: simt`, `tile: 32x64-128`, or `cheapest: TABLE` for the least of its costs."""
    basis: Basis | None = None
    """How well founded the rule is; may be given once for the section."""
    evidence: tuple[Text, ...] = ()
    """Ids of evidence records."""
    issue: Positive | None = None
    """Issue that tracks an assumed rule."""
    why: Text | None = None
    """The reason, where the evidence does not say it."""


class SectionModel(SpecModel):
    """Rules for the named archs."""

    section: Kebab
    """Name of the section, unique in the layer."""
    for_: Literal["all"] | Annotated[tuple[Word, ...], Field(min_length=1)] = Field(alias="for")
    """`all`, or the archs by name in ascending order."""
    omits: dict[Word, Text] = {}
    """Group siblings left out on purpose, each with its reason."""
    basis: Basis | None = None
    """Default basis of the rules."""
    evidence: tuple[Text, ...] = ()
    """Default evidence of the rules."""
    issue: Positive | None = None
    """Default issue of the rules."""
    why: Text | None = None
    """Default reason of the rules."""
    rules: tuple[RuleModel, ...] = Field(min_length=1)
    """The rules in order."""


class LayerFile(SpecModel):
    """Facts, predicates and sections of one layer."""

    kind: Literal["layer/1"] = Field(alias="schema")
    """`layer/1`."""
    layer: Word
    """Name of the layer, as the family declares it."""
    facts: Annotated[dict[Word, Text], Field(max_length=MAX_DEFINITIONS)] = {}
    """Named integers; each may use inputs, earlier outcomes and earlier facts."""
    predicates: Annotated[dict[Word, tuple[Text | AnyOf, ...]], Field(max_length=MAX_DEFINITIONS)] = {}
    """Named conditions: conjuncts that must all hold, or `any:` lists."""
    sections: tuple[SectionModel, ...] = Field(min_length=1)
    """Sections in file order."""

    @model_validator(mode="before")
    @classmethod
    def _name_outcomes(cls, data: Any) -> Any:
        """Move each rule's outcome, which stands under a key of its own, to `outcome`."""
        if not isinstance(data, dict) or not isinstance(data.get("sections"), list):
            return data
        keys = outcome_keys(data.get("layer"))
        sections = [_with_outcomes(section, keys) for section in data["sections"]]
        return {**data, "sections": sections}


def outcome_keys(layer: Any) -> tuple[str, ...]:
    """Keys under which a rule of this layer may state its outcome."""
    return tuple(dict.fromkeys(k for k in (layer, "m_cap", "tile", CHEAPEST) if isinstance(k, str)))


def _with_outcomes(section: Any, keys: tuple[str, ...]) -> Any:
    if not isinstance(section, dict) or not isinstance(section.get("rules"), list):
        return section
    return {**section, "rules": [_with_outcome(rule, keys) for rule in section["rules"]]}


def _with_outcome(rule: Any, keys: tuple[str, ...]) -> Any:
    if not isinstance(rule, dict):
        return rule
    if "outcome" in rule:
        return {**rule, "outcome": {"key": "outcome", "value": rule["outcome"]}}
    strangers = [k for k, v in rule.items() if k not in RuleModel.model_fields and isinstance(v, (str, int))]
    for key in (*keys, *(strangers if len(strangers) == 1 else ())):
        if key in rule:
            rest = {k: v for k, v in rule.items() if k != key}
            return {**rest, "outcome": {"key": key, "value": rule[key]}}
    return rule
