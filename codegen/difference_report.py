"""A Difference as text for a terminal, JSON for programs, and Markdown for a pull request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from .difference import Change, Difference

MAX_ROWS = 40
"""Rows of changes that text and Markdown show; JSON holds all."""


def render_text(found: Difference, base: str, *, limit: int = MAX_ROWS) -> str:
    """Totals first, then one line per arch, direction and shape."""
    lines = [f"{found.family}, grid {found.grid}, against {base}"]
    lines.append(f"{found.enumerated:,} decisions enumerated, {found.changed:,} changed")
    lines += [f"note: {note}" for note in _notes(found)]
    if found.changed:
        low, high = found.m_range or (0, 0)
        lines += ["", f"M from {low} to {high}", "", "by arch"]
        width = max(len(a.arch) for a in found.archs)
        lines += [f"  {a.arch:<{width}}  {a.changed:>8,} of {a.enumerated:,}" for a in found.archs if a.changed]
        still = [a.arch for a in found.archs if not a.changed]
        lines.append(f"  unmoved: {', '.join(still) or 'none'}")
        lines += ["", "by direction"]
        lines += [f"  {count:>8,}  {direction}" for direction, count in found.directions.items()]
        lines += ["", "where"]
        lines += _aligned(_rows(found, limit))
        lines += _rest(found, limit)
    return "\n".join(lines)


def render_markdown(found: Difference, base: str, *, limit: int = MAX_ROWS) -> str:
    """A comment for a pull request: a verdict, tables of counts, and the rows folded away."""
    if not found.changed:
        body = [f"**No decision changes.** {found.enumerated:,} enumerated on grid `{found.grid}` against `{base}`."]
        return "\n".join([f"### Decisions of `{found.family}`", "", *body, *_bullets(_notes(found))])
    low, high = found.m_range or (0, 0)
    moved = [a for a in found.archs if a.changed]
    lines = [
        f"### Decisions of `{found.family}`",
        "",
        f"**{found.changed:,} of {found.enumerated:,} decisions change**, on {', '.join(a.arch for a in moved)} only,"
        f" M from {low} to {high} (grid `{found.grid}`, against `{base}`).",
        *_bullets(_notes(found)),
        "",
        "| arch | enumerated | changed |",
        "|---|---:|---:|",
        *(f"| {a.arch} | {a.enumerated:,} | {a.changed:,} |" for a in found.archs),
        "",
        "| direction | decisions |",
        "|---|---:|",
        *(f"| {d} | {n:,} |" for d, n in found.directions.items()),
        "",
        f"<details><summary>{len(_groups(found.changes))} groups of changed decisions</summary>",
        "",
        "| arch | SMs | inputs | N | K | M | before | after | rule |",
        "|---|---:|---|---:|---:|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in _rows(found, limit)),
        "",
        *_rest(found, limit),
        "</details>",
    ]
    return "\n".join(lines)


def render_json(found: Difference, base: str, *, limit: int = MAX_ROWS) -> str:
    """Everything, the changed problems included; `limit` is ignored."""
    del limit
    document = {
        "family": found.family,
        "grid": found.grid,
        "base": base,
        "enumerated": found.enumerated,
        "changed": found.changed,
        "reattributed": found.reattributed,
        "M": None if found.m_range is None else list(found.m_range),
        "archs": {a.arch: {"enumerated": a.enumerated, "changed": a.changed} for a in found.archs},
        "only_base": list(found.only_base),
        "only_head": list(found.only_head),
        "notes": list(found.notes),
        "directions": found.directions,
        "shapes": [{"N": n, "K": k, "changed": count} for (n, k), count in found.shapes.items()],
        "changes": [_change(c) for c in found.changes],
    }
    return json.dumps(document, indent=2)


RENDERERS = {"text": render_text, "json": render_json, "markdown": render_markdown}


def _change(c: Change) -> dict[str, object]:
    return {
        "arch": c.arch, "num_sms": c.num_sms, "blocksize": c.blocksize, "words": list(c.words), "N": c.N, "K": c.K,
        "M": list(c.M), "direction": c.direction, "before": dict(c.before.values), "after": dict(c.after.values),
        "tiles": [c.before.tile, c.after.tile], "rules": list(c.rules),
    }  # fmt: skip


def _notes(found: Difference) -> list[str]:
    notes = list(found.notes)
    notes += [f"{arch} is only in the base: nothing to compare" for arch in found.only_base]
    notes += [f"{arch} is new: its cards were decided as `unknown` before" for arch in found.only_head]
    if found.reattributed:
        notes.append(f"{found.reattributed:,} more keep their outcome but are decided by another rule")
    return notes


def _bullets(notes: Iterable[str]) -> list[str]:
    lines = [f"- {note}" for note in notes]
    return ["", *lines] if lines else []


def _groups(changes: Sequence[Change]) -> list[list[Change]]:
    """Changes of one shape that move in one direction by the same rules, whatever their words, M and tiles."""
    groups: dict[tuple[object, ...], list[Change]] = {}
    for c in changes:
        key = (c.arch, c.num_sms, c.blocksize, c.N, c.K, c.direction, c.rules)
        groups.setdefault(key, []).append(c)
    return list(groups.values())


def _rows(found: Difference, limit: int) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for group in _groups(found.changes)[:limit]:
        group = sorted(group, key=lambda g: g.M)
        c = group[0]
        words = [", ".join(dict.fromkeys(column)) for column in zip(*(g.words for g in group), strict=True)]
        labels = (_labels(g.before.label for g in group), _labels(g.after.label for g in group))
        rule = c.rules[1] if c.rules[0] == c.rules[1] else f"{c.rules[0] or 'none'} -> {c.rules[1] or 'none'}"
        values = sorted({m for g in group for m in g.M})
        row = (c.arch, str(c.num_sms), "; ".join(words), str(c.N), str(c.K), _runs(values))
        rows.append((*row, *(labels if labels[0] != labels[1] else _inner(c)), rule or "none"))
    return rows


def _labels(labels: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(labels))
    return "/".join(distinct[:3]) + ("/.." if len(distinct) > 3 else "")


def _inner(c: Change) -> tuple[str, str]:
    moved = [n for n in c.before.values if c.before.values[n] != c.after.values[n]]
    shown = [" ".join(f"{n}={side.values[n]}" for n in moved) for side in (c.before, c.after)]
    return shown[0], shown[1]


def _runs(values: Sequence[int]) -> str:
    """The M of a group: all of them when few, else the ends and how many lie on the grid between."""
    if len(values) <= 4:
        return ", ".join(map(str, values))
    return f"{values[0]}..{values[-1]} ({len(values)} values)"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    titles = ("arch", "SMs", "inputs", "N", "K", "M", "before", "after", "rule")
    table = [titles, *rows]
    widths = [max(len(r[i]) for r in table) for i in range(len(titles))]
    right = (1, 3, 4)
    return [
        "  ".join(["", *(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in _columns(row, widths))]).rstrip()
        for row in table
    ]


def _columns(row: Sequence[str], widths: Sequence[int]) -> Iterable[tuple[int, tuple[str, int]]]:
    return enumerate(zip(row, widths, strict=True))


def _rest(found: Difference, limit: int) -> list[str]:
    more = len(_groups(found.changes)) - limit
    return [f"  ... and {more:,} more groups; `--format json` lists all, `--limit` shows more"] if more > 0 else []
