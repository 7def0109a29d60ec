"""Located findings about spec files, and the three ways they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Location:
    """A place in a file. Lines and columns count from 1."""

    path: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True, order=True)
class Diagnostic:
    """One finding. Codes starting with E are errors, those starting with W are warnings."""

    location: Location
    code: str
    message: str
    hint: str | None = field(default=None, compare=False)

    @property
    def is_error(self) -> bool:
        return self.code.startswith("E")


class SpecError(Exception):
    """Raised by the loading functions that promise a usable tree; carries every finding."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(sorted(diagnostics))
        super().__init__(render_text(self.diagnostics))


class Sink:
    """Collects findings, so that a run reports all of them at once."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []

    def add(self, code: str, location: Location, message: str, hint: str | None = None) -> None:
        self._found.append(Diagnostic(location, code, message, hint))

    def mentions(self, location: Location) -> bool:
        """Whether something was found at exactly this place already."""
        return any(d.location == location for d in self._found)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(set(self._found)))

    @property
    def has_errors(self) -> bool:
        return any(d.is_error for d in self._found)


def render_text(diagnostics: Iterable[Diagnostic]) -> str:
    """`file:line:column: CODE: message`, with an indented hint below."""
    lines = []
    for d in diagnostics:
        lines.append(f"{d.location}: {d.code}: {d.message}")
        if d.hint:
            lines.append(f"  hint: {d.hint}")
    return "\n".join(lines)


def render_json(diagnostics: Iterable[Diagnostic]) -> str:
    """A JSON array with one object a finding."""
    rows = [
        {
            "code": d.code,
            "severity": "error" if d.is_error else "warning",
            "path": d.location.path,
            "line": d.location.line,
            "column": d.location.column,
            "message": d.message,
            "hint": d.hint,
        }
        for d in diagnostics
    ]
    import json

    return json.dumps(rows, indent=2)


def render_github(diagnostics: Iterable[Diagnostic]) -> str:
    """Workflow commands that show each finding beside its line in a pull request."""
    lines = []
    for d in diagnostics:
        level = "error" if d.is_error else "warning"
        text = d.message if d.hint is None else f"{d.message}\nhint: {d.hint}"
        place = f"file={_escape_property(d.location.path)},line={d.location.line},col={d.location.column}"
        lines.append(f"::{level} {place},title={d.code}::{_escape(text)}")
    return "\n".join(lines)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


RENDERERS = {"text": render_text, "json": render_json, "github": render_github}


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """A hint naming the closest candidate, or None when nothing is close."""
    import difflib

    close = difflib.get_close_matches(word, sorted(set(candidates)), n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else None
