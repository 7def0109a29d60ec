"""The smallest list of rules that takes most of the regret out of the measured cells, and what was rejected.

Sequential covering: the rule with the greatest gain less its cost in terms comes first, then the best of what is left.
A rule is sought by a beam over conjunctions of thresholds; every guard it fails is written down with what it would
have brought.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..ir import Layer
from .features import SIDES, Mask, Space, Term
from .judge import Judged
from .proposals import Ban, Candidate, Column, Fitted, Floats, Guards, Rejection, columns

BEAM = 24
MAX_TERMS = 4
MAX_RULES = 12
KEPT_REJECTED = 40


class Fitter:
    """Fits one layer to one table of cells."""

    def __init__(
        self,
        cells: Sequence[Judged],
        layer: Layer,
        guards: Guards,
        extend: Sequence[str],
        banned: Mapping[Ban, str],
    ) -> None:
        self.cells, self.layer, self.guards, self.extend, self.banned = cells, layer, guards, extend, banned
        self.space = Space(cells, layer)
        self.columns = columns(cells, layer)
        moves = np.array([~c.same for c in self.columns]).T.astype(float)
        effect = np.array([c.effect for c in self.columns]).T
        known = np.nan_to_num(effect)
        self.sums = {
            "gain": known * moves,
            "promise": np.maximum(known, 0) * moves,
            "unknown": np.isnan(effect) * moves,
            "harmed": (known < math.log1p(-guards.max_harm)) * moves,
            "won": (known > 0) * moves,
            "moved": moves,
        }
        self.best = np.array([c.best[1] for c in cells])
        self.masks = self.space.terms()
        self.rejected: dict[tuple[Any, ...], Rejection] = {}

    def fit(self) -> Fitted:
        left = np.ones(len(self.cells), bool)
        taken = np.zeros(len(self.cells))
        rules: list[Candidate] = []
        while left.any() and len(rules) < MAX_RULES and self.columns:
            rule = self._best_rule(left)
            if rule is None:
                break
            rule = self._bounded(rule)
            rules.append(rule)
            taken += np.where(rule.changed, rule.effect, 0.0)
            left &= ~rule.mask
        self._single_cells(left)
        order = sorted(self.rejected.values(), key=lambda r: (-r.gain, r.where, str(r.outcome)))
        count = max(1, len(self.cells))
        before, after = float(self.best.sum()) / count, float((self.best - taken).sum()) / count
        return Fitted(tuple(rules), tuple(order[:KEPT_REJECTED]), before, after)

    def _best_rule(self, left: Mask) -> Candidate | None:
        """The best rule over the cells left that passes every guard, by beam search over conjunctions."""
        best: tuple[float, Candidate] | None = None
        beam: list[tuple[tuple[Term, ...], Mask]] = [((), left)]
        seen = {left.tobytes()}
        for depth in range(MAX_TERMS + 1):
            if not beam:
                break
            totals = self._totals(beam)
            best = self._search(beam, totals, left, best)
            promise = totals["promise"].max(axis=1)
            order = sorted((-promise[i], len(beam[i][0]), beam[i][0], i) for i in range(len(beam)) if promise[i] > 0)
            kept = [beam[entry[3]] for entry in order[:BEAM]]
            beam = self._narrowed(kept, seen) if depth < MAX_TERMS else []
        return None if best is None else best[1]

    def _totals(self, beam: list[tuple[tuple[Term, ...], Mask]]) -> dict[str, Floats]:
        """Sums over the cells of each conjunction, a row a conjunction and a column an outcome."""
        masks = np.array([mask for _, mask in beam], float)
        return {name: masks @ table for name, table in self.sums.items()}

    def _search(
        self,
        beam: list[tuple[tuple[Term, ...], Mask]],
        totals: dict[str, Floats],
        left: Mask,
        best: tuple[float, Candidate] | None,
    ) -> tuple[float, Candidate] | None:
        size = np.array([1 + len(terms) for terms, _ in beam], float)[:, None]
        capped = np.array([c.cap is not None for c in self.columns], float)[None, :]
        score = totals["gain"] - self.guards.term_cost * len(self.cells) * (size + capped)
        plain = (totals["unknown"] == 0) & (totals["harmed"] == 0)
        plain &= totals["won"] >= self.guards.min_win_share * totals["moved"] - 1e-9
        names = [(str(c.outcome), c.cap or 0) for c in self.columns]
        for allowed in (~plain, plain):
            rows, columns = np.nonzero(allowed & (score > 0))
            pairs = zip(rows.tolist(), columns.tolist(), strict=True)
            ranked = sorted((-score[r, c], len(beam[r][0]), beam[r][0], names[c], r, c) for r, c in pairs)
            for entry in ranked if allowed is plain else ranked[:KEPT_REJECTED]:
                if best is not None and -entry[0] <= best[0] + 1e-12:
                    break
                terms, mask = beam[entry[4]]
                rule = self._candidate(terms, mask, self.columns[entry[5]])
                reason = self._objection(rule, left)
                if reason is None:
                    return -float(entry[0]), rule
                self._reject(rule, reason)
        return best

    def _narrowed(
        self, kept: list[tuple[tuple[Term, ...], Mask]], seen: set[bytes]
    ) -> list[tuple[tuple[Term, ...], Mask]]:
        beam = []
        for terms, mask in kept:
            for term, holds in self.masks:
                narrower = mask & holds
                key = narrower.tobytes()
                if narrower.any() and key not in seen:
                    seen.add(key)
                    beam.append(((*terms, term), narrower))
        return beam

    def _candidate(self, terms: tuple[Term, ...], mask: Mask, column: Column) -> Candidate:
        changed = mask & ~column.same
        effect = column.effect[changed]
        won = effect > 0
        return Candidate(
            outcome=column.outcome,
            terms=terms,
            cap=column.cap,
            mask=mask,
            changed=changed,
            effect=column.effect,
            declined=column.declined,
            gain=float(np.nansum(effect)),
            won=int(won.sum()),
            shapes=len(set(self.space.shape[changed][won].tolist())),
            worst=-math.inf if np.isnan(effect).any() else float(effect.min(initial=0.0)),
        )

    def _bounded(self, rule: Candidate) -> Candidate:
        """The rule kept to the region of the cells that it changes, on the sides that are not to be extended."""
        space, below = self.space, rule.changed
        if rule.cap is not None:
            below = rule.changed & np.array([rule.cap >= c.choices.cell.M for c in self.cells], bool)
            below = below if below.any() else rule.changed
        fact = next((t.name for t in rule.terms if t.axis == "waves"), space.facts[0] if space.facts else None)
        sides = [s for s in SIDES if s not in self.extend and not (rule.cap is not None and s[0] == "M")]
        stated = space.bounds(below, sides, fact)
        mask, within = rule.mask & space.all_of(stated), None
        deciding = {c.choices.rule.id for c, changed in zip(self.cells, rule.changed, strict=True) if changed}
        if rule.cap is None and len(deciding) == 1:
            within = next(iter(deciding))
            mask &= np.array([c.choices.rule.id == within for c in self.cells], bool)
        return replace(
            rule, mask=mask, changed=rule.changed & mask, box=tuple(space.bounds(below, SIDES, fact)),
            stated=tuple(stated), within=within,
        )  # fmt: skip

    def _objection(self, rule: Candidate, left: Mask) -> str | None:
        """Why a rule cannot be defended; None when it can."""
        guards = self.guards
        if rule.ban in self.banned:
            return self.banned[rule.ban]
        if rule.worst == -math.inf:
            return "it covers cells in which its outcome was not measured or failed"
        if rule.worst < math.log1p(-guards.max_harm):
            return f"it makes a measured cell slower: {math.exp(rule.worst):.3f} of today's speed"
        if rule.shapes < guards.min_shapes:
            return f"its wins are of {rule.shapes} shape{'s' * (rule.shapes != 1)}, {guards.min_shapes} are the least"
        if rule.won < guards.min_win_share * rule.measured:
            return (
                f"it wins in {rule.won} of {rule.measured} cells it changes, {guards.min_win_share:.0%} are the least"
            )
        for term in rule.terms:
            if term.axis != "M" and (shape := self._rests_on_one(rule, term, left)) is not None:
                return f"the bound {term.text} rests on one shape, {shape[0]}x{shape[1]}"
        return None

    def _rests_on_one(self, rule: Candidate, term: Term, left: Mask) -> tuple[int, int] | None:
        """The only shape with cells that the term keeps out and that would not have won, if there is just one."""
        without = left & self.space.all_of(t for t in rule.terms if t != term)
        kept_out = without & ~rule.mask & ~(rule.effect > 0)
        shapes = set(self.space.shape[kept_out].tolist())
        return self.space.order[shapes.pop()] if len(shapes) == 1 else None

    def _reject(self, rule: Candidate, reason: str) -> None:
        key = (rule.outcome, " ".join(reason.split()[:3]))
        found = self.rejected.get(key)
        if found is None or rule.gain > found.gain:
            self.rejected[key] = Rejection(rule.outcome, rule.text, reason, rule.gain, rule.measured)

    def _single_cells(self, left: Mask) -> None:
        """Proven wins that no rule took up: named, so that nobody has to look for them."""
        for cell, remains in zip(self.cells, left, strict=True):
            name, gain = cell.best
            if remains and gain > 0:
                reason = "a proven win that no defended rule covers"
                self.rejected["cell", cell.choices.cell.key()] = Rejection(
                    name, str(cell.choices.cell), reason, gain, 1
                )


def fit(
    cells: Sequence[Judged],
    layer: Layer,
    guards: Guards | None = None,
    extend: Sequence[str] = (),
    banned: Mapping[Ban, str] | None = None,
) -> Fitted:
    """Rules for the cells of one arch, one layer. The same cells give the same rules.

    Rules are kept to the region measured, but for the sides (`features.SIDES`) in `extend`. `banned` maps rules that
    were tried before to why they fell.
    """
    ordered = sorted(cells, key=lambda c: c.choices.cell.key())
    return Fitter(ordered, layer, guards or Guards(), extend, banned or {}).fit()
