"""YAML text to plain values with a location for every key and value.

Built on PyYAML's event stream rather than its object constructors, so that no implicit conversion happens
behind the author's back: a plain scalar that YAML 1.1 would turn into something surprising is a finding.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .diagnostics import Location, Sink

MAX_BYTES = 256 * 1024
MAX_DEPTH = 24
MAX_DIGITS = 40

ValuePath = tuple[str | int, ...]

_SUSPECT = re.compile(r"[-+.~0-9]|\Z|y\Z|n\Z|(?i:yes|no|true|false|null|on|off)\Z")
"""Starts like a number, is empty or is a word YAML knows; any other plain text is text to every version of YAML."""
_INT = re.compile(r"-?(?:0|[1-9][0-9]*(?:_[0-9]+)*)\Z")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+\Z")
_TRAPS = (
    (
        re.compile(r"(?:yes|Yes|YES|no|No|NO|True|TRUE|False|FALSE|on|On|ON|off|Off|OFF|y|n)\Z"),
        "a YAML 1.1 boolean",
    ),
    (re.compile(r"(?:~|Null|NULL)\Z"), "a YAML 1.1 null"),
    (re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z"), "a YAML 1.1 sexagesimal number"),
    (re.compile(r"[-+]?0[0-7_]+\Z"), "a YAML 1.1 octal number"),
    (re.compile(r"[-+]?0(?:x[0-9a-fA-F_]+|b[01_]+|o[0-7_]+)\Z"), "a number that is not decimal"),
    (re.compile(r"\+[0-9][0-9_.]*\Z"), "a number with a plus sign"),
    (re.compile(r"[-+]?(?:[0-9][0-9_]*)?\.?[0-9_]*[eE][-+]?[0-9]+\Z"), "a number with an exponent"),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)\Z"), "a YAML 1.1 special float"),
    (re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9_]+)\Z"), "a float YAML versions disagree on"),
    (re.compile(r"[-+]?[0-9][0-9_]*\Z"), "an integer YAML versions disagree on"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?\Z"), "a YAML 1.1 timestamp"),
)


@dataclass(frozen=True)
class Document:
    """One YAML document: its plain value, and where each part of it stands."""

    path: str
    value: Any
    value_marks: Mapping[ValuePath, Location]
    key_marks: Mapping[ValuePath, Location]
    raw: Mapping[ValuePath, str]

    def locate(self, path: ValuePath = ()) -> Location:
        """Location of the value at `path`, or of its nearest known ancestor."""
        for end in range(len(path), -1, -1):
            mark = self.value_marks.get(path[:end])
            if mark is not None:
                return mark
        return Location(self.path)

    def locate_key(self, path: ValuePath) -> Location:
        """Location of the key whose value is at `path`."""
        return self.key_marks.get(path) or self.locate(path)


class _StopReadingError(Exception):
    """The rest of this file cannot be read; the finding is already recorded."""


def load_documents(file: Path, shown: str, sink: Sink) -> list[Document]:
    """Read every document of a file. Findings go to `sink`; a file that cannot be read yields none."""
    try:
        text = _read_text(file, shown, sink)
    except _StopReadingError:
        return []
    try:
        documents = list(_documents(text, shown, sink))
        if not documents:
            sink.add(
                "E100", Location(shown), "the file holds comments only; a document with a `schema` key is expected."
            )
        return documents
    except _StopReadingError:
        return []
    except yaml.YAMLError as error:
        _report_yaml(error, text, shown, sink)
    return []


def _report_yaml(error: yaml.YAMLError, text: str, shown: str, sink: Sink) -> None:
    problem, line, column, hint = " ".join(str(error).split()), 0, 0, None
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        problem = error.problem or problem
        line, column = (mark.line, mark.column) if mark else (0, 0)
        if "".join(text.split("\n")[line : line + 1])[column : column + 1] == "\t":
            hint = "indent with spaces; YAML allows no tabs"
    elif isinstance(error, yaml.reader.ReaderError):
        code = error.character if isinstance(error.character, int) else ord(error.character)
        before = text[: max(text.find(chr(code)), 0)]
        line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
        problem = f"the control character U+{code:04X} is not allowed"
    sink.add("E100", Location(shown, line + 1, column + 1), f"this is not valid YAML: {problem}.", hint)


def _read_text(file: Path, shown: str, sink: Sink) -> str:
    try:
        status = file.stat()
        size = status.st_size
        if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or stat.S_ISCHR(status.st_mode):
            sink.add("E100", Location(shown), "this is no regular file.")
            raise _StopReadingError
        if size > MAX_BYTES:
            sink.add("E100", Location(shown), f"the file has {size} bytes; the limit is {MAX_BYTES}.")
            raise _StopReadingError
        data = file.read_bytes()
    except OSError as error:
        sink.add("E100", Location(shown), f"the file cannot be read: {error.strerror}.")
        raise _StopReadingError from None
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        sink.add("E100", Location(shown), "the file starts with a byte order mark; plain UTF-8 is expected.")
        raise _StopReadingError
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        place = Location(shown, before.count(b"\n") + 1, column)
        sink.add("E100", place, f"byte 0x{data[error.start]:02x} is not valid UTF-8.")
        raise _StopReadingError from None
    if not text.strip():
        sink.add("E100", Location(shown), "the file is empty; a document with a `schema` key is expected.")
        raise _StopReadingError
    return text


def _documents(text: str, shown: str, sink: Sink) -> Iterator[Document]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events = yaml.parse(text, Loader=loader)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            builder = _Builder(shown, sink, events)
            value = builder.build((), next(events), 0)
            yield Document(shown, value, builder.value_marks, builder.key_marks, builder.raw)


class _Builder:
    """Turns the events of one document into plain values, noting every position."""

    def __init__(self, shown: str, sink: Sink, events: Iterator[Any]) -> None:
        self.shown = shown
        self.sink = sink
        self.events = events
        self.value_marks: dict[ValuePath, Location] = {}
        self.key_marks: dict[ValuePath, Location] = {}
        self.raw: dict[ValuePath, str] = {}

    def build(self, path: ValuePath, event: Any, depth: int) -> Any:
        place = self._place(event)
        self.value_marks[path] = place
        if depth > MAX_DEPTH:
            self.sink.add("E100", place, f"values are nested more than {MAX_DEPTH} deep.")
            raise _StopReadingError
        self._reject_anchor_and_tag(event, place)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(path, event, place)
        return None

    def _place(self, event: Any) -> Location:
        return Location(self.shown, event.start_mark.line + 1, event.start_mark.column + 1)

    def _reject_anchor_and_tag(self, event: Any, place: Location) -> None:
        if isinstance(event, yaml.AliasEvent):
            self.sink.add(
                "E105", place, f"alias '*{event.anchor}' is not allowed.", "write the value out: it keeps diffs local"
            )
        elif event.anchor is not None:
            self.sink.add("E105", place, f"anchor '&{event.anchor}' is not allowed.", "write the value out")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self.sink.add(
                "E105",
                place,
                f"tag '{tag.replace('tag:yaml.org,2002:', '!!')}' is not allowed.",
                "quote strings instead of tagging them",
            )

    def _mapping(self, path: ValuePath, depth: int) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            place = self._place(event)
            key = self._key(path, event, depth)
            child = (*path, key)
            if key in result:
                first = self.key_marks[child]
                self.sink.add("E102", place, f"key '{key}' is given twice; first on line {first.line}.")
            self.key_marks.setdefault(child, place)
            value = self.build(child, next(self.events), depth + 1)
            result.setdefault(key, value)
        return result

    def _key(self, path: ValuePath, event: Any, depth: int) -> str | int:
        place = self._place(event)
        if not isinstance(event, yaml.ScalarEvent):
            self.sink.add("E104", place, "a key must be a plain word, not a list or a mapping.")
            raise _StopReadingError
        if event.value == "<<" and not event.style:
            self.sink.add("E105", place, "merge key '<<' is not allowed.", "repeat the keys: it keeps diffs local")
        self._reject_anchor_and_tag(event, place)
        key = self._convert(event, place)
        if not isinstance(key, str) and (isinstance(key, bool) or not isinstance(key, int)):
            self.sink.add("E103", place, f"'{event.value}' is no name for a key.", f'quote it ("{event.value}")')
        return key if isinstance(key, int) and not isinstance(key, bool) else str(event.value)

    def _sequence(self, path: ValuePath, depth: int) -> list[Any]:
        result: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            result.append(self.build((*path, len(result)), event, depth + 1))
        return result

    def _scalar(self, path: ValuePath, event: Any, place: Location) -> Any:
        self.raw[path] = event.value
        return self._convert(event, place)

    def _convert(self, event: Any, place: Location) -> Any:
        text: str = event.value
        if event.style:
            return text
        if text in ("true", "false"):
            return text == "true"
        if text == "null":
            return None
        if not _SUSPECT.match(text):
            return text
        if len(text) > MAX_DIGITS and (_INT.match(text) or _FLOAT.match(text)):
            self.sink.add("E103", place, f"a number of {len(text)} characters fits no integer of 64 bits.")
            return text
        if _INT.match(text):
            return int(text)
        if _FLOAT.match(text):
            return float(text)
        self._trap(text, place)
        return text

    def _trap(self, text: str, place: Location) -> None:
        if text == "":
            self.sink.add("E103", place, "the value is missing (YAML reads nothing as null).", "write it, or `null`")
            return
        for pattern, name in _TRAPS:
            if pattern.match(text):
                hint = f'quote it ("{text}") if a string is meant, else use true, false or a plain decimal'
                self.sink.add("E103", place, f"'{text}' is {name}.", hint)
                return
