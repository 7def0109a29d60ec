"""Time between two events on a card in which nothing of the host counts."""

from __future__ import annotations

from collections.abc import Callable

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
