"""Rule IR to C++ text. With emit_py, the only place that knows the syntax of a target language."""

from __future__ import annotations

import keyword

from .expr import Bin, CeilDiv, Compare, Cond, EnumWord, Expr, Int, Name, Pred
from .ir import AnyCond

RESERVED = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "and_eq",
        "asm",
        "auto",
        "bitand",
        "bitor",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "char16_t",
        "char32_t",
        "char8_t",
        "class",
        "co_await",
        "co_return",
        "co_yield",
        "compl",
        "concept",
        "const",
        "const_cast",
        "consteval",
        "constexpr",
        "constinit",
        "continue",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "dynamic_cast",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "int64_t",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "not_eq",
        "nullptr",
        "operator",
        "or",
        "or_eq",
        "private",
        "protected",
        "public",
        "register",
        "reinterpret_cast",
        "requires",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "static_assert",
        "static_cast",
        "struct",
        "switch",
        "template",
        "this",
        "thread_local",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "xor",
        "xor_eq",
        "arch",
        "problem",
        "decision",
        "rule",
    ]
)


def identifier(name: str) -> str:
    """A C++ (and Python) identifier for a name of the specs; `tile.kc` becomes `tile_kc`."""
    text = name.replace(".", "_")
    return f"{text}_" if text in RESERVED or keyword.iskeyword(text) else text


def enumerator(text: str) -> str:
    """`simt-1` to `kSimt_1`, `32x64-64` to `k32x64_64`, `f16` to `kF16`."""
    clean = "".join(c if c.isalnum() else "_" for c in text)
    return f"k{clean[:1].upper()}{clean[1:]}"


def camel(text: str) -> str:
    """`warps_m` to `WarpsM`."""
    return "".join(part[:1].upper() + part[1:] for part in text.split("_"))


def expr(node: Expr) -> str:
    """A C++ expression over int64_t. The tree is left-deep, so no parentheses are needed but ceil_div's."""
    if isinstance(node, Int):
        return str(node.value)
    if isinstance(node, Name):
        return identifier(node.name)
    if isinstance(node, EnumWord):
        return f"{node.code} /* {node.word} */"
    if isinstance(node, CeilDiv):
        return f"(({identifier(node.name.name)} + {node.divisor - 1}) / {node.divisor})"
    assert isinstance(node, Bin)
    op = "/" if node.op == "//" else node.op
    left = expr(node.left)
    if isinstance(node.left, Int) and isinstance(node.right, Int):
        left = f"int64_t{{{left}}}"  # two literals alone would be computed in 32 bits
    return f"{left} {op} {expr(node.right)}"


def cond(node: Cond | AnyCond) -> str:
    """A C++ condition; predicates are bool variables of their own name."""
    if isinstance(node, AnyCond):
        return "(" + " || ".join(cond(c) for c in node.conds) + ")"
    if isinstance(node, Pred):
        return f"!{identifier(node.name)}" if node.negated else identifier(node.name)
    assert isinstance(node, Compare)
    return f"{expr(node.left)} {node.op} {expr(node.right)}"


def conjunction(nodes: tuple[Cond | AnyCond, ...]) -> str:
    """All of them; `true` when there are none."""
    return " && ".join(cond(n) for n in nodes) or "true"


def string(text: str) -> str:
    """A C++ string literal."""
    escaped = "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\{ord(c):03o}" for c in text)
    return f'"{escaped}"'
