"""Finds and runs the code blocks of a page that are marked as runnable.

A block counts when the line above its fence is `<!-- runs -->`, or `<!-- runs: package package -->` for one that needs
packages. The Python blocks of a page are one program; a shell block runs on its own. Both run in an empty folder.

`<!-- runs in the specs -->` makes one session of a page's shell blocks, in a git repository with a copy of the specs;
`<!-- runs in the example -->` does so in a copy of examples/embed_generator. `tilewright` is the command of this tree.
`<!-- not run: reason -->` is for what no test can run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^<!-- runs(?: in the (?P<place>specs|example))?(?:: (?P<needs>[\w ]+))? -->\n"
    r"```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^(?P<mark>[^\n]*)\n[ ]*```(?P<language>\w+)\n.*?^[ ]*```$", re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).resolve().parents[2]
PLACES = {"specs": ROOT / "specs", "example": ROOT / "examples" / "embed_generator"}
_MARK = re.compile(r"^<!-- runs", re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """One runnable block; `line` is that of its first line of code."""

    language: str
    code: str
    line: int
    needs: tuple[str, ...]
    place: str | None = None

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
            block["place"],
        )
        for block in _BLOCK.finditer(text)
    ]
    if len(found) != len(_MARK.findall(text)) or any(block.language not in ("python", "sh") for block in found):
        raise ValueError(f"{page.name}: a mark `<!-- runs -->` without a python or sh block right below it")
    return found


def unmarked(page: Path) -> list[int]:
    """Lines of Python and shell blocks that say neither that they run nor why they do not."""
    text = page.read_text(encoding="utf-8")
    return [
        text.count("\n", 0, block.start()) + 2
        for block in _FENCE.finditer(text)
        if block["language"] in ("python", "sh") and not re.match(r"<!-- (runs|not run: \w)", block["mark"])
    ]


def programs(page: Path) -> list[Snippet]:
    """What to run: one Python program whose line numbers are those of the page, and every shell block or session."""
    blocks = read(page)
    whole = [_joined([b for b in blocks if b.language == "python"])]
    whole += [_joined([b for b in blocks if b.language == "sh" and b.place == place]) for place in PLACES]
    alone = [block for block in blocks if block.language == "sh" and block.place is None]
    return [program for program in whole if program is not None] + alone


def _joined(blocks: list[Snippet]) -> Snippet | None:
    code = ""
    for block in blocks:
        code += "\n" * (block.line - 1 - code.count("\n")) + block.code
    needs = tuple(sorted({name for block in blocks for name in block.needs}))
    return Snippet(blocks[0].language, code, 1, needs, blocks[0].place) if blocks else None


def _prepare(program: Snippet, folder: Path) -> Path:
    """Where the program runs."""
    if program.place is None:
        return folder
    source = PLACES[program.place]
    place = folder / "place"
    shutil.copytree(source, place / "specs" if program.place == "specs" else place)
    git = ["git", "-c", "user.name=reader", "-c", "user.email=reader@example.org"]
    for words in (["init", "--quiet", "--initial-branch=main"], ["add", "."], ["commit", "--quiet", "-m", "before"]):
        subprocess.run([*git, *words], cwd=place, check=True, capture_output=True)
    return place


def _command(folder: Path) -> Path:
    """A folder with the command `tilewright` of this tree."""
    script = folder / "bin" / "tilewright"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tilewright_codegen "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script.parent


def run(program: Snippet, page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs one program in `folder`."""
    name = folder / f"{page.name}.{'py' if program.language == 'python' else 'sh'}"
    name.write_text(program.code, encoding="utf-8")
    command = [sys.executable, str(name)] if program.language == "python" else ["sh", "-eu", str(name)]
    path = os.pathsep.join([str(_command(folder)), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    place = _prepare(program, folder)
    return subprocess.run(command, cwd=place, capture_output=True, text=True, env=environment, check=False)
