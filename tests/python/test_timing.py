"""Times on a card, with events that note the order in which things are handed over."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch

from tilewright import _timing


class Clock:
    """Events on a card that takes `us` for a call and sees what is handed over in order."""

    def __init__(self, us: float) -> None:
        self.us = us
        self.log: list[str] = []

    def event(self, enable_timing: bool) -> Clock:
        assert enable_timing
        return self

    def record(self) -> None:
        self.log.append("event")

    def synchronize(self) -> None:
        self.log.append("wait")

    def elapsed_time(self, end: Clock) -> float:
        assert end is self
        first = self.log.index("event")
        return self.log[first:].count("call") * self.us / 1000


@pytest.mark.parametrize(("us", "calls"), [(5.0, 30), (40.0, 4), (0.5, 48), (1000.0, 2)])
def test_a_time_begins_when_all_of_it_is_handed_over(us: float, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(us)
    monkeypatch.setattr(torch.cuda, "Event", clock.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: clock.log.clear())
    found = _timing.calls_of(lambda _: clock.log.append("call"), lambda: clock.log.append("lead"), 150)
    assert found == calls
    assert clock.log == ["lead", "event", "call", "call", "call", "event", "wait"]


def test_peers_take_turns_and_each_replay_is_led(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(100.0)
    replayed: list[str] = []

    class Graph:
        """A graph that knows what was called while it was recorded."""

        def __init__(self) -> None:
            self.calls: list[str] = []

        def replay(self) -> None:
            clock.log.extend(["call"] * len(self.calls))
            replayed.append(self.calls[0])
            assert clock.log[-len(self.calls) - 2 : -len(self.calls)] == ["lead", "event"]

    recording: list[Graph] = []

    @contextlib.contextmanager
    def record(graph: Graph):  # type: ignore[no-untyped-def]
        recording.append(graph)
        yield
        recording.pop()

    def call(name: str) -> Callable[[int], None]:
        return lambda number: recording[-1].calls.append(f"{name}{number}") if recording else clock.log.append("call")

    def lead() -> None:
        clock.log[:] = ["lead"]

    monkeypatch.setattr(torch.cuda, "Event", clock.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    found = _timing.time_in_turns({"a": call("a"), "b": call("b")}, lead, rounds=3, warmup=1, replay_us=400.0)
    assert found == {"a": [100.0] * 3, "b": [100.0] * 3}
    assert replayed == ["a0", "b0", "b0", "a0"] * 2
