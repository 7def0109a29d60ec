"""Evidence: one record per measuring campaign."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Count, Flag, Kebab, Number, Positive, SpecModel, Text, Version, Word


class EvidenceDevice(SpecModel):
    """The card a campaign ran on."""

    arch: Word
    """Arch profile of the card."""
    num_sms: Positive
    """SMs the card has."""
    product: Text | None = None
    """Name of the card."""
    driver: Text | None = None
    """Driver version, where it was stated."""
    cuda: Version | None = None
    """CUDA version, where it was stated."""
    clocks: Literal["unlocked", "locked", "unknown"] = "unknown"
    """Whether clocks were fixed."""


class EvidenceMethod(SpecModel):
    """How times were taken."""

    warmup: Count | None = None
    """Calls before timing."""
    reps: Count | None = None
    """Timed calls."""
    statistic: Literal["median", "mean", "min", "unknown"] = "unknown"
    """Statistic that was compared."""
    interleaved: Flag = False
    """Whether both sides were timed in one loop."""
    sessions: Count | None = None
    """Separate sessions."""


class EvidenceCells(SpecModel):
    """What came out, cell by cell."""

    measured: Count
    """Cells measured."""
    won: Count
    """Cells in which the rule's choice was the faster."""
    shapes: Count
    """Distinct (N, K) shapes."""
    min_ratio: Number | None = None
    """Least speed-up."""
    median_ratio: Number | None = None
    """Median speed-up."""
    max_ratio: Number | None = None
    """Greatest speed-up."""


class EvidenceRecord(SpecModel):
    """A measuring campaign that rules may cite."""

    kind: Literal["evidence/1"] = Field(alias="schema")
    """`evidence/1`."""
    id: Kebab
    """Id that rules cite."""
    device: EvidenceDevice
    """The card."""
    method: EvidenceMethod = EvidenceMethod()
    """How it was timed."""
    region: tuple[Text, ...] = ()
    """Conjuncts, in the rule grammar, that bound the problems measured."""
    cells: EvidenceCells | None = None
    """Counts and ratios, where they were published."""
    url: Text | None = None
    """Where the data can be read."""
    limits: tuple[Text, ...] = ()
    """What the data does not show."""
