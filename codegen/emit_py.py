"""Rule IR to Python text."""

from __future__ import annotations

from .emit_cpp import identifier
from .expr import Bin, CeilDiv, Compare, Cond, EnumWord, Expr, Int, Name, Pred, format_int
from .ir import AnyCond


def expr(node: Expr) -> str:
    """A Python expression over ints."""
    if isinstance(node, Int):
        return format_int(node.value)
    if isinstance(node, Name):
        return identifier(node.name)
    if isinstance(node, EnumWord):
        return str(node.code)
    if isinstance(node, CeilDiv):
        return f"(({identifier(node.name.name)} + {node.divisor - 1}) // {node.divisor})"
    assert isinstance(node, Bin)
    return f"{expr(node.left)} {node.op} {expr(node.right)}"


def cond(node: Cond | AnyCond) -> str:
    """A Python condition; predicates are bool variables of their own name."""
    if isinstance(node, AnyCond):
        return "(" + " or ".join(cond(c) for c in node.conds) + ")"
    if isinstance(node, Pred):
        return f"not {identifier(node.name)}" if node.negated else identifier(node.name)
    assert isinstance(node, Compare)
    return f"{expr(node.left)} {node.op} {expr(node.right)}"


def conjunction(nodes: tuple[Cond | AnyCond, ...]) -> str:
    """All of them; `True` when there are none."""
    return " and ".join(cond(n) for n in nodes) or "True"
