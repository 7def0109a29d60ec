"""A GEMM family: its op, inputs and ordered layers of decision."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Flag, Positive, SpecModel, Text, Word


class LayerDecl(SpecModel):
    """One ordered decision of the family."""

    name: Word
    """Name by which later layers read the outcome."""
    site: Literal["python", "cpp"]
    """Which generated evaluator runs the layer in production."""
    outcome: Literal["m_cap", "tile"] | Annotated[tuple[Word | Positive, ...], Field(min_length=1)]
    """`m_cap` (custom up to some M, else fallback), `tile`, or the list of possible words or integers."""
    when: Text | tuple[Text, ...] = ()
    """Conjuncts over earlier outcomes; when one fails the layer has no outcome."""
    repairs: Word | None = None
    """Earlier tile layer whose outcome stays when a rule says `tile: unchanged`."""

    @property
    def outcome_kind(self) -> Literal["m_cap", "choice", "tile"]:
        """What the outcomes are; `choice` is one of a list."""
        return self.outcome if isinstance(self.outcome, str) else "choice"


class FamilyFile(SpecModel):
    """What a family computes and in which order it decides."""

    kind: Literal["family/1"] = Field(alias="schema")
    """`family/1`."""
    name: Word
    """Name of the op and of the folder."""
    op: Text
    """Schema of the op, for readers."""
    dtypes: Annotated[tuple[Word, ...], Field(min_length=1)]
    """Element types of the activations; the enumeration behind the input `dtype`."""
    limits: dict[Word, Positive]
    """Greatest value of each integer input (M, N, K, num_sms, ...); the least is 1."""
    enums: dict[Word, Annotated[tuple[Word, ...], Field(min_length=1)]] = {}
    """Further enumerated inputs and their words."""
    default: Flag = False
    """The family that commands mean when several exist and none is named."""
    layers: tuple[LayerDecl, ...] = Field(min_length=1)
    """The layers in order of evaluation."""
