"""Prints the build requirements of pyproject.toml, one a line: for builds without isolation, whose compiler stays in
one place so that a compiler cache can hit.

    python scripts/build_requirements.py > requirements.txt
"""

from __future__ import annotations

import re
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def build_requirements(text: str) -> list[str]:
    """The strings of `[build-system] requires`. Read without a TOML library, which Python 3.10 lacks."""
    block = re.search(r"^requires = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    if block is None:
        raise SystemExit(f"error: {PYPROJECT}: no [build-system] requires.")
    return re.findall(r'^\s*"([^"]+)"', block[1], re.MULTILINE)


if __name__ == "__main__":
    print("\n".join(build_requirements(PYPROJECT.read_text("utf-8"))))
