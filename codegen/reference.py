"""The reference of all spec keys, written from the models, so that it cannot differ from what is checked."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from .models import TILE_MODELS, GenericTile, SpecModel
from .models.claims import CLAIM_MODELS
from .tree import MODELS

INTRO = """# Spec files

Every key of every kind of file in this folder. This page is written by `tilewright reference --write specs/README.md`
from the models that check the files; change the models, not the page.

A file may hold several documents, separated by `---`; the key `schema` says which kind each is. Values are plain
decimal integers, `true`, `false`, `null`, or text; what YAML 1.1 would read as something else must be quoted.
Expressions and conditions are in the closed grammar shown by `tilewright explain-code E300`.
"""


def reference() -> str:
    """The whole page, in Markdown."""
    parts = [INTRO]
    for schema, model in MODELS.items():
        parts.append(_section(f"## `schema: {schema}`", model))
        parts += [_section(f"### `{n}`", m) for n, m in _nested(model)]
        if schema == "tiles/1":
            parts += [
                _section(f"### Tiles of `{family}`, engine `{name}`", m) for (family, name), m in TILE_MODELS.items()
            ]
            parts.append(_section("### Tiles of any other engine", GenericTile))
        if schema == "claims/1":
            parts += [_section(f"### `claim: {name}`", m) for name, m in CLAIM_MODELS.items()]
    return "\n".join(parts)


def _section(title: str, model: type[SpecModel]) -> str:
    text = " ".join((model.__doc__ or "").split())
    rows = ["", "| key | value | meaning |", "|---|---|---|"]
    meanings = attribute_docstrings(model)
    for name, field in model.model_fields.items():
        kind = _kind(field.annotation)
        default = "" if field.is_required() else _default(field.default)
        meaning = " ".join(meanings.get(name, "").split())
        rows.append(f"| `{field.alias or name}` | {kind}{default} | {meaning} |")
    return f"{title}\n\n{text}\n" + "\n".join(rows) + "\n"


def attribute_docstrings(model: type[SpecModel]) -> dict[str, str]:
    """The string below each field. Pydantic can collect them too, but at a cost on every start of the program."""
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not issubclass(cls, SpecModel):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for field, doc in pairwise(tree.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(doc, ast.Expr):
                found[field.target.id] = str(ast.literal_eval(doc.value))
    return found


def _default(value: Any) -> str:
    if value is None or value in ((), {}):
        return "; optional"
    text = str(value).lower() if isinstance(value, bool) else value
    return "; optional" if isinstance(value, SpecModel) else f"; default `{text}`"


def _nested(model: type[SpecModel]) -> Iterator[tuple[str, type[SpecModel]]]:
    """Models inside the fields of a model, depth first, each once, with the key they stand under."""
    seen: set[type[SpecModel]] = set()

    def visit(current: type[SpecModel], path: str) -> Iterator[tuple[str, type[SpecModel]]]:
        for name, field in current.model_fields.items():
            key = f"{path}{field.alias or name}"
            for inner in _models_in(field.annotation):
                if inner not in seen:
                    seen.add(inner)
                    yield key, inner
                    yield from visit(inner, f"{key}.")

    yield from visit(model, "")


def _models_in(annotation: Any) -> Iterator[type[SpecModel]]:
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def _kind(annotation: Any) -> str:
    """A type in words."""
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(f"`{a}`" for a in get_args(annotation))
    if origin in (typing.Union, types.UnionType):
        parts = ["`null`" if a is type(None) else _kind(a) for a in get_args(annotation)]
        return " or ".join(dict.fromkeys(parts))
    if origin is typing.Annotated:
        return _kind(get_args(annotation)[0])
    if origin is tuple:
        inner = [a for a in get_args(annotation) if a is not Ellipsis]
        many = Ellipsis in get_args(annotation)
        return f"list of {_kind(inner[0])}" if many else f"[{', '.join(_kind(a) for a in inner)}]"
    if origin is dict:
        key, value = get_args(annotation)
        return f"mapping from {_kind(key)} to {_kind(value)}"
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return "mapping (below)"
    names = {int: "integer", float: "number", str: "text", bool: "`true` or `false`"}
    return names.get(annotation, "value")
