"""The closed expression grammar of rules: parse, print canonically, bound, evaluate.

    conjunct   = comparison | predicate | "not" predicate
    comparison = sum ("<"|"<="|"=="|"!="|">="|">") sum
    sum        = product { "+" product }
    product    = factor { "*" factor | "//" INT | "%" INT }        INT > 0
    factor     = INT | NAME | "ceil_div" "(" NAME "," INT ")"

All values are non-negative 64-bit integers; there is no minus, so `//` and `%` mean the same in Python and C++.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

INT64_MAX = 2**63 - 1
MAX_LENGTH = 400
"""Characters of an expression: evaluation recurses over its terms."""
CompareOp: TypeAlias = Literal["<", "<=", "==", "!=", ">=", ">"]


class ExprError(ValueError):
    """The text is not in the grammar. `offset` counts characters from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True)
class Int:
    value: int


@dataclass(frozen=True)
class Name:
    """An input, fact, predicate, earlier outcome (`tile_m`) or field of one (`tile.kc`)."""

    name: str


@dataclass(frozen=True)
class EnumWord:
    """A word of an enumeration, with its code; produced by name resolution, never by the parser."""

    word: str
    code: int


@dataclass(frozen=True)
class CeilDiv:
    name: Name
    divisor: int


@dataclass(frozen=True)
class Bin:
    """`left op right`; for `//` and `%` the right side is a positive Int."""

    op: Literal["+", "*", "//", "%"]
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Compare:
    op: CompareOp
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Pred:
    """A predicate by name, possibly negated."""

    name: str
    negated: bool = False


Expr: TypeAlias = "Int | Name | EnumWord | CeilDiv | Bin"
Cond: TypeAlias = "Compare | Pred"

_TOKEN = re.compile(
    r"\s*(?:(?P<int>[0-9][0-9_]*)|(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[a-z][a-z0-9_]*)?)"
    r"|(?P<op>//|<=|>=|==|!=|[+*%<>(),]))"
)
KEYWORDS = ("not", "ceil_div")


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise ExprError(f"an expression has at most {MAX_LENGTH} characters, this one has {len(text)}", 0)
        self.text = text
        self.tokens = list(self._tokenize(text))
        self.index = 0

    @staticmethod
    def _tokenize(text: str) -> Iterator[tuple[str, str, int]]:
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                at = position + len(text[position:]) - len(text[position:].lstrip())
                raise ExprError(f"'{text[at]}' is not part of the rule grammar", at)
            kind = str(match.lastgroup)
            yield kind, match.group(kind), match.start(kind)
            position = match.end()

    def peek(self) -> tuple[str, str, int]:
        if self.index < len(self.tokens):
            return self.tokens[self.index]
        return "end", "end of text", len(self.text)

    def take(self) -> tuple[str, str, int]:
        token = self.peek()
        self.index += 1
        return token

    def expect(self, word: str) -> None:
        _, text, offset = self.take()
        if text != word:
            raise ExprError(f"expected '{word}', found '{text}'", offset)

    def finish(self) -> None:
        kind, text, offset = self.peek()
        if kind != "end":
            raise ExprError(f"unexpected '{text}'", offset)

    def integer(self, *, positive: bool = False) -> int:
        kind, text, offset = self.take()
        if kind != "int":
            raise ExprError(f"expected an integer, found '{text}'", offset)
        if text.endswith("_") or "__" in text or (len(text) > 1 and text[0] == "0"):
            raise ExprError(f"'{text}' is not a decimal integer", offset)
        value = int(text)
        if value > INT64_MAX:
            raise ExprError(f"'{text}' does not fit in 63 bits", offset)
        if positive and value == 0:
            raise ExprError("the divisor must be greater than 0", offset)
        return value

    def name(self) -> Name:
        kind, text, offset = self.take()
        if kind != "name" or text in KEYWORDS:
            raise ExprError(f"expected a name, found '{text}'", offset)
        return Name(text)

    def factor(self) -> Expr:
        kind, text, _ = self.peek()
        if kind == "int":
            return Int(self.integer())
        if text == "ceil_div":
            self.take()
            self.expect("(")
            name = self.name()
            self.expect(",")
            divisor = self.integer(positive=True)
            self.expect(")")
            return CeilDiv(name, divisor)
        return self.name()

    def product(self) -> Expr:
        left = self.factor()
        while self.peek()[1] in ("*", "//", "%"):
            op = self.take()[1]
            if op == "*":
                left = Bin("*", left, self.factor())
            else:
                left = Bin("//" if op == "//" else "%", left, Int(self.integer(positive=True)))
        return left

    def sum(self) -> Expr:
        left = self.product()
        while self.peek()[1] == "+":
            self.take()
            left = Bin("+", left, self.product())
        return left

    def conjunct(self) -> Cond:
        if self.peek()[1] == "not":
            self.take()
            return Pred(self.name().name, negated=True)
        left = self.sum()
        _, text, offset = self.peek()
        if text in COMPARE:
            self.take()
            return Compare(text, left, self.sum())  # type: ignore[arg-type]
        if isinstance(left, Name):
            return Pred(left.name)
        raise ExprError(f"expected a comparison, found '{text}'", offset)


def parse_expr(text: str) -> Expr:
    """Parse a sum (the right side of a fact). Raises ExprError."""
    parser = _Parser(text)
    result = parser.sum()
    parser.finish()
    return result


@lru_cache(maxsize=4096)
def parse_cond(text: str) -> Cond:
    """Parse one conjunct. A bare name is a predicate. Raises ExprError. Tiles ask for the same texts many times."""
    parser = _Parser(text)
    result = parser.conjunct()
    parser.finish()
    return result


def format_int(value: int) -> str:
    """Decimal, grouped by underscores from 10_000 on."""
    return f"{value:_}" if value >= 10_000 else str(value)


def format_node(node: Expr | Cond) -> str:
    """The canonical text; parsing it gives the same node again."""
    if isinstance(node, Int):
        return format_int(node.value)
    if isinstance(node, Name):
        return node.name
    if isinstance(node, EnumWord):
        return node.word
    if isinstance(node, CeilDiv):
        return f"ceil_div({node.name.name}, {format_int(node.divisor)})"
    if isinstance(node, Pred):
        return f"not {node.name}" if node.negated else node.name
    return f"{format_node(node.left)} {node.op} {format_node(node.right)}"


def walk(node: Expr | Cond) -> Iterator[Expr | Cond]:
    """The node and everything below it, left to right."""
    yield node
    if isinstance(node, (Bin, Compare)):
        yield from walk(node.left)
        yield from walk(node.right)
    elif isinstance(node, CeilDiv):
        yield node.name


def names(node: Expr | Cond) -> tuple[str, ...]:
    """Every name used, in order of appearance, predicates included."""
    if isinstance(node, (Name, Pred)):
        return (node.name,)
    if isinstance(node, (Bin, Compare)):
        return names(node.left) + names(node.right)
    return (node.name.name,) if isinstance(node, CeilDiv) else ()


def map_names(node: Expr, change: Callable[[Name], Expr]) -> Expr:
    """The expression with each free-standing Name replaced. Names inside ceil_div stay names."""
    if isinstance(node, Name):
        return change(node)
    if isinstance(node, Bin):
        return Bin(node.op, map_names(node.left, change), map_names(node.right, change))
    return node


def evaluate_expr(node: Expr, env: Mapping[str, Any]) -> Any:
    """The value, over ints or numpy int64 arrays alike. `env` maps every name used."""
    if isinstance(node, Int):
        return node.value
    if isinstance(node, Name):
        return env[node.name]
    if isinstance(node, EnumWord):
        return node.code
    if isinstance(node, CeilDiv):
        return (env[node.name.name] + (node.divisor - 1)) // node.divisor
    left = evaluate_expr(node.left, env)
    right = evaluate_expr(node.right, env)
    if node.op == "+":
        return left + right
    if node.op == "*":
        return left * right
    return left // right if node.op == "//" else left % right


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}


def interval(node: Expr, bounds: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Least and greatest value for names within `bounds` (inclusive); may pass 63 bits, the caller checks."""
    if isinstance(node, Int):
        return node.value, node.value
    if isinstance(node, Name):
        return bounds[node.name]
    if isinstance(node, EnumWord):
        return node.code, node.code
    if isinstance(node, CeilDiv):
        low, high = bounds[node.name.name]
        return -(-low // node.divisor), -(-high // node.divisor)
    left, right = interval(node.left, bounds), interval(node.right, bounds)
    if node.op == "+":
        return left[0] + right[0], left[1] + right[1]
    if node.op == "*":
        return left[0] * right[0], left[1] * right[1]
    divisor = right[0]
    if node.op == "//":
        return left[0] // divisor, left[1] // divisor
    return (left[0], left[1]) if left[1] < divisor else (0, divisor - 1)


def largest_intermediate(node: Expr, bounds: Mapping[str, tuple[int, int]]) -> int:
    """The greatest value any step of the evaluation can take, ceil_div's addition included."""
    best = interval(node, bounds)[1]
    if isinstance(node, CeilDiv):
        best = max(best, bounds[node.name.name][1] + node.divisor - 1)
    if isinstance(node, Bin):
        best = max(best, largest_intermediate(node.left, bounds), largest_intermediate(node.right, bounds))
    return best
