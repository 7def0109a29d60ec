"""Mutants of a specs folder: single edits of one line, chosen by a hash of what they change.

The choice does not depend on line numbers or order, so that editing the specs neither reshuffles the mutants nor
their names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPERATORS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
COSTS = "schema: costs/1"
RARER = 8
_NUMBER = re.compile(r"(?<![\w.\"-])[0-9][0-9_]*(?![\w.\"-])")
_OPERATOR = re.compile(r" (<=|>=|==|!=|<|>) ")
_CONJUNCT = re.compile(r"when: \[([^,\]{}]+), ")
_ARCH = re.compile(r"\b(sm[0-9]+|unknown), ")
_ID = re.compile(r"\bid: ([A-Za-z0-9.-]+)")
_TILE = re.compile(r"\btile: ([0-9][0-9x-]+)")
_CAP = re.compile(r"\bm_cap: (\w+)")


@dataclass(frozen=True)
class Mutant:
    """One edit. `name` says where and what, without line numbers."""

    name: str
    file: str
    text: str

    @property
    def rank(self) -> int:
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big")


def mutants(root: Path, one_in: int) -> list[Mutant]:
    """About one in `one_in` of all mutants of the YAML files below `root`, nested example trees left out.

    Of tables of costs, whose lines are all alike, it is one in RARER times as many.
    """
    found: dict[str, Mutant] = {}
    for path in sorted(root.rglob("*.yaml")):
        relative, text = path.relative_to(root), path.read_text("utf-8")
        if "examples" not in relative.parts:
            rate = one_in * (RARER if text.startswith(COSTS) else 1)
            for mutant in _of_file(relative.as_posix(), text):
                if mutant.rank % rate == 0:
                    found.setdefault(mutant.name, mutant)
    return list(found.values())


def _of_file(file: str, text: str) -> Iterator[Mutant]:
    lines = text.splitlines(keepends=True)
    # The last digit of a fitted cost is below what could be measured: only its size means something.
    step = 0 if text.startswith(COSTS) else 1
    for index, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        shown = line.strip()
        for what, changed in _of_line(line, step):
            yield _mutant(file, lines, index, 1, [changed], f"{shown} => {what}")
        yield _mutant(file, lines, index, 1, [], f"{shown} => dropped")
        yield _mutant(file, lines, index, 1, [line, line], f"{shown} => doubled")
        yield _mutant(file, lines, index, 1, ["  " + line], f"{shown} => indented")
        if index + 1 < len(lines) and lines[index + 1].strip() not in ("", shown):
            swapped = [lines[index + 1], line]
            yield _mutant(file, lines, index, 2, swapped, f"{shown} => swapped with: {lines[index + 1].strip()}")


def _mutant(file: str, lines: list[str], start: int, count: int, changed: list[str], what: str) -> Mutant:
    return Mutant(f"{file}: {what}", file, "".join([*lines[:start], *changed, *lines[start + count :]]))


def _of_line(line: str, step: int) -> Iterator[tuple[str, str]]:
    yield from _numbers(line, step)
    for match in _OPERATOR.finditer(line):
        yield f"{match[1]} to {OPERATORS[match[1]]} at {match.start()}", _with(line, match, OPERATORS[match[1]], 1)
    for match in _CONJUNCT.finditer(line):
        yield f"without {match[1]}", line[: match.start()] + "when: [" + line[match.end() :]
    for match in _ARCH.finditer(line):
        yield f"without {match[1]}", line[: match.start()] + line[match.end() :]
    for match in _ID.finditer(line):
        yield f"{match[1]} renamed", _with(line, match, f"{match[1]}-b", 1)
    yield from _outcomes(line)


def _numbers(line: str, step: int) -> Iterator[tuple[str, str]]:
    for match in _NUMBER.finditer(line):
        value = int(match[0].replace("_", ""))
        for other in dict.fromkeys((value + step, value * 2, value // 2)):
            if other != value:
                text = f"{other:_}" if other >= 10_000 else str(other)
                yield f"{match[0]} to {text} at {match.start()}", _with(line, match, text)


def _outcomes(line: str) -> Iterator[tuple[str, str]]:
    for pattern, others in ((_TILE, ("64x64-64", "32x256-128")), (_CAP, ("always", "never", "100"))):
        for match in pattern.finditer(line):
            for other in others:
                if other != match[1]:
                    yield f"{match[1]} to {other}", _with(line, match, other, 1)


def _with(line: str, match: re.Match[str], text: str, group: int = 0) -> str:
    return line[: match.start(group)] + text + line[match.end(group) :]
