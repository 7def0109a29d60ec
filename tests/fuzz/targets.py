"""What is fuzzed: the reader of spec files and the parser of rules. Each target takes bytes and returns what it found.

A target may only return: an exception is a fault, and so is an answer without a finding for an input that yields
nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tilewright_codegen.diagnostics import Sink, render_text
from tilewright_codegen.expr import (
    Bin,
    CeilDiv,
    Compare,
    Cond,
    Expr,
    ExprError,
    Int,
    Name,
    Pred,
    evaluate_expr,
    format_node,
    largest_intermediate,
    names,
    parse_cond,
    parse_expr,
)
from tilewright_codegen.loader import load_documents
from tilewright_codegen.sources import Sources
from tilewright_codegen.tree import _sort_document

_SHM = Path("/dev/shm")


def _scratch() -> Path:
    """One file a process, in memory where the system has that: a million inputs wear no disk."""
    folder = _SHM if _SHM.is_dir() and os.access(_SHM, os.W_OK) else Path(tempfile.gettempdir())
    return folder / f"tilewright-fuzz-{os.getpid()}.yaml"


def read_specs(data: bytes) -> str:
    """The bytes as a spec file: every document is read into the model that its schema names."""
    file = _scratch()
    file.write_bytes(data)
    try:
        sink, sources = Sink(), Sources("fuzz")
        documents = load_documents(file, "fuzz.yaml", sink)
        for document in documents:
            _sort_document(document, file, sources, sink)
    finally:
        file.unlink()
    found = sink.diagnostics
    assert documents or found, "no document and no finding"
    lines = data.count(b"\n") + data.count(b"\r") + data.count(b"\xc2\x85") + data.count(b"\xe2\x80") + 2
    for finding in found:
        assert 1 <= finding.location.line <= lines, finding
        assert finding.location.column >= 1, finding
    text = render_text(found)
    assert len(text) < 400 * (len(found) + 1) + 8 * len(data)
    return "read" if not found else found[0].code


def parse_rule(data: bytes) -> str:
    """The bytes as a condition and as an expression: what parses prints canonically, and parses back to itself."""
    text = data.decode("utf-8", "replace")
    outcome = "refused"
    for parse in (parse_cond, parse_expr):
        try:
            node: Cond | Expr = parse(text)
        except ExprError as error:
            if not 0 <= error.offset <= len(text):
                raise
            continue
        outcome = "parsed"
        assert parse(format_node(node)) == node
        _walk(node)
    return outcome


def _walk(node: Cond | Expr) -> None:
    """Bounds hold at both ends of them."""
    if isinstance(node, Compare):
        _walk(node.left)
        _walk(node.right)
        return
    if isinstance(node, Pred):
        return
    assert isinstance(node, (Int, Name, CeilDiv, Bin))
    bounds = dict.fromkeys(names(node), (1, 1000))
    most = largest_intermediate(node, bounds)
    for value in (1, 7, 1000):
        assert 0 <= evaluate_expr(node, dict.fromkeys(bounds, value)) <= most


TARGETS: dict[str, Callable[[bytes], str]] = {"specs": read_specs, "rules": parse_rule}
