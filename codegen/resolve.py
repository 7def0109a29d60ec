"""From models to IR: parses every expression, binds every name, reports what cannot be bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .diagnostics import Location, Sink, did_you_mean
from .expr import (
    INT64_MAX,
    Compare,
    Cond,
    EnumWord,
    Expr,
    ExprError,
    Name,
    Pred,
    format_node,
    interval,
    largest_intermediate,
    names,
    parse_cond,
    parse_expr,
)
from .ir import AnyCond, Fact, Input, Predicate
from .loader import Document, ValuePath


@dataclass
class Scope:
    """Names a layer may use at this point, and what is known of each."""

    bounds: dict[str, tuple[int, int]] = field(default_factory=dict)
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    predicates: dict[str, Location] = field(default_factory=dict)
    later: set[str] = field(default_factory=set)

    def child(self) -> Scope:
        return Scope(dict(self.bounds), dict(self.words), dict(self.predicates), set(self.later))

    @property
    def values(self) -> set[str]:
        return set(self.bounds) | set(self.words)


def input_scope(inputs: Sequence[Input]) -> Scope:
    """The scope of a family's inputs alone."""
    scope = Scope()
    for item in inputs:
        if item.is_enum:
            scope.words[item.name] = item.words
        else:
            scope.bounds[item.name] = (1, item.limit)
    return scope


def syntax_hint(error: ExprError) -> str:
    """What to do about a text outside the grammar."""
    if "','" in str(error):
        return "a comma ends an item of a [...] list in YAML: quote the conjunct, or name a fact and use it"
    return "`tilewright explain-code E300` shows the grammar"


class Resolver:
    """Parses and binds the expressions of one document."""

    def __init__(self, document: Document, sink: Sink) -> None:
        self.document = document
        self.sink = sink

    def fact(self, name: str, text: str, path: ValuePath, scope: Scope) -> Fact | None:
        """Resolve a fact and add it to the scope."""
        place = self.document.locate(path)
        try:
            expr = parse_expr(text)
        except ExprError as error:
            self._syntax(error, place)
            return None
        self._canonical(text, format_node(expr), place)
        if not self._integers(expr, scope, place):
            return None
        if not self._fits(expr, scope, place):
            return None
        scope.bounds[name] = interval(expr, scope.bounds)
        return Fact(name, expr, place)

    def predicate(
        self, name: str, terms: Sequence[tuple[str | tuple[str, ...], ValuePath]], place: Location, scope: Scope
    ) -> Predicate:
        """Resolve a predicate, given as texts or tuples of texts (`any:`), and add it to the scope."""
        resolved: list[Cond | AnyCond] = []
        for text, path in terms:
            if isinstance(text, tuple):
                conds = [self.cond(t, (*path, "any", i), scope) for i, t in enumerate(text)]
                resolved.append(AnyCond(tuple(c for c in conds if c is not None)))
            elif (cond := self.cond(text, path, scope)) is not None:
                resolved.append(cond)
        scope.predicates[name] = place
        return Predicate(name, tuple(resolved), place)

    def conds(self, texts: Sequence[str] | str, path: ValuePath, scope: Scope) -> tuple[Cond, ...]:
        """Resolve a `when` list (or a single string)."""
        if isinstance(texts, str):
            found = [self.cond(texts, path, scope)]
        else:
            found = [self.cond(text, (*path, i), scope) for i, text in enumerate(texts)]
        return tuple(c for c in found if c is not None)

    def cond(self, text: str, path: ValuePath, scope: Scope) -> Cond | None:
        """Resolve one conjunct; None (with a finding) when it cannot be."""
        place = self.document.locate(path)
        try:
            cond = parse_cond(text)
        except ExprError as error:
            self._syntax(error, place)
            return None
        self._canonical(text, format_node(cond), place)
        if isinstance(cond, Pred):
            return self._pred(cond, scope, place)
        return self._compare(cond, scope, place)

    def _pred(self, cond: Pred, scope: Scope, place: Location) -> Pred | None:
        if cond.name in scope.predicates:
            return cond
        if cond.name in scope.values:
            self.sink.add("E301", place, f"'{cond.name}' is a value, not a predicate.", f"compare it: {cond.name} > 0")
        else:
            self._unknown(cond.name, scope, place, scope.predicates)
        return None

    def _compare(self, cond: Compare, scope: Scope, place: Location) -> Compare | None:
        for side, other in ((cond.left, cond.right), (cond.right, cond.left)):
            if isinstance(side, Name) and side.name in scope.words:
                return self._enum_compare(cond, side, other, scope, place)
        if not self._integers(cond.left, scope, place) or not self._integers(cond.right, scope, place):
            return None
        if not self._fits(cond.left, scope, place) or not self._fits(cond.right, scope, place):
            return None
        return cond

    def _enum_compare(self, cond: Compare, side: Name, other: Expr, scope: Scope, place: Location) -> Compare | None:
        words = scope.words[side.name]
        if cond.op not in ("==", "!="):
            self.sink.add("E301", place, f"'{side.name}' is an enumeration; only == and != compare it.")
            return None
        if side is not cond.left or not isinstance(other, Name) or other.name not in words:
            text = format_node(other)
            if text in words:
                hint = f"write it as: {side.name} {cond.op} {text}"
                self.sink.add("E301", place, f"the word '{text}' stands on the left of '{side.name}'.", hint)
            else:
                hint = did_you_mean(text, words) or f"words of '{side.name}': {', '.join(words)}"
                self.sink.add("E301", place, f"'{text}' is not a word of '{side.name}'.", hint)
            return None
        return Compare(cond.op, side, EnumWord(other.name, words.index(other.name)))

    def _integers(self, expr: Expr, scope: Scope, place: Location) -> bool:
        good = True
        for name in names(expr):
            if name in scope.bounds:
                continue
            good = False
            if name in scope.words:
                self.sink.add("E301", place, f"'{name}' is an enumeration and has no integer value.")
            else:
                self._unknown(name, scope, place, scope.bounds)
        return good

    def _unknown(self, name: str, scope: Scope, place: Location, wanted: Mapping[str, object]) -> None:
        if name in scope.later:
            self.sink.add("E302", place, f"'{name}' is used before it is defined.", "only earlier names can be used")
            return
        hint = did_you_mean(name, wanted) or did_you_mean(name, scope.values | set(scope.predicates))
        self.sink.add("E301", place, f"'{name}' is not known here.", hint)

    def _fits(self, expr: Expr, scope: Scope, place: Location) -> bool:
        greatest = largest_intermediate(expr, scope.bounds)
        if greatest <= INT64_MAX:
            return True
        self.sink.add(
            "E303",
            place,
            f"'{format_node(expr)}' can reach {greatest}; 63 bits hold {INT64_MAX}.",
            "lower the family's limits or divide first",
        )
        return False

    def _canonical(self, text: str, printed: str, place: Location) -> None:
        if text != printed:
            self.sink.add("E304", place, f"'{text}' is not in canonical form.", f"write it as: {printed}")

    def _syntax(self, error: ExprError, place: Location) -> None:
        at = Location(place.path, place.line, place.column + error.offset)
        self.sink.add("E300", at, f"{error}.", syntax_hint(error))
