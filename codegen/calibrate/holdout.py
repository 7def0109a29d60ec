"""Rules that hold for a shape they were not fitted on: leave one shape out, and keep what survives it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir import FALLBACK, Layer
from .features import Space
from .fit import fit
from .judge import Judged
from .proposals import Ban, Candidate, Fitted, Guards

MAX_BANS = 8


@dataclass(frozen=True)
class HeldOut:
    """A shape that was left out of a fit, and what the rules fitted without it do to its cells."""

    shape: tuple[int, int]
    effects: Mapping[str, float]
    """Log gain by the cell's key."""
    possible: float
    """Mean proven log gain of the shape's cells."""

    @property
    def cells(self) -> int:
        return len(self.effects)

    @property
    def changed(self) -> int:
        return sum(e != 0 for e in self.effects.values())

    @property
    def gain(self) -> float:
        return sum(self.effects.values()) / len(self.effects)

    @property
    def worst(self) -> float:
        return min([0.0, *self.effects.values()])


def defended_fit(
    cells: Sequence[Judged], layer: Layer, guards: Guards, extend: Sequence[str] = ()
) -> tuple[Fitted, list[HeldOut]]:
    """A fit whose every rule survives leaving out a shape.

    A rule survives when at least half of the shapes in which it wins still gain where it wins, under the rules
    fitted without them. One that does not is named among the rejected, and the fit is made again without it.
    """
    held_out = leave_one_shape_out(cells, layer, guards)
    banned: dict[Ban, str] = {}
    fitted = fit(cells, layer, guards, extend)
    while (weak := _first_unsupported(fitted, cells, held_out)) is not None:
        rule = fitted.rules[weak]
        kept, shapes = support(rule, cells, held_out)
        reason = f"its gain is gone when a shape is left out: {kept} of {shapes} shapes keep one"
        if len(banned) >= MAX_BANS or rule.ban in banned:
            # Rules are found one after the other: those before the weak one stand without it.
            return replace(fitted, rules=fitted.rules[:weak]), held_out
        banned[rule.ban] = reason
        fitted = fit(cells, layer, guards, extend, banned)
    return fitted, held_out


def _first_unsupported(fitted: Fitted, cells: Sequence[Judged], held_out: Sequence[HeldOut]) -> int | None:
    for index, rule in enumerate(fitted.rules):
        kept, shapes = support(rule, cells, held_out)
        if 2 * kept < shapes:
            return index
    return None


def support(rule: Candidate, cells: Sequence[Judged], held_out: Sequence[HeldOut]) -> tuple[int, int]:
    """Shapes that keep a gain when left out, and shapes in which the rule wins."""
    ordered = sorted(cells, key=lambda c: c.choices.cell.key())
    effects = {h.shape: h.effects for h in held_out}
    kept: dict[tuple[int, int], float] = {}
    for index, cell in enumerate(ordered):
        if rule.changed[index] and rule.effect[index] > 0:
            at = cell.choices.cell
            kept[at.shape] = kept.get(at.shape, 0.0) + effects[at.shape][at.key()]
    return sum(gain > 0 for gain in kept.values()), len(kept)


def leave_one_shape_out(cells: Sequence[Judged], layer: Layer, guards: Guards) -> list[HeldOut]:
    """Fit without each shape in turn and apply the rules to it, without their bounds to the region measured.

    Rules of a single remaining shape are allowed, where two are asked for with all shapes.
    """
    found = []
    relaxed = replace(guards, min_shapes=max(1, guards.min_shapes - 1))
    for shape in sorted({c.choices.cell.shape for c in cells}):
        rest = [c for c in cells if c.choices.cell.shape != shape]
        kept = [c for c in cells if c.choices.cell.shape == shape]
        rules = fit(rest, layer, relaxed).rules if rest else ()
        effects = dict(zip((c.choices.cell.key() for c in kept), applied(rules, kept, layer), strict=True))
        found.append(HeldOut(shape, effects, sum(c.best[1] for c in kept) / len(kept)))
    return found


def applied(rules: Sequence[Candidate], cells: Sequence[Judged], layer: Layer) -> list[float]:
    """Log gain of each cell under a list of fitted rules; an outcome that was not measured there counts as none."""
    space = Space(cells, layer)
    masks = [space.all_of(r.terms) for r in rules]
    effects = []
    for index, cell in enumerate(cells):
        rule = next((r for r, mask in zip(rules, masks, strict=True) if mask[index]), None)
        outcome = None if rule is None else rule.outcome
        if rule is not None and rule.cap is not None and rule.cap < cell.choices.cell.M:
            outcome = FALLBACK
        gain = 0.0 if outcome is None else cell.gain(outcome)
        effects.append(0.0 if math.isnan(gain) else gain)
    return effects
