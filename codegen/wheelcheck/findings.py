"""What a check of a wheel has to say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["ok", "differs", "not checked"]


class WheelError(ValueError):
    """The file cannot be read as a wheel at all."""


class NotCheckedError(RuntimeError):
    """A check lacks what it needs; the text says what."""


@dataclass
class Check:
    """One aspect of the wheel. `problems` are differences, `skipped` is the reason why it was not looked at."""

    name: str
    problems: list[str] = field(default_factory=list)
    skipped: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> State:
        if self.problems:
            return "differs"
        return "not checked" if self.skipped else "ok"


@dataclass
class Report:
    """All checks of one wheel, in the order in which they ran."""

    wheel: str
    checks: list[Check] = field(default_factory=list)

    @contextmanager
    def check(self, name: str) -> Iterator[Check]:
        """Run one check; what it needs and does not find makes it `not checked`."""
        check = Check(name)
        self.checks.append(check)
        try:
            yield check
        except NotCheckedError as reason:
            check.skipped = str(reason)

    @property
    def problems(self) -> list[str]:
        return [f"{check.name}: {text}" for check in self.checks for text in check.problems]

    @property
    def skipped(self) -> list[Check]:
        return [check for check in self.checks if check.state == "not checked"]
