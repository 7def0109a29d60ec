"""Integer terms for z3 in which only linear arithmetic occurs: quotients and products are named and described.

`x // c` becomes a fresh q with `0 <= x - c * q < c`, which is exact. `x * y` becomes a fresh P with facts that are
true of the product but do not define it; `Product.lemmas_at` adds more of them around a model that gets it wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import gcd
from typing import Any, TypeAlias

Z3Int: TypeAlias = Any
Z3Bool: TypeAlias = Any


class MissingSolverError(RuntimeError):
    """z3 is not installed."""


def import_z3() -> Any:
    """The z3 module. Raises MissingSolverError with one line that says how to get it."""
    try:
        import z3
    except ImportError:
        raise MissingSolverError("proving needs the z3 solver: pip install tilewright[prove]") from None
    return z3


def conj(z3: Any, parts: Iterable[Z3Bool]) -> Z3Bool:
    """All of them; no part at all is true."""
    kept: list[Z3Bool] = []
    for part in parts:
        if z3.is_false(part):
            return part
        if not z3.is_true(part):
            kept.append(part)
    return z3.And(kept) if len(kept) > 1 else kept[0] if kept else z3.BoolVal(True)


def disj(z3: Any, parts: Iterable[Z3Bool]) -> Z3Bool:
    """Any of them; no part at all is false."""
    kept: list[Z3Bool] = []
    for part in parts:
        if z3.is_true(part):
            return part
        if not z3.is_false(part):
            kept.append(part)
    return z3.Or(kept) if len(kept) > 1 else kept[0] if kept else z3.BoolVal(False)


def negate(z3: Any, part: Z3Bool) -> Z3Bool:
    """Not, without a node over a constant."""
    if z3.is_true(part) or z3.is_false(part):
        return z3.BoolVal(z3.is_false(part))
    return z3.Not(part)


@dataclass(frozen=True)
class Term:
    """An integer with bounds that hold in every model. `expr` is a Python int where the value is known."""

    expr: Z3Int
    low: int
    high: int

    @property
    def is_constant(self) -> bool:
        return self.low == self.high


def constant(value: int) -> Term:
    return Term(value, value, value)


@dataclass(frozen=True)
class Product:
    """`value` stands for `x * y`."""

    x: Term
    y: Term
    value: Z3Int

    def shares(self, other: Product) -> tuple[Z3Int, Z3Int] | None:
        """The two other factors when one factor is the same."""
        for mine, rest in ((self.x, self.y), (self.y, self.x)):
            for its, its_rest in ((other.x, other.y), (other.y, other.x)):
                if mine.expr.eq(its.expr):
                    return rest.expr, its_rest.expr
        return None


@dataclass
class Space:
    """The integers of one query and what is known of them. `facts` hold in every model."""

    z3: Any
    facts: list[Z3Bool] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    _names: int = 0
    _quotients: dict[tuple[int, int, int], Term] = field(default_factory=dict)
    _products: dict[tuple[int, int], Term] = field(default_factory=dict)

    def integer(self, name: str, low: int, high: int) -> Term:
        """A new integer within bounds."""
        if low == high:
            return constant(low)
        value = self.z3.Int(name)
        self.facts += [value >= low, value <= high]
        return Term(value, low, high)

    def _fresh(self, prefix: str, low: int, high: int) -> Term:
        self._names += 1
        return self.integer(f"{prefix}!{self._names}", low, high)

    def add(self, a: Term, b: Term) -> Term:
        return Term(a.expr + b.expr, a.low + b.low, a.high + b.high)

    def scale(self, a: Term, factor: int) -> Term:
        if factor == 0:
            return constant(0)
        return a if factor == 1 else Term(a.expr * factor, a.low * factor, a.high * factor)

    def quotient(self, a: Term, divisor: int, offset: int = 0) -> Term:
        """(a + offset) // divisor."""
        if a.is_constant:
            return constant((a.low + offset) // divisor)
        if divisor == 1 and offset == 0:
            return a
        key = (a.expr.get_id(), divisor, offset)
        if key not in self._quotients:
            low, high = (a.low + offset) // divisor, (a.high + offset) // divisor
            q = self._fresh("q", low, high)
            rest = a.expr + offset - divisor * q.expr
            self.facts += [rest >= 0, rest < divisor]
            self._quotients[key] = q
        return self._quotients[key]

    def remainder(self, a: Term, divisor: int) -> Term:
        if a.is_constant:
            return constant(a.low % divisor)
        if a.high < divisor:
            return a
        q = self.quotient(a, divisor)
        return Term(a.expr - divisor * q.expr, 0, divisor - 1)

    def multiply(self, a: Term, b: Term) -> Term:
        """a * b, exact when one of them is a constant."""
        if a.is_constant or b.is_constant:
            known, other = (a, b) if a.is_constant else (b, a)
            return self.scale(other, known.low) if not other.is_constant else constant(a.low * b.low)
        if a.expr.get_id() > b.expr.get_id():
            a, b = b, a
        key = (a.expr.get_id(), b.expr.get_id())
        if key not in self._products:
            p = self._fresh("p", a.low * b.low, a.high * b.high)
            self.facts += list(_envelope(a, b, p.expr))
            self.products.append(Product(a, b, p.expr))
            self._products[key] = p
        return self._products[key]


def _envelope(a: Term, b: Term, p: Z3Int) -> Iterator[Z3Bool]:
    """The four planes that bound a product over a box."""
    x, y = a.expr, b.expr
    yield p >= b.low * x + a.low * y - a.low * b.low
    yield p >= b.high * x + a.high * y - a.high * b.high
    yield p <= b.low * x + a.high * y - a.high * b.low
    yield p <= b.high * x + a.low * y - a.low * b.high


def value_of(model: Any, expr: Z3Int) -> int:
    """The integer an expression has in a model; unmentioned variables count as 0."""
    return int(model.eval(expr, model_completion=True).as_long())


def lemmas_at(space: Space, model: Any) -> list[Z3Bool]:
    """True statements about the products that rule this model out, unless it multiplies correctly everywhere."""
    rows = [(p, value_of(model, p.x.expr), value_of(model, p.y.expr), value_of(model, p.value)) for p in space.products]
    found: list[Z3Bool] = []
    for product, x, y, value in rows:
        if value != x * y:
            found += _tangents(space.z3, product, x, y)
    for index, row in enumerate(rows):
        for other in rows[index + 1 :]:
            found += _ratios(space.z3, model, row, other)
            found += _orders(space.z3, row, other)
            found += _orders(space.z3, other, row)
    return found


def _tangents(z3: Any, product: Product, x: int, y: int) -> Iterable[Z3Bool]:
    """Exact on the two lines through (x, y), and on the right side of its tangent plane elsewhere."""
    px, py, p = product.x.expr, product.y.expr, product.value
    plane = y * px + x * py - x * y
    yield z3.Implies(px == x, p == x * py)
    yield z3.Implies(py == y, p == y * px)
    yield z3.Implies(z3.Or(z3.And(px <= x, py >= y), z3.And(px >= x, py <= y)), p <= plane)
    yield z3.Implies(z3.Or(z3.And(px <= x, py <= y), z3.And(px >= x, py >= y)), p >= plane)


Row: TypeAlias = tuple[Product, int, int, int]


def _ratios(z3: Any, model: Any, one: Row, two: Row) -> Iterable[Z3Bool]:
    """a * y and b * y stand in the ratio of a and b."""
    rest = one[0].shares(two[0])
    if rest is None:
        return
    a, b = value_of(model, rest[0]), value_of(model, rest[1])
    divisor = gcd(a, b) or 1
    a, b = a // divisor, b // divisor
    if b * one[3] != a * two[3]:
        left, right = b * rest[0], a * rest[1]
        yield z3.Implies(left <= right, b * one[0].value <= a * two[0].value)
        yield z3.Implies(left >= right, b * one[0].value >= a * two[0].value)


_SCALES = (1, 2, 3, 4, 8)


def _orders(z3: Any, one: Row, two: Row) -> Iterable[Z3Bool]:
    """x1 <= c * x2 and y1 <= d * y2 give x1 * y1 <= c * d * x2 * y2, for small c and d, both ways round."""
    product, x1, y1, value = one
    other, x2, y2, its_value = two
    for ox, oy, vx, vy in ((other.x, other.y, x2, y2), (other.y, other.x, y2, x2)):
        c = next((s for s in _SCALES if x1 <= s * vx), None)
        d = next((s for s in _SCALES if y1 <= s * vy), None)
        if c is not None and d is not None and value > c * d * its_value:
            premise = z3.And(product.x.expr <= c * ox.expr, product.y.expr <= d * oy.expr)
            yield z3.Implies(premise, product.value <= c * d * other.value)
