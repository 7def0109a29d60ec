"""Every diagnostic code: what it means, an example, how to mend it. E codes are errors, W codes warnings.

E1xx: a file cannot be read as a spec. E2xx: pieces are missing or given twice. E30x: an expression or its form.
E31x: what rules reach is not allowed. W4xx: worth a look.
"""

from __future__ import annotations

from collections.abc import Mapping

from .entry import Code
from .legality import LEGALITY
from .reading import READING
from .structure import STRUCTURE

CODES: Mapping[str, Code] = {entry.code: entry for entry in (*READING, *STRUCTURE, *LEGALITY)}
"""Codes in ascending order within each group."""

__all__ = ["CODES", "Code", "explain"]


def explain(code: str) -> str:
    """The long text about a code. KeyError when there is no such code."""
    entry = CODES[code]
    level = "error" if code.startswith("E") else "warning"
    example = "\n".join(f"    {line}" for line in entry.example.strip("\n").splitlines())
    return f"{code} ({level}): {entry.title}\n\n{entry.text}\n\nExample:\n\n{example}\n\nTo mend it: {entry.mend}\n"
