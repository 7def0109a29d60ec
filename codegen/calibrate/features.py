"""Conditions that a fitted rule may be made of: thresholds of M, K and waves, in the grammar of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..expr import CeilDiv, Name, format_int, names, walk
from ..ir import Layer
from .judge import Judged

Mask: TypeAlias = "npt.NDArray[np.bool_]"
Axis = Literal["M", "K", "waves"]
WAVES = tuple(map(Fraction, ("1/4", "1/3", "1/2", "2/3", "3/4", "1", "3/2", "2", "3", "4")))
"""Fractions of a wave that fitted thresholds may have; bounds of a measured region have the exact one."""


@dataclass(frozen=True, order=True)
class Term:
    """`name >= value` or `name <= value`; a waves term compares a count of blocks with a multiple of the SMs."""

    axis: Axis
    name: str
    op: Literal["<=", ">="]
    value: Fraction

    @property
    def text(self) -> str:
        """The conjunct, canonically."""
        if self.axis != "waves":
            return f"{self.name} {self.op} {format_int(int(self.value))}"
        left = self.name if self.value.denominator == 1 else f"{self.name} * {format_int(self.value.denominator)}"
        right = "num_sms" if self.value.numerator == 1 else f"num_sms * {format_int(self.value.numerator)}"
        return f"{left} {self.op} {right}"


def wave_facts(layer: Layer) -> list[str]:
    """Facts of a layer that count blocks: those that divide N by a tile width, possibly through another fact."""
    found: set[str] = set()
    for fact in layer.facts:
        divides = any(isinstance(n, CeilDiv) and n.name == Name("N") for n in walk(fact.expr))
        if divides or found & set(names(fact.expr)):
            found.add(fact.name)
    return [f.name for f in layer.facts if f.name in found and ("blocks" in f.name or len(found) == 1)]


class Space:
    """The cells of a fit as columns, and the terms that split them."""

    def __init__(self, cells: Sequence[Judged], layer: Layer) -> None:
        self.cells = cells
        self.facts = wave_facts(layer)
        self.values: dict[str, list[Fraction]] = {
            "M": [Fraction(c.choices.cell.M) for c in cells],
            "K": [Fraction(c.choices.cell.K) for c in cells],
        }
        for fact in self.facts:
            self.values[fact] = [Fraction(c.choices.env[fact], c.choices.cell.num_sms) for c in cells]
        self.parts = {
            name: (np.array([v.numerator for v in column]), np.array([v.denominator for v in column]))
            for name, column in self.values.items()
        }
        shapes = [c.choices.cell.shape for c in cells]
        self.order = sorted(set(shapes))
        self.shape = np.array([self.order.index(s) for s in shapes], np.int64)

    def mask(self, term: Term) -> Mask:
        """Cells in which the term holds."""
        above, below = self.parts[term.name]
        left, right = above * term.value.denominator, below * term.value.numerator
        return left <= right if term.op == "<=" else left >= right

    def all_of(self, terms: Iterable[Term]) -> Mask:
        mask = np.ones(len(self.cells), bool)
        for term in terms:
            mask &= self.mask(term)
        return mask

    def terms(self) -> list[tuple[Term, Mask]]:
        """Every threshold that splits the cells: at the values of M and K measured, at common fractions of a wave."""
        found = [self._threshold("M", "M", v) for v in sorted(set(self.values["M"]))]
        found += [self._threshold("K", "K", v) for v in sorted(set(self.values["K"]))]
        found += [self._threshold("waves", fact, v) for fact in self.facts for v in WAVES]
        flat = [t for pair in found for t in pair]
        masks = [(t, self.mask(t)) for t in flat]
        return [(t, mask) for t, mask in masks if mask.any() and not mask.all()]

    @staticmethod
    def _threshold(axis: Axis, name: str, value: Fraction) -> tuple[Term, Term]:
        return Term(axis, name, "<=", value), Term(axis, name, ">=", value)

    def bounds(self, mask: Mask, axes: Iterable[str], fact: str | None) -> list[Term]:
        """The smallest box around some cells. `axes` names sides: `M-` is the lower bound of M."""
        found = []
        for side in axes:
            axis, low = side[:-1], side[-1] == "-"
            name = fact if axis == "waves" else axis
            if name is None:
                continue
            column = [v for v, inside in zip(self.values[name], mask, strict=True) if inside]
            kind: Axis = "waves" if axis == "waves" else "M" if axis == "M" else "K"
            found.append(Term(kind, name, ">=" if low else "<=", min(column) if low else max(column)))
        return found


SIDES = ("M-", "M+", "waves-", "waves+", "K-", "K+")
"""Sides of the box in which a rule has been measured."""
