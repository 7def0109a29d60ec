"""What rules rest on: E208, W403, W404, W407."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..ir import Rule
from ..models import EvidenceRecord
from ..models.evidence import EvidenceCells
from .context import Context

MEASURED = ("measured", "conservative")


def check(context: Context) -> None:
    check_e208(context)
    for _, rule in context.rules():
        check_w403(context, rule)
        check_w404(context, rule)
        check_w407(context, rule)


def check_e208(context: Context) -> None:
    """The counts of an evidence record contradict each other."""
    for record, document in context.sources.evidence:
        for key, message in _faults(record):
            path = ("device", key) if key == "num_sms" else ("cells", key)
            context.sink.add("E208", document.locate(path), f"evidence '{record.id}': {message}.")


def _faults(record: EvidenceRecord) -> Iterator[tuple[str, str]]:
    cells = record.cells
    if cells is None:
        return
    if cells.won > cells.measured:
        yield "won", f"{cells.won} cells won of {cells.measured} measured"
    if cells.shapes > cells.measured:
        yield "shapes", f"{cells.shapes} shapes in {cells.measured} cells"
    if cells.measured and not cells.shapes:
        yield "shapes", f"{cells.measured} cells of no shape"
    yield from _ratios(cells)


def _ratios(cells: EvidenceCells) -> Iterator[tuple[str, str]]:
    order = [("min_ratio", cells.min_ratio), ("median_ratio", cells.median_ratio), ("max_ratio", cells.max_ratio)]
    stated = [(k, v) for k, v in order if v is not None]
    for (low, least), (high, greatest) in pairwise(stated):
        if least > greatest:
            yield high, f"{high} {greatest} is below {low} {least}"
    if cells.min_ratio is not None and (cells.won == cells.measured) != (cells.min_ratio >= 1):
        yield "min_ratio", f"{cells.won} of {cells.measured} cells won, yet the least ratio is {cells.min_ratio}"


def check_w403(context: Context, rule: Rule) -> None:
    """`assumed` without an issue."""
    if rule.basis == "assumed" and rule.issue is None:
        context.sink.add(
            "W403",
            rule.location,
            f"rule '{rule.id}' is assumed and no issue tracks it.",
            "name the issue that will settle it: `issue: 12`",
        )


def check_w404(context: Context, rule: Rule) -> None:
    """Evidence from a single shape."""
    cells = [r.cells for name in rule.evidence if (r := context.tree.evidence[name])]
    known = [c for c in cells if c is not None]
    if rule.basis == "measured" and cells and len(known) == len(cells) and sum(c.shapes for c in known) <= 1:
        context.sink.add(
            "W404",
            rule.location,
            f"rule '{rule.id}' is called measured on the evidence of a single shape.",
            "measure a second shape, or say `basis: assumed` and name an issue",
        )


def check_w407(context: Context, rule: Rule) -> None:
    """No basis, or a measured one without evidence."""
    if rule.basis is None:
        context.sink.add(
            "W407",
            rule.location,
            f"rule '{rule.id}' states no basis.",
            "add `basis` to the rule or its section: measured, conservative, reported, assumed, contract, modelled",
        )
    elif rule.basis in MEASURED and not rule.evidence:
        context.sink.add(
            "W407",
            rule.location,
            f"rule '{rule.id}' is called {rule.basis} and cites no evidence.",
            "cite the record of the campaign in `evidence`",
        )
