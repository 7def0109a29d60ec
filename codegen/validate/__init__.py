"""Every check of a specs folder, run at once: reading, binding, form, completeness, legality, evidence."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..build import build_tree
from ..diagnostics import Diagnostic, Sink
from ..ir import SpecTree
from ..tree import read_sources
from .context import Context
from .form import FORM_CODES


@dataclass(frozen=True)
class Report:
    """Outcome of a validation. `tree` is None when the specs could not be bound."""

    tree: SpecTree | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> int:
        return sum(d.is_error for d in self.diagnostics)

    @property
    def warnings(self) -> int:
        return len(self.diagnostics) - self.errors

    @property
    def ok(self) -> bool:
        return not self.errors


def validate(root: str | os.PathLike[str]) -> Report:
    """Check a specs folder. Every finding is in the report; nothing is raised for a bad spec.

    Checks build on each other: names are bound only in files that could be read, completeness is judged only
    when every name is bound, and reachability only when every arch has a complete list.
    """
    from .form import check_form

    sink = Sink()
    sources = read_sources(root, sink)
    check_form(sources, sink)
    if _blocked(sink):
        return Report(None, sink.diagnostics)
    tree = build_tree(sources, sink)
    if _blocked(sink):
        return Report(None, sink.diagnostics)
    context = Context(tree, sources, sink)
    _check_statics(context)
    if not _blocked(sink):
        _check_reachable(context)
    return Report(tree, sink.diagnostics)


def _blocked(sink: Sink) -> bool:
    """Whether an error was found that later checks could not see past."""
    return any(d.is_error and d.code not in FORM_CODES for d in sink.diagnostics)


def _check_statics(context: Context) -> None:
    from . import basis, completeness, profiles, references, stale

    completeness.check(context)
    profiles.check(context)
    references.check(context)
    basis.check(context)
    stale.check(context)


def _check_reachable(context: Context) -> None:
    from . import reachable

    reachable.check(context)
