"""Times on a card between two events, in which nothing of the host counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

LEAD_BYTES = 256 << 20
"""Read in 60 to 80 us, which is longer than the host takes to hand over a graph, and several times the L2 cache."""
TRIED_CALLS = 3
MAX_CALLS = 48


class Lead:
    """Work in front of what is timed: the card reads until all of that is handed over, and the cache holds none of it.

    Without it the card waits for the host between the first event and the first kernel, some microseconds that come and
    go; and a replay finds what the one before it has left in the cache, more or less of it as their lengths differ.
    """

    def __init__(self, device: torch.device) -> None:
        self.read = torch.zeros(LEAD_BYTES // 4, device=device)
        self.sum = torch.zeros((), device=device)

    def __call__(self) -> None:
        torch.sum(self.read, dim=0, out=self.sum)


def elapsed(lead: Callable[[], object], run: Callable[[], object]) -> float:
    """Microseconds that the card takes for `run`, after `lead` was handed over and without waiting for it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    lead()
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end) * 1000)


def calls_of(call: Callable[[int], object], lead: Callable[[], object], replay_us: float) -> int:
    """Calls that take about `replay_us`, by what the rules choose.

    All candidates of a cell are timed with as many: each replay reads the same copies of the weight, and has the same
    share of what a replay takes by itself.
    """
    call(0)
    torch.cuda.synchronize()
    tried = elapsed(lead, lambda: [call(number) for number in range(TRIED_CALLS)])
    return max(2, min(MAX_CALLS, round(replay_us * TRIED_CALLS / tried)))


def time_in_turns(
    calls: Mapping[str, Callable[[int], object]],
    lead: Callable[[], object],
    rounds: int,
    warmup: int,
    replay_us: float,
) -> dict[str, list[float]]:
    """Microseconds a call, by name and round: one replay of a CUDA graph of about `replay_us`, over its calls.

    A call takes its number, by which it picks its copy of what must not stay in the cache. All take turns round by
    round, in reverse order on odd rounds, so that clocks and heat meet all alike.
    """
    graphs = {name: _graph(call, calls_of(call, lead, replay_us)) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for index in range(warmup + rounds):
        for name in list(graphs) if index % 2 == 0 else list(reversed(graphs)):
            graph, count = graphs[name]
            taken = elapsed(lead, graph.replay)
            if index >= warmup:
                samples[name].append(taken / count)
    return samples


def _graph(call: Callable[[int], object], count: int) -> tuple[torch.cuda.CUDAGraph, int]:
    """A graph of `count` calls."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(count):
            call(number)
    return graph, count
