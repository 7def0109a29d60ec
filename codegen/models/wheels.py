"""Wheels: which archs each wheel holds, and what it may weigh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from .base import Positive, SpecModel, Text, Word

Label = Annotated[str, Field(strict=True, pattern=r"^[a-z][a-z0-9]*$")]
ImageName = Annotated[str, Field(strict=True, pattern=r"^(sm|compute)_[0-9]+[af]?$")]


class WheelVariant(SpecModel):
    """A named set of archs: one wheel that is built from these specs."""

    name: Label
    """Word that stands for the archs in an arch list, and the local version label of the wheel."""
    archs: Literal["all"] | Annotated[tuple[Word, ...], Field(min_length=1)]
    """Archs whose gencode is built; `all` is every arch with one."""
    ptx: tuple[Word, ...] = ()
    """Archs whose kernels are kept as PTX too, for devices that come later. Their gencode has no `a` or `f`."""
    published: Literal["index", "release"] = "release"
    """`index`: the wheel of the package index, without a local version. `release`: a file beside it, with one."""
    why: Text
    """Whom it is for."""


class WheelsFile(SpecModel):
    """The wheels that are built from this tree."""

    kind: Literal["wheels/1"] = Field(alias="schema")
    """`wheels/1`."""
    variants: tuple[WheelVariant, ...] = Field(min_length=1)
    """Wheels, the one for the package index first."""


class FamilyBudget(SpecModel):
    """What the machine code of one family may weigh. Sizes are bytes as they stand in the library, compressed."""

    family: Word
    """Family it is for."""
    total_bytes: Positive
    """All images together."""
    image_bytes: Positive
    """One image, unless `images` says otherwise."""
    images: Mapping[ImageName, Positive] = {}
    """Images that may weigh more or must weigh less, by the compiler's name; compute_89 is PTX."""


class BuildBudget(SpecModel):
    """What building may take."""

    full_cpu_seconds: Positive
    """Processor time of a build of all archs from nothing."""
    rule_change_seconds: Positive
    """Processor time of a rebuild after one changed rule."""


class BudgetFile(SpecModel):
    """Sizes and times that a build must keep to. `tilewright wheel-check` reads the sizes."""

    kind: Literal["budget/1"] = Field(alias="schema")
    """`budget/1`."""
    wheel_bytes: Positive
    """The wheel file."""
    support_bytes: Positive
    """Kernels that belong to no family (quantise, dequantise), all images together."""
    families: tuple[FamilyBudget, ...] = ()
    """Budgets of families."""
    build: BuildBudget
    """Budgets of time."""
