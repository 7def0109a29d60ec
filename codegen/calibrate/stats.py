"""Is the challenger faster? Decided by passes in fresh processes, against the noise of equals, or not decided."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import mean
from typing import Literal

import numpy as np

State = Literal["win", "loss", "no evidence"]
ALPHA = 0.05
MIN_PASSES = 5
"""Below this many passes not even a clean sweep passes the sign test at ALPHA."""
RESAMPLES = 4000


@dataclass(frozen=True)
class Verdict:
    """What the passes say about one challenger in one cell.

    `ratio` is the incumbent's time over the challenger's, geometric mean over passes; `low` and `high` bound it with
    confidence 1 - 2 * ALPHA by bootstrap over passes; `p` is that of the sign test, times the challengers compared.
    """

    state: State
    ratio: float
    low: float
    high: float
    ahead: int
    passes: int
    p: float
    noise: float
    reason: str


def noise_band(nulls: Iterable[float], floor: float) -> float:
    """How far apart equals are: the 95th percentile of |log| of the same-against-same ratios, at least `floor`."""
    logs = sorted(abs(math.log(n)) for n in nulls if _valid(n))
    if not logs:
        return floor
    return max(floor, float(np.quantile(np.array(logs), 0.95)))


def judge(ratios: Sequence[float], noise: float, *, compared: int = 1, alpha: float = ALPHA) -> Verdict:
    """Judge one challenger from its ratios, one a pass.

    It wins, or loses, when the sign test over passes holds at `alpha` after correction for the number of challengers
    compared, and the bootstrap bound of the mean lies beyond the noise. Everything else is no evidence.
    """
    logs = [math.log(r) for r in ratios if _valid(r)]
    if not logs:
        return Verdict("no evidence", 1.0, 1.0, 1.0, 0, 0, 1.0, noise, "no valid pass")
    centre = mean(logs)
    low, high = bootstrap(tuple(logs), alpha)
    ahead, behind = sum(v > 0 for v in logs), sum(v < 0 for v in logs)
    # A tie speaks for nobody: it stays among the trials.
    p = min(1.0, sign_test(max(ahead, behind), len(logs)) * compared)
    state, reason = _state(logs, low, high, p, noise, alpha)
    found = [round(math.exp(v), 4) for v in (centre, low, high)]
    return Verdict(state, found[0], found[1], found[2], ahead, len(logs), round(p, 6), round(noise, 5), reason)


def _state(logs: list[float], low: float, high: float, p: float, noise: float, alpha: float) -> tuple[State, str]:
    if len(logs) < MIN_PASSES:
        return "no evidence", f"{len(logs)} passes, {MIN_PASSES} are the least"
    if p > alpha:
        ahead = sum(v > 0 for v in logs)
        return "no evidence", f"ahead in {ahead} of {len(logs)} passes (sign test p = {p:.3g})"
    if low > noise:
        return "win", f"beyond the noise of {noise:.2%}"
    if high < -noise:
        return "loss", f"beyond the noise of {noise:.2%}"
    return "no evidence", f"bounds {math.exp(low):.3f} to {math.exp(high):.3f} do not clear the noise of {noise:.2%}"


def sign_test(successes: int, trials: int) -> float:
    """Probability of at least so many successes by chance."""
    if trials == 0:
        return 1.0
    return float(sum(math.comb(trials, k) for k in range(successes, trials + 1)) / 2**trials)


@lru_cache(maxsize=4096)
def bootstrap(logs: tuple[float, ...], alpha: float) -> tuple[float, float]:
    """Bounds of the mean, each with confidence 1 - alpha. The resampling is seeded: same data, same bounds."""
    values = np.array(logs)
    picks = _picks(len(logs))
    means = values[picks].mean(axis=1)
    return float(np.quantile(means, alpha)), float(np.quantile(means, 1 - alpha))


@lru_cache(maxsize=32)
def _picks(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.random.default_rng(20_260).integers(0, count, size=(RESAMPLES, count))


def _valid(ratio: float) -> bool:
    return math.isfinite(ratio) and ratio > 0
