"""What a fit proposes: outcomes with their effects on the cells, rules made of them, and those rejected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..ir import CUSTOM, FALLBACK, Layer, Value
from .features import Mask, Term
from .judge import Judged

Floats: TypeAlias = "npt.NDArray[np.float64]"
Ban: TypeAlias = "tuple[Value, int | None, bytes]"


@dataclass(frozen=True)
class Guards:
    """What a rule must satisfy. `term_cost` is what one term must bring, as geometric mean over all cells."""

    min_shapes: int = 2
    min_win_share: float = 0.8
    max_harm: float = 0.03
    term_cost: float = 0.0005


@dataclass(frozen=True)
class Candidate:
    """A rule with what it does to the cells it covers; `cap` is set in layers whose rules say `m_cap`."""

    outcome: Value
    terms: tuple[Term, ...]
    cap: int | None
    mask: Mask
    changed: Mask
    effect: Floats
    declined: Floats
    """What `custom` would bring above the cap; 0 elsewhere."""
    gain: float
    won: int
    shapes: int
    worst: float
    """Greatest proven loss of a cell, as log."""
    box: tuple[Term, ...] = ()
    """The region of the cells it changes."""
    stated: tuple[Term, ...] = ()
    """The sides of the box that the rule has as conditions."""
    within: str | None = None
    """The rule that decides all of these cells today: its conditions are this rule's too."""

    @property
    def measured(self) -> int:
        return int(self.changed.sum())

    @property
    def ban(self) -> Ban:
        """What makes it the same rule in another fit of the same cells: what it says, and which cells it changes."""
        return self.outcome, self.cap, self.changed.tobytes()

    @property
    def forgone(self) -> int:
        """Proven wins above a cap, which the rule leaves to the fallback."""
        return int((self.mask & (self.declined > 0)).sum())

    @property
    def text(self) -> str:
        cap = () if self.cap is None else (f"M <= {self.cap}",)
        return ", ".join((*(t.text for t in self.terms), *cap)) or "everywhere"


@dataclass(frozen=True)
class Rejection:
    """A rule that was not defended."""

    outcome: Value
    where: str
    reason: str
    gain: float
    measured: int


@dataclass(frozen=True)
class Fitted:
    rules: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]
    regret_before: float
    """Mean over cells of the log of incumbent over best."""
    regret_after: float


@dataclass(frozen=True)
class Column:
    """One thing a rule may say, with its effect on every cell."""

    outcome: Value
    cap: int | None
    effect: Floats
    same: Mask
    declined: Floats


def columns(cells: Sequence[Judged], layer: Layer) -> list[Column]:
    """Every outcome; in a layer of caps, `custom` up to every M measured and the fallback above it."""
    plain = {}
    for outcome in sorted({o for c in cells for o in c.choices.launches}, key=str):
        gains = np.array([c.gain(outcome) for c in cells])
        same = np.array([_same(c, outcome) for c in cells], bool)
        plain[outcome] = Column(outcome, None, gains, same, np.zeros(len(cells)))
    if layer.kind != "m_cap":
        return list(plain.values())
    rows = np.array([c.choices.cell.M for c in cells])
    nothing = np.zeros(len(cells))
    lacking = Column("", None, nothing + math.nan, nothing > 0, nothing)
    custom, other = plain.get(CUSTOM, lacking), plain.get(FALLBACK, lacking)
    found = []
    for cap in sorted(set(rows.tolist())):
        below = rows <= cap
        effect, same = np.where(below, custom.effect, other.effect), np.where(below, custom.same, other.same)
        declined = np.where(below, 0.0, np.nan_to_num(custom.effect))
        found.append(Column(CUSTOM, cap, effect, same, declined))
    return found


def _same(cell: Judged, outcome: Value) -> bool:
    return cell.choices.launches.get(outcome) == cell.choices.incumbent
