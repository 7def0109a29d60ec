"""What a family declares, checked before anything is bound to it: inputs, outcomes and repairs."""

from __future__ import annotations

from collections.abc import Iterable

from .costs import PREFIX
from .diagnostics import Sink, did_you_mean
from .expr import KEYWORDS
from .loader import Document, ValuePath
from .models import FamilyFile, LayerDecl

REQUIRED_LIMITS = ("M", "N", "K", "num_sms")
"""Inputs every family decides by."""


def check_declarations(file: FamilyFile, document: Document, sink: Sink) -> None:
    """Report inputs that are missing or clash, lists with a word twice, and repairs of what is no earlier tile."""
    missing = [n for n in REQUIRED_LIMITS if n not in file.limits]
    if missing:
        sink.add("E104", document.locate(("limits",)), f"limits: {', '.join(missing)} must have one.")
    _clashes(file, document, sink)
    _repeated(file.dtypes, document, ("dtypes",), sink)
    for name, words in file.enums.items():
        _repeated(words, document, ("enums", name), sink)
    for index, decl in enumerate(file.layers):
        _outcomes(decl, index, document, sink)
        _repairs(file, decl, index, document, sink)


def _clashes(file: FamilyFile, document: Document, sink: Sink) -> None:
    check_words(file.limits, document, ("limits",), sink)
    check_words(file.enums, document, ("enums",), sink)
    taken = {**dict.fromkeys(file.limits, "limits"), "dtype": "dtypes"}
    for name in file.enums:
        if name in taken:
            message = f"input '{name}' is defined twice; first in {taken[name]}."
            sink.add("E206", document.locate_key(("enums", name)), message)
    for index, decl in enumerate(file.layers):
        if decl.name in taken or decl.name in file.enums:
            message = f"layer '{decl.name}' has the name of an input."
            sink.add("E206", document.locate(("layers", index, "name")), message)


def check_words(names: Iterable[str], document: Document, path: ValuePath, sink: Sink) -> None:
    """Report names that no expression could use, because they mean something else in rules."""
    for name in names:
        if name in KEYWORDS:
            message = f"'{name}' is a word of the rule grammar and can name nothing."
            sink.add("E206", document.locate_key((*path, name)), message)
        elif name.startswith(PREFIX):
            message = f"'{name}': names that begin with {PREFIX} are those of cost tables."
            sink.add("E206", document.locate_key((*path, name)), message)


def _repeated(words: Iterable[object], document: Document, path: ValuePath, sink: Sink) -> None:
    seen: set[object] = set()
    for index, word in enumerate(words):
        if word in seen:
            sink.add("E206", document.locate((*path, index)), f"'{word}' is listed twice.")
        seen.add(word)


def _outcomes(decl: LayerDecl, index: int, document: Document, sink: Sink) -> None:
    if isinstance(decl.outcome, str):
        return
    path: ValuePath = ("layers", index, "outcome")
    _repeated(decl.outcome, document, path, sink)
    if len({type(v) for v in decl.outcome}) > 1:
        message = f"outcomes of layer '{decl.name}' mix words and integers; later layers could not compare them."
        sink.add("E104", document.locate(path), message)


def _repairs(file: FamilyFile, decl: LayerDecl, index: int, document: Document, sink: Sink) -> None:
    if decl.repairs is None:
        return
    earlier = [d.name for d in file.layers[:index] if d.outcome == "tile"]
    place = document.locate(("layers", index, "repairs"))
    if decl.outcome != "tile":
        sink.add("E301", place, f"layer '{decl.name}' has no tile as outcome and can repair none.")
    elif decl.repairs not in earlier:
        hint = did_you_mean(decl.repairs, earlier) or f"earlier tile layers: {', '.join(earlier) or 'none'}"
        sink.add("E301", place, f"'{decl.repairs}' is no earlier layer whose outcome is a tile.", hint)
