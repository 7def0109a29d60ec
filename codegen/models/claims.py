"""Claims: statements about a spec tree that are re-proved whenever it changes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from .base import Kebab, SpecModel, Text, Word

Archs: TypeAlias = Literal["all"] | tuple[Word, ...]
Conjuncts: TypeAlias = tuple[Text, ...]


class ClaimModel(SpecModel):
    """What every statement has. Further keys depend on `claim`."""

    positional: ClassVar[tuple[str, ...]] = ()
    """Keys that `--claim` takes without their names; the last one takes all words that are left."""

    id: Kebab
    """Name of the statement."""
    claim: Text
    """Kind of statement."""
    why: Text | None = None
    """Why it should hold."""


class ComparingClaim(ClaimModel):
    """A statement about what changes against a base."""

    base: Text | None = None
    """A folder (seen from the claims file) or git revision; unset means `--base`."""
    without: tuple[Text, ...] = ()
    """The base is this tree without these sections, each written as layer/section."""


class OnlyArchsChange(ComparingClaim):
    """No decision of any other arch differs from the base."""

    positional = ("archs",)
    archs: tuple[Word, ...]
    """Archs that may change."""


class NoTransition(ComparingClaim):
    """No problem goes from one outcome of a layer in the base to another one here."""

    positional = ("from", "to", "archs")
    layer: Word = "path"
    """Layer whose outcome is looked at."""
    from_: Text | int = Field(alias="from")
    """Outcome in the base."""
    to: Text | int
    """Outcome here."""
    archs: Archs = "all"
    """Archs the statement is about."""


class ChangesWithin(ComparingClaim):
    """Every decision that differs from the base belongs to a problem inside a region."""

    positional = ("where",)
    where: Conjuncts = Field(min_length=1)
    """The region: conjuncts over inputs and outcomes here."""
    archs: Archs = "all"
    """Archs the statement is about."""


class TreesEquivalent(ComparingClaim):
    """No decision differs from the base."""

    positional = ("archs",)
    archs: Archs = "all"
    """Archs the statement is about."""
    layers: tuple[Word, ...] = ()
    """Layers the statement is about; none means all."""


class SameAs(ClaimModel):
    """Two archs decide alike."""

    positional = ("archs",)
    archs: tuple[Word, Word]
    """The two archs."""
    layers: tuple[Word, ...] = ()
    """Layers the statement is about; none means all."""
    where: Conjuncts = ()
    """Problems the statement is about; none means all."""


class RuleFires(ClaimModel):
    """On each of the archs some problem is decided by this rule."""

    positional = ("rule", "archs")
    rule: Kebab
    """The rule."""
    archs: Archs = "all"
    """Archs on which it fires; `all` means those whose list has it."""
    where: Conjuncts = ()
    """Only problems of this region count."""


class RuleNeverFires(RuleFires):
    """On none of the archs any problem is decided by this rule."""


class Implies(ClaimModel):
    """Every problem that meets `when` meets `then`. A comparison with an outcome that is not there is false."""

    positional = ("then",)
    when: Conjuncts = ()
    """Conjuncts over inputs and outcomes."""
    then: Conjuncts = Field(min_length=1)
    """Conjuncts over inputs and outcomes, all of which must follow."""
    archs: Archs = "all"
    """Archs the statement is about."""


class MonotoneInM(ClaimModel):
    """With all else equal, the custom kernel is never taken again above an M that falls back."""

    positional = ("archs",)
    archs: Archs = "all"
    """Archs the statement is about."""
    layer: Word = "path"
    """An m_cap layer."""


class CompleteLaunchTable(ClaimModel):
    """Every tile that can be emitted on an arch is in the tile table, legal there, and has what it requires."""

    positional = ("archs",)
    archs: Archs = "all"
    """Archs the statement is about."""
    where: Conjuncts = ()
    """Problems for which a tile must be emitted; none asks for nothing more."""


CLAIM_MODELS: dict[str, type[ClaimModel]] = {
    "only-archs-change": OnlyArchsChange,
    "no-transition": NoTransition,
    "changes-within": ChangesWithin,
    "trees-equivalent": TreesEquivalent,
    "same-as": SameAs,
    "rule-fires": RuleFires,
    "rule-never-fires": RuleNeverFires,
    "implies": Implies,
    "monotone-in-m": MonotoneInM,
    "complete-launch-table": CompleteLaunchTable,
}
"""Models by kind of statement."""


class ClaimsFile(SpecModel):
    """Statements kept next to the specs."""

    kind: Literal["claims/1"] = Field(alias="schema")
    """`claims/1`."""
    family: Text
    """Family the statements are about."""
    claims: Annotated[tuple[dict[str, Any], ...], Field(min_length=1)]
    """The statements; the keys of each depend on its `claim`."""
