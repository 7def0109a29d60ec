"""Claims: statements about a spec tree that are re-proved whenever it changes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .base import Kebab, SpecModel, Text


class ClaimModel(SpecModel):
    """One statement. Which further keys apply depends on `claim`."""

    id: Kebab
    """Name of the statement."""
    claim: Text
    """Kind of statement."""
    args: dict[Text, Any] = {}
    """Arguments of the statement."""
    why: Text | None = None
    """Why it should hold."""


class ClaimsFile(SpecModel):
    """Statements kept next to the specs."""

    kind: Literal["claims/1"] = Field(alias="schema")
    """`claims/1`."""
    family: Text
    """Family the statements are about."""
    claims: Annotated[tuple[ClaimModel, ...], Field(min_length=1)]
    """The statements."""
