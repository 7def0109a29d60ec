"""E301: grids and evidence that name what does not exist; E300 and E304 in the regions of evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..diagnostics import did_you_mean
from ..expr import ExprError, Pred, format_node, names, parse_cond
from ..ir import Family
from ..loader import Document, ValuePath
from ..models import EvidenceRecord, GridFile
from ..resolve import syntax_hint
from .context import Context, listed


def check(context: Context) -> None:
    for family in context.tree.families.values():
        check_sm_counts(context, family)
    for grid, document in context.sources.grids:
        check_grid(context, grid, document)
    for record, document in context.sources.evidence:
        _known(context, "arch", (record.device.arch,), context.tree.archs, document, ("device", "arch"))
        check_region(context, record, document)


def check_sm_counts(context: Context, family: Family) -> None:
    """E301: an arch has cards with more SMs than the family reckons with."""
    limit = family.input_by_name["num_sms"].limit
    for profile, document in context.sources.archs:
        for index, count in enumerate(profile.sm_counts):
            if count > limit:
                message = f"{count} SMs are above the limit of family {family.name}, {limit}."
                context.sink.add("E301", document.locate(("sm_counts", index)), message)


def check_grid(context: Context, grid: GridFile, document: Document) -> None:
    """Family, archs and dtypes of a grid exist, and its problems lie within the family's limits."""
    _known(context, "family", (grid.family,), context.tree.families, document, ("family",))
    family = context.tree.families.get(grid.family)
    if grid.archs != "all":
        _known(context, "arch", grid.archs, context.tree.archs, document, ("archs",), indexed=True)
    if family is None:
        return
    if grid.dtypes != "all":
        _known(context, "dtype", grid.dtypes, family.dtypes, document, ("dtypes",), indexed=True)
    if not grid.shapes and not (grid.N and grid.K):
        context.sink.add("E104", document.locate(), f"grid '{grid.name}' has neither shapes nor both N and K.")
    _limits(context, grid, family, document)
    _repeated(context, grid, document)


def _repeated(context: Context, grid: GridFile, document: Document) -> None:
    """E206: a value or shape that is enumerated twice counts twice in every total."""
    shapes = [(f"shape N={s.N} K={s.K}", ("shapes", i)) for i, s in enumerate(grid.shapes)]
    values: list[tuple[str, ValuePath]] = list(shapes)
    for name in ("M", "N", "K", "num_sms", "archs", "dtypes"):
        given = getattr(grid, name)
        values += [(f"{name} {v}", (name, i)) for i, v in enumerate(() if isinstance(given, str) else given)]
    seen: set[str] = set()
    for text, path in values:
        if text in seen:
            context.sink.add("E206", document.locate(path), f"grid '{grid.name}' lists {text} twice.")
        seen.add(text)


def _limits(context: Context, grid: GridFile, family: Family, document: Document) -> None:
    values: list[tuple[str, int, ValuePath]] = [("blocksize", grid.blocksize, ("blocksize",))]
    for name in ("M", "N", "K", "num_sms"):
        given = getattr(grid, name)
        if not isinstance(given, str):
            values += [(name, v, (name, i)) for i, v in enumerate(given)]
    for index, shape in enumerate(grid.shapes):
        values += [(n, getattr(shape, n), ("shapes", index, n)) for n in ("N", "K")]
    for name, value, path in values:
        item = family.input_by_name.get(name)
        if item is not None and value > item.limit:
            message = f"{name} {value} is above the family's limit {item.limit}."
            context.sink.add("E301", document.locate(path), message)


def check_region(context: Context, record: EvidenceRecord, document: Document) -> None:
    """A region is in the rule grammar, over inputs and facts of some family."""
    words: dict[str, set[str]] = {}
    integers: set[str] = set()
    for family in context.tree.families.values():
        for item in family.inputs:
            if item.is_enum:
                words.setdefault(item.name, set()).update(item.words)
            else:
                integers.add(item.name)
        for layer in family.layers:
            for fact in layer.facts:
                if set(names(fact.expr)) <= integers:
                    integers.add(fact.name)
    for index, text in enumerate(record.region):
        _region_cond(context, text, document, ("region", index), integers, words)


def _region_cond(
    context: Context,
    text: str,
    document: Document,
    path: ValuePath,
    integers: set[str],
    words: Mapping[str, set[str]],
) -> None:
    place = document.locate(path)
    try:
        cond = parse_cond(text)
    except ExprError as error:
        context.sink.add("E300", place, f"{error}.", syntax_hint(error))
        return
    printed = format_node(cond)
    if printed != text:
        context.sink.add("E304", place, f"'{text}' is not in canonical form.", f"write it as: {printed}")
    if isinstance(cond, Pred):
        context.sink.add("E301", place, f"'{cond.name}' is a predicate; a region has comparisons only.")
        return
    used = list(names(cond))
    if used and used[0] in words and cond.op not in ("==", "!="):
        context.sink.add("E301", place, f"'{used[0]}' is an enumeration; only == and != compare it.")
        return
    allowed = integers | set(words) | (words[used[0]] if used and used[0] in words else set())
    for name in used:
        if name not in allowed:
            context.sink.add("E301", place, f"'{name}' is not known here.", did_you_mean(name, allowed))


def _known(
    context: Context,
    kind: str,
    given: Iterable[str],
    known: Iterable[str],
    document: Document,
    path: ValuePath,
    *,
    indexed: bool = False,
) -> None:
    known = list(known)
    for index, name in enumerate(given):
        if name not in known:
            place = document.locate((*path, index) if indexed else path)
            hint = did_you_mean(name, known) or f"known: {listed(known)}"
            context.sink.add("E301", place, f"there is no {kind} '{name}'.", hint)
