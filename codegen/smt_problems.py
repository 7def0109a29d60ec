"""The problems that a query of z3 ranges over: one integer for each input."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from .ir import Family, Input
from .smt_space import Space, Term, Z3Int

Problem: TypeAlias = dict[str, "int | str"]


@dataclass
class Problems:
    """The set of problems a query ranges over. An enumerated input is an index into its words."""

    space: Space
    terms: dict[str, Term]
    words: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, space: Space, families: Iterable[Family], suffix: str = "") -> Problems:
        """Everything that all the families accept: the smaller limit, the words in common."""
        merged: dict[str, Input] = {}
        for item in (i for f in families for i in f.inputs):
            merged[item.name] = _common(merged.get(item.name, item), item)
        terms, words = {}, {}
        for item in merged.values():
            if item.is_enum:
                words[item.name] = item.words
                terms[item.name] = space.integer(item.name + suffix, 0, len(item.words) - 1)
            else:
                terms[item.name] = space.integer(item.name + suffix, 1, item.limit)
        return cls(space, terms, words)

    def read(self, value: Callable[[Z3Int], int]) -> Problem:
        """The problem that a model describes."""
        found: Problem = {}
        for name, term in self.terms.items():
            number = term.low if term.is_constant else value(term.expr)
            found[name] = self.words[name][number] if name in self.words else number
        return found


def _common(a: Input, b: Input) -> Input:
    if a.is_enum:
        return Input(a.name, words=tuple(w for w in a.words if w in b.words))
    return Input(a.name, min(a.limit, b.limit))
