"""Names as documents define them: a second definition is a finding."""

from __future__ import annotations

from collections.abc import Callable

from .diagnostics import Location, Sink


class Names:
    """Notes names as they are defined and reports a second definition."""

    def __init__(
        self, kind: str, sink: Sink, code: str = "E206", generated: Callable[[str], str] = lambda name: name
    ) -> None:
        """`generated` is the name in generated code: there, two names must differ too."""
        self.kind, self.sink, self.code, self.generated = kind, sink, code, generated
        self.seen: dict[str, Location] = {}
        self._taken: dict[str, str] = {}

    def define(self, name: str, place: Location) -> bool:
        first = self.seen.setdefault(name, place)
        other = self._taken.setdefault(self.generated(name), name)
        if first is not place:
            self.sink.add(self.code, place, f"{self.kind} '{name}' is defined twice; first at {first}.")
        elif other != name:
            text = f"{self.kind} '{name}' is {self.generated(name)} in generated code, and so is '{other}'."
            self.sink.add(self.code, place, text, "choose names that differ in letters or digits")
        return first is place
