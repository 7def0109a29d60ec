"""What all spec models share: frozen, closed, strict about scalars."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Count: TypeAlias = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
Positive: TypeAlias = Annotated[int, Field(strict=True, ge=1, lt=2**63)]
Flag: TypeAlias = Annotated[bool, Field(strict=True)]
Text: TypeAlias = Annotated[str, Field(strict=True, min_length=1)]

WORD = r"^[A-Za-z_][A-Za-z0-9_]*$"
_KEBAB = r"^[a-z0-9]+(?:[-.][a-z0-9]+)*$"
_VERSION = r"^[0-9]+\.[0-9]+$"
PATTERNS = {
    WORD: "a plain word (letters, digits and underscores)",
    _KEBAB: "in kebab-case (lower case letters and digits, joined by hyphens or dots)",
    _VERSION: 'a version such as "12.9"',
}
"""What each pattern asks for, in words."""
Word: TypeAlias = Annotated[str, Field(strict=True, pattern=WORD)]
Kebab: TypeAlias = Annotated[str, Field(strict=True, pattern=_KEBAB)]
Version: TypeAlias = Annotated[str, Field(strict=True, pattern=_VERSION)]
Number: TypeAlias = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class SpecModel(BaseModel):
    """Base of every spec document and of its parts."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        protected_namespaces=(),
    )
