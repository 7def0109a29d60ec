"""What every tile has, whatever its engine."""

from __future__ import annotations

from typing import Literal

from .base import Kebab, SpecModel, Text, Word


class TileBase(SpecModel):
    """Fields of every tile, whatever its engine."""

    id: Kebab
    """Name of the tile, unique in the family."""
    needs: tuple[Word, ...] = ()
    """Features the arch must have."""
    reserve: Text | None = None
    """Why the tile is built although no rule reaches it."""
    status: Literal["measured", "emulated", "compiled"] | None = None
    """How far the tile itself has been proved; unset means its rules say it."""
