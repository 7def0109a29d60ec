"""A report of a wheel as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .findings import Check, Report


def as_json(report: Report) -> str:
    """Everything, for programs."""
    return json.dumps(
        {
            "schema": "wheel-check/1",
            "wheel": report.wheel,
            "ok": not report.problems,
            "checks": [
                {"name": c.name, "state": c.state, "problems": c.problems, "reason": c.skipped, **c.facts}
                for c in report.checks
            ],
        },
        indent=2,
    )


def as_text(report: Report) -> str:
    """A table of checks, the sizes, then every difference and what was not looked at."""
    width = max(len(check.name) for check in report.checks)
    lines = [report.wheel]
    lines += [f"  {c.name:{width}}  {c.state:11}  {_facts(c)}".rstrip() for c in report.checks]
    sizes = next((c.facts["bytes"] for c in report.checks if c.name == "budget" and "bytes" in c.facts), None)
    if sizes:
        lines += ["", *_size_table(sizes)]
    lines += [f"differs: {problem}" for problem in report.problems]
    lines += [f"not checked: {c.name}: {c.skipped}" for c in report.checks if c.skipped]
    lines.append(_verdict(report))
    return "\n".join(lines)


def _facts(check: Check) -> str:
    return ", ".join(f"{key} {_shown(value)}" for key, value in check.facts.items() if not isinstance(value, dict))


def _shown(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return " ".join(value) if isinstance(value, list) else str(value)


def _size_table(sizes: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Bytes of device code in the library, one row an image, one column a family."""
    families = sorted(sizes)
    images = list(dict.fromkeys(image for held in sizes.values() for image in held))
    rows = [["image", *families, "sum"]]
    for image in images:
        held = [sizes[family].get(image, 0) for family in families]
        rows.append([image, *(f"{n:,}" for n in held), f"{sum(held):,}"])
    totals = [sum(sizes[family].values()) for family in families]
    rows.append(["sum", *(f"{n:,}" for n in totals), f"{sum(totals):,}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]


def _verdict(report: Report) -> str:
    count = len(report.problems)
    if count:
        return f"{count} difference{'s' if count > 1 else ''}"
    skipped = report.skipped
    return "no difference" + (f"; {len(skipped)} not checked" if skipped else "")
