"""Grids: the problems on which decisions are enumerated."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Kebab, Positive, SpecModel, Text, Word


class Shape(SpecModel):
    """One weight matrix."""

    name: Text
    """Where it occurs."""
    N: Positive
    """Output features."""
    K: Positive
    """Input features."""


class GridFile(SpecModel):
    """A named set of problems: archs x SM counts x dtypes x shapes x M."""

    kind: Literal["grid/1"] = Field(alias="schema")
    """`grid/1`."""
    name: Kebab
    """Name by which commands select it."""
    family: Word
    """Family it is for."""
    archs: Literal["all"] | tuple[Word, ...] = "all"
    """Archs to enumerate."""
    num_sms: Literal["first", "profile"] | tuple[Positive, ...] = "profile"
    """`profile`: every SM count of each arch; `first`: its first one; or a list for all archs."""
    dtypes: Literal["all"] | tuple[Word, ...] = "all"
    """Element types to enumerate."""
    blocksize: Positive = 64
    """Quantisation blocksize of the problems."""
    M: tuple[Positive, ...] = Field(min_length=1)
    """Rows of the activations."""
    shapes: tuple[Shape, ...] = ()
    """Weight shapes; or give N and K, whose product is taken."""
    N: tuple[Positive, ...] = ()
    """Output features, combined with every K."""
    K: tuple[Positive, ...] = ()
    """Input features, combined with every N."""
