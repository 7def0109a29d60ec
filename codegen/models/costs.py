"""Cost tables: an estimate of the time of every tile, from which a rule can take the least."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Count, Kebab, Positive, SpecModel, Text, Word


class CostEntry(SpecModel):
    """Time of one tile in picoseconds: a sum of counts of the problem, each times its coefficient.

    A tile of the output has `rows` x `columns`; a step is 64 of K; `blocks` tiles are computed at a time, a round.
    Coefficients that are left out are 0. Those that end in `step` are multiplied by the steps.
    """

    id: Kebab
    """The tile."""
    rows: Positive
    """Rows of A that one tile of the output takes."""
    columns: Positive
    """Columns of the output of one tile."""
    blocks: Positive
    """Tiles that are computed at a time."""
    clusters: Count = 0
    """Tiles that clusters of blocks share at a time, each block with its part of K; 0: they never do."""
    start: Count = 0
    """Once."""
    step: Count = 0
    """For each step."""
    each: Count = 0
    """For each tile of the output."""
    each_step: Count = 0
    """For each tile of the output and each of its steps: what tiles that are computed at once take from each other."""
    round: Count = 0
    """For each round after the first."""
    round_step: Count = 0
    """For each round after the first, and each step."""
    whole: Count = 0
    """For each round whose tiles are too many for the clusters."""
    whole_step: Count = 0
    """For each such round, and each step."""
    share: Count = 0
    """For each time that the clusters take a tile, after the first."""
    share_step: Count = 0
    """For each such time, and each step."""
    weight: Count = 0
    """For each 1024 elements of the weight."""
    input: Count = 0
    """For each 1024 elements of A."""
    output: Count = 0
    """For each 1024 elements of the output."""
    outside_step: Count = 0
    """For each row of a tile that lies outside of A, in each column of tiles, and each step."""


class CostFile(SpecModel):
    """Costs by which rules with the key `cheapest` choose. The first of equals is taken."""

    kind: Literal["costs/1"] = Field(alias="schema")
    """`costs/1`."""
    table: Word
    """Name by which rules speak of it; unique in the family."""
    why: Text | None = None
    """What the costs are of."""
    costs: tuple[CostEntry, ...] = Field(min_length=1)
    """One entry a tile, of any engine; a layer looks at those that it could yield."""
