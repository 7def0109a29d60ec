"""Decisions in batches: a JSON object a line in, a JSON object a line out, in the same order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from .diagnostics import did_you_mean
from .ir import Family, SpecTree
from .vector import ABSENT, Evaluator, Outcomes, launched_tiles

MAX_SEEN = 1024
_DECODER = json.JSONDecoder()
BATCH = 1 << 15
"""Lines decided at once."""
DTYPE_ALIASES = {
    "fp16": "f16", "float16": "f16", "half": "f16", "torch.float16": "f16",
    "bfloat16": "bf16", "torch.bfloat16": "bf16",
    "fp32": "f32", "float32": "f32", "float": "f32", "torch.float32": "f32",
}  # fmt: skip
"""Other names by which callers know the element types."""


class LineError(ValueError):
    """A line is not a problem this family can decide."""


def encode_word(name: str, words: tuple[str, ...], value: object) -> int:
    """Index of a word of an enumerated input. Raises LineError naming the closest word."""
    word = DTYPE_ALIASES.get(value, value) if name == "dtype" and isinstance(value, str) else value
    if isinstance(word, str) and word in words:
        return words.index(word)
    hint = did_you_mean(word, words) if isinstance(word, str) else None
    raise LineError(f"{name} is {_shown(value)}; allowed: {', '.join(words)}" + (f"; {hint}" if hint else ""))


def encode_integer(name: str, limit: int, value: object) -> int:
    """An integer input within 1 to `limit`. Raises LineError."""
    if type(value) is not int:
        raise LineError(f"{name} is {_shown(value)}; an integer is expected")
    if not 1 <= value <= limit:
        raise LineError(f"{name} is {_shown(value)}; allowed: 1 to {limit}")
    return value


def parse_cc(value: object) -> tuple[int, int]:
    """A compute capability given as "12.1" or [12, 1]. Raises LineError; a float is ambiguous (12.10 is not 12.1)."""
    if isinstance(value, str):
        major, dot, minor = value.partition(".")
        if dot and all(p.isascii() and p.isdigit() and len(p) <= 4 for p in (major, minor)):
            return int(major), int(minor)
    elif isinstance(value, list) and len(value) == 2 and all(type(v) is int and v >= 0 for v in value):
        return value[0], value[1]
    raise LineError(f'cc is {_shown(value)}; write it as "12.1" or [12, 1]')


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


@dataclass(frozen=True)
class Reader:
    """Reads lines as the arch and the inputs of a family."""

    archs: Mapping[tuple[int, int], str]
    unknown: str | None
    fields: tuple[tuple[str, Callable[[object], int], bool], ...]
    """Name, encoder, and whether the input may be left out, for every input."""
    seen: dict[str, str] = field(default_factory=dict)
    """Archs by the text of their cc, as far as they occurred."""

    @classmethod
    def of(cls, tree: SpecTree, family: Family) -> Reader:
        archs = {a.profile.cc: a.name for a in tree.archs.values() if a.profile.cc is not None}
        fields = []
        for item in family.inputs:
            words = item.words
            encode = _word_encoder(item.name, words) if words else _integer_encoder(item.name, item.limit)
            fields.append((item.name, encode, item.is_enum and item.name != "dtype"))
        return cls(archs, "unknown" if "unknown" in tree.archs else None, tuple(fields))

    def read(self, line: str | bytes) -> tuple[str, list[int]]:
        """The arch's name and the encoded inputs. Raises LineError."""
        problem = _parse_object(line)
        if "cc" not in problem:
            raise LineError("key 'cc' is missing")
        cc = problem["cc"]
        arch = self.seen.get(cc) if type(cc) is str else None
        if arch is None:
            arch = self.archs.get(parse_cc(cc), self.unknown)
            if arch is None:
                raise LineError(f"no arch has cc {_shown(cc)}, and the specs have no `unknown`")
            if type(cc) is str and len(self.seen) < MAX_SEEN:
                self.seen[cc] = arch
        values = []
        for name, encode, optional in self.fields:
            if name in problem:
                values.append(encode(problem[name]))
            elif optional:
                values.append(0)
            else:
                raise LineError(f"key '{name}' is missing")
        return arch, values


def _parse_object(line: str | bytes) -> dict[str, Any]:
    try:
        text = (line.decode("utf-8") if isinstance(line, bytes) else line).strip()
        problem, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise LineError(f"this is not JSON: extra text from character {end + 1} on")
    except RecursionError:
        raise LineError("the line is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise LineError(f"byte 0x{line[error.start]:02x} is not UTF-8") from None
    except json.JSONDecodeError as error:
        problem = error.msg.removesuffix(" starting at")
        raise LineError(f"this is not JSON: {problem} at character {error.pos + 1}") from None
    except LineError:
        raise
    except ValueError:
        raise LineError("a number is too long") from None
    if type(problem) is not dict:
        raise LineError("a JSON object is expected")
    return problem


def _word_encoder(name: str, words: tuple[str, ...]) -> Callable[[object], int]:
    codes = {word: index for index, word in enumerate(words)}

    def encode(value: object) -> int:
        found = codes.get(value) if isinstance(value, str) else None
        return encode_word(name, words, value) if found is None else found

    return encode


def _integer_encoder(name: str, limit: int) -> Callable[[object], int]:
    def encode(value: object) -> int:
        if type(value) is int and 1 <= value <= limit:
            return value
        return encode_integer(name, limit, value)

    return encode


class BatchDecider:
    """Decides lines in batches; `errors` counts the lines that were not problems."""

    def __init__(self, tree: SpecTree, family: Family) -> None:
        self.family = family
        self.reader = Reader.of(tree, family)
        self.evaluators: dict[str, Evaluator] = {}
        self.errors = 0

    def run(self, lines: Iterable[str | bytes]) -> Iterator[str]:
        """One JSON text a line, in order; blank lines are passed over.

        A decision holds `arch`, every layer's outcome by the layer's name (null where the layer does not apply),
        `launch` (the tile that is launched, or null) and `rules` (rule id by layer). A line that cannot be
        decided gives `error` and `line`, counted from 1.
        """
        numbered = enumerate(lines, start=1)
        while batch := list(islice(numbered, BATCH)):
            yield from self._batch([(number, line) for number, line in batch if line.strip()])

    def _batch(self, batch: list[tuple[int, str | bytes]]) -> list[str]:
        results = [""] * len(batch)
        by_arch: dict[str, tuple[list[int], list[list[int]]]] = {}
        for index, (number, line) in enumerate(batch):
            try:
                arch, values = self.reader.read(line)
            except LineError as error:
                results[index] = self._error(number, error)
                continue
            indices, rows = by_arch.setdefault(arch, ([], []))
            indices.append(index)
            rows.append(values)
        for arch, (indices, rows) in by_arch.items():
            try:
                texts = self._decide(arch, rows)
            except KeyError as problem:
                texts = [self._error(batch[i][0], LineError(f"{arch}: {problem.args[0]}")) for i in indices]
            for index, text in zip(indices, texts, strict=True):
                results[index] = text
        return results

    def _error(self, number: int, error: LineError) -> str:
        self.errors += 1
        return json.dumps({"error": str(error), "line": number})

    def _decide(self, arch: str, rows: list[list[int]]) -> list[str]:
        evaluator = self.evaluators.get(arch)
        if evaluator is None:
            evaluator = self.evaluators[arch] = Evaluator(self.family, arch)
        columns = np.array(rows, np.int64).T
        names = [item.name for item in self.family.inputs]
        outcomes = evaluator.decide(dict(zip(names, columns, strict=True)))
        launched = launched_tiles(self.family, outcomes)
        columns_out = [a for layer in self.family.layers for a in _arrays(outcomes, layer.name)] + [launched]
        _, first, inverse = np.unique(_row_keys(columns_out), return_index=True, return_inverse=True)
        texts = [self._text(arch, [int(c[i]) for c in columns_out]) for i in first]
        return [texts[i] for i in inverse.reshape(-1).tolist()]

    def _text(self, arch: str, row: list[int]) -> str:
        document: dict[str, Any] = {"arch": arch}
        rules: dict[str, str | None] = {}
        for layer, code, rule in zip(self.family.layers, row[0::2], row[1::2], strict=False):
            document[layer.name] = None if code == ABSENT else layer.values[code]
            rules[layer.name] = None if rule == ABSENT else layer.effective(arch)[rule].id
        launch = None if row[-1] == ABSENT else self.family.tiles[row[-1]].id
        return json.dumps({**document, "launch": launch, "rules": rules})


def _arrays(outcomes: Outcomes, layer: str) -> tuple[Any, Any]:
    return outcomes[layer].codes, outcomes[layer].rules


def _row_keys(columns: list[Any]) -> Any:
    """One integer a row, equal for equal rows only."""
    keys: Any = np.zeros(columns[0].shape, np.int64)
    span = 1
    for column in columns:
        size = int(column.max(initial=ABSENT)) + 2
        if span * size >= 1 << 62:
            keys = np.unique(keys, return_inverse=True)[1].reshape(keys.shape)
            span = int(keys.max()) + 1
        keys = keys * size + (column + 1)
        span *= size
    return keys
