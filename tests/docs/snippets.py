"""Finds and runs the code blocks of a page that are marked as runnable.

A block counts when the line above its fence is `<!-- runs -->`, or `<!-- runs: package package -->` for one that needs
packages. The Python blocks of a page are one program; a shell block runs on its own. Both run in an empty folder.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^<!-- runs(?:: (?P<needs>[\w ]+))? -->\n```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
_MARK = re.compile(r"^<!-- runs", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """One runnable block; `line` is that of its first line of code."""

    language: str
    code: str
    line: int
    needs: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages it needs that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


def read(page: Path) -> list[Snippet]:
    """The runnable blocks of a page. ValueError for a mark without a Python or shell block right below."""
    text = page.read_text(encoding="utf-8")
    found = [
        Snippet(
            block["language"],
            block["code"],
            text.count("\n", 0, block.start("code")) + 1,
            tuple((block["needs"] or "").split()),
        )
        for block in _BLOCK.finditer(text)
    ]
    if len(found) != len(_MARK.findall(text)) or any(block.language not in ("python", "sh") for block in found):
        raise ValueError(f"{page.name}: a mark `<!-- runs -->` without a python or sh block right below it")
    return found


def programs(page: Path) -> list[Snippet]:
    """What to run: one Python program whose line numbers are those of the page, and every shell block."""
    blocks = read(page)
    python = [block for block in blocks if block.language == "python"]
    joined = ""
    for block in python:
        joined += "\n" * (block.line - 1 - joined.count("\n")) + block.code
    needs = tuple(sorted({name for block in python for name in block.needs}))
    whole = [Snippet("python", joined, 1, needs)] if python else []
    return whole + [block for block in blocks if block.language == "sh"]


def run(program: Snippet, page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs one program in `folder`."""
    name = folder / f"{page.name}.{'py' if program.language == 'python' else 'sh'}"
    name.write_text(program.code, encoding="utf-8")
    command = [sys.executable, str(name)] if program.language == "python" else ["sh", "-eu", str(name)]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
