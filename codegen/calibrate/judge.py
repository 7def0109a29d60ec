"""From the records of a campaign to a table: for every cell, what each outcome would gain or lose."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir import Value
from .candidates import Choices
from .records import Method, Pass
from .stats import Verdict, judge, noise_band


@dataclass(frozen=True)
class Judged:
    """One cell: verdicts by launch, and the reasons of those without one."""

    choices: Choices
    verdicts: dict[str, Verdict]
    """Launches re-run in fresh processes."""
    screened: dict[str, float]
    """Ratio of every launch in the screening pass."""
    rejected: dict[str, str]
    noise: float
    hot: dict[str, float] = field(default_factory=dict)
    """Ratio with the weights left in the cache, where that was measured."""

    def gain(self, outcome: Value) -> float:
        """Log of the speed-up that the outcome would bring; 0 without evidence, NaN where it was not measured."""
        launch = self.choices.launches.get(outcome)
        if launch is None or launch in self.rejected:
            return math.nan
        if launch == self.choices.incumbent:
            return 0.0
        found = self.verdicts.get(launch)
        if found is not None:
            return 0.0 if found.state == "no evidence" else math.log(found.ratio)
        if launch not in self.screened:
            return math.nan
        screened = math.log(self.screened[launch])
        return screened if screened < -self.noise else 0.0

    @property
    def best(self) -> tuple[str, float]:
        """The launch with the greatest proven gain, and that gain; the incumbent's is 0."""
        options = [(self.gain(o), n) for o, n in self.choices.launches.items()]
        proven = [(g, n) for g, n in options if not math.isnan(g)]
        gain, name = max([(0.0, self.choices.incumbent), *proven], key=lambda e: e[0])
        return name, gain


def contested(record: Pass, noise: float, method: Method) -> list[str]:
    """Challengers that a screening pass does not show to be slower, the fastest first."""
    close = [(r, n) for n, r in record.ratios.items() if math.log(r) > -noise]
    return [n for _, n in sorted(close, key=lambda e: (-e[0], e[1]))[: method.max_challengers]]


def campaign_noise(passes: Sequence[Pass], method: Method) -> float:
    """Noise of the whole campaign."""
    return noise_band([p.null for p in passes if p.null is not None], method.noise_floor)


def judge_cells(plan: Sequence[Choices], passes: Sequence[Pass], method: Method) -> list[Judged]:
    """The table, in the plan's order. Cells without a record are left out."""
    by_cell: dict[str, list[Pass]] = defaultdict(list)
    for record in passes:
        by_cell[record.cell.key()].append(record)
    general = campaign_noise([p for p in passes if p.mode == "rotated"], method)
    return [_judge(c, by_cell[c.cell.key()], general, method) for c in plan if by_cell.get(c.cell.key())]


def _judge(choice: Choices, passes: list[Pass], general: float, method: Method) -> Judged:
    cold = [p for p in passes if p.mode == "rotated" and p.incumbent == choice.incumbent]
    again = [p for p in cold if p.stage == "recheck"]
    screen = next((p for p in cold if p.stage == "screen"), None)
    noise = max(general, noise_band([p.null for p in again if p.null is not None], method.noise_floor))
    rejected = {n: r for p in cold for n, r in p.rejected.items()}
    names = dict.fromkeys(n for p in again for n in p.ratios if n not in rejected)
    verdicts = {
        n: judge([p.ratios[n] for p in again if n in p.ratios], noise, compared=len(names)) for n in names
    }  # fmt: skip
    screened = {n: r for n, r in screen.ratios.items() if n not in rejected} if screen else {}
    hot = {n: r for p in passes if p.mode == "hot" for n, r in p.ratios.items()}
    if choice.incumbent in rejected:
        verdicts, screened = {}, {}
    return Judged(choice, verdicts, screened, rejected, noise, hot)
