"""Mutants of a Python module: one small change each, such as a comparison turned round, a constant moved by one, a
statement left out. Texts, annotations and imports are left alone.

The name of a mutant says what is changed and where; which are tried is chosen by a hash of the name, so that an edit
elsewhere in the file does not choose others.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARE: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Div: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A changed module."""

    name: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """All of them, in the order of the file."""
    tree = ast.parse(source)
    places = [(node, path) for node, path in _walk(tree, "")]
    counts: dict[str, int] = {}
    for index, (node, path) in enumerate(places):
        for what, change in _changes(node):
            other = copy.deepcopy(tree)
            change([n for n, _ in _walk(other, "")][index])
            ast.fix_missing_locations(other)
            name = f"{path}: {what}"
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > 1:
                name += f" ({counts[name]})"
            yield Mutant(name, ast.unparse(other))


def chosen(module: str, source: str, count: int) -> list[Mutant]:
    """A stable sample, in the order of the file."""
    found = list(mutants(source))
    picked = sorted(found, key=lambda m: hashlib.sha256(f"{module}/{m.name}".encode()).digest())[:count]
    return [m for m in found if m in picked]


def _walk(node: ast.AST, path: str) -> Iterator[tuple[ast.AST, str]]:
    """Nodes that may be changed, with the function they stand in."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
                continue
            inner = path
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                inner = f"{path}.{child.name}".lstrip(".")
            yield child, inner or "module"
            yield from _walk(child, inner)


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    """What may be done to a node: a text that names the change, and the change."""
    yield from _changes_of_values(node)
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield f"if {ast.unparse(node.test)} -> inverted", _invert
    elif isinstance(node, (ast.Raise, ast.Continue, ast.Break)) or _is_effect(node):
        yield f"{ast.unparse(node).splitlines()[0][:80]} -> left out", _leave_out
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield f"{ast.unparse(node)[:80]} -> None", _return_none


def _changes_of_values(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            if type(op) in COMPARE:
                yield f"{ast.unparse(node)} -> {COMPARE[type(op)].__name__}", _set_op(at)
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
        if not _is_text(node):
            yield f"{ast.unparse(node)} -> {ARITHMETIC[type(node.op)].__name__}", _set_arithmetic
    elif isinstance(node, ast.BoolOp):
        other = "or" if isinstance(node.op, ast.And) else "and"
        yield f"{ast.unparse(node)} -> {other}", _set_bool
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"{ast.unparse(node)} -> without not", _drop_not
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        yield f"{node.value} -> another", _set_constant


def _is_text(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether texts are joined, as far as that can be seen."""
    return any(isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and isinstance(n.value, str))
               for n in ast.walk(node))  # fmt: skip


def _is_effect(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _set_op(at: int) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[at] = COMPARE[type(node.ops[at])]()

    return change


def _set_arithmetic(node: ast.AST) -> None:
    assert isinstance(node, (ast.BinOp, ast.AugAssign))
    node.op = ARITHMETIC[type(node.op)]()


def _set_bool(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _drop_not(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    # `not x` becomes `not not x`: the truth of x.
    node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _invert(node: ast.AST) -> None:
    assert isinstance(node, (ast.If, ast.IfExp, ast.While))
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _set_constant(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant)
    node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1


def _leave_out(node: ast.AST) -> None:
    """The node itself becomes `pass`."""
    node.__class__ = ast.Pass
    node.__dict__.clear()
    node.__dict__.update(lineno=1, col_offset=0)


def _return_none(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)
