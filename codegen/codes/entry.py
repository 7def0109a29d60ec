"""The shape of an entry of the code registry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Code:
    """What is known about one diagnostic code."""

    code: str
    title: str
    text: str
    """What is wrong, and why it matters."""
    example: str
    """Spec text that gets the finding."""
    mend: str
