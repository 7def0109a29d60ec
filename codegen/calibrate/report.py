"""The report of a campaign, as Markdown: what was measured, what is defended, what was rejected and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from .analyse import Analysis
from .judge import Judged
from .stats import ALPHA, Verdict

MAX_ROWS = 60
MISPICK = 0.03


def markdown(found: Analysis) -> str:
    """The whole report. It depends on the records and the specs only."""
    parts = [
        f"# Calibration of {found.header.family}, layer {found.layer}, on {found.header.device.arch}",
        found.conclusion,
        *_warnings(found),
        _table(("", ""), _facts(found)),
        "## Rules",
        *_rules(found),
        "## Cells with a proven faster choice",
        _cells(found.wins),
        "## Rejected candidates",
        _rejections(found),
        "## Undecided",
        _undecided(found),
        "## Leave one shape out",
        _held_out(found),
        "## How it was decided",
        _method(found),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _warnings(found: Analysis) -> list[str]:
    texts = []
    if found.header.source != "measured here":
        texts.append(f"> Source of the numbers: {found.header.source}.")
    busy = sum(1 for p in found.passes if (p.before.other_processes or 0) > 0)
    if busy:
        texts.append(f"> {busy} of {len(found.passes)} passes ran while another process was on the card.")
    stale = len({p.cell.key() for p in found.passes}) - len(found.cells)
    if stale > 0:
        texts.append(f"> {stale} recorded cells are not decided by this layer any more and were passed over.")
    return texts


def _facts(found: Analysis) -> list[tuple[str, str]]:
    device, method = found.header.device, found.header.method
    shapes = {c.choices.cell.shape for c in found.cells}
    stages = Counter(p.stage for p in found.passes)
    clocks = [p.after.sm_mhz for p in found.passes if p.after.sm_mhz]
    heat = [p.after.celsius for p in found.passes if p.after.celsius]
    rows = [
        ("card", f"{device.product}, {device.num_sms} SMs, driver {device.driver or 'not stated'}"),
        ("cells", f"{len(found.cells)}, of {len(shapes)} shapes"),
        ("passes", f"{stages['screen']} screening, {stages['recheck']} rechecks in fresh processes"),
        ("a pass", f"{method.warmup} warm-ups, {method.rounds} interleaved rounds, median of the rounds' ratios"),
        ("noise", f"{found.noise:.2%} (95th percentile of the same launch against itself)"),
        ("SM clock after a pass", f"{min(clocks):.0f} to {max(clocks):.0f} MHz" if clocks else "not recorded"),
        ("temperature", f"{min(heat):.0f} to {max(heat):.0f} C" if heat else "not recorded"),
    ]
    if found.fitted is not None:
        before, after = found.fitted.regret_before, found.fitted.regret_after
        regret = f"{math.expm1(before):.2%} today, {math.expm1(after):.2%} with the rules"
        rows.append(("regret, geometric mean", regret))
    mispicked = sum(c.best[1] > math.log1p(MISPICK) for c in found.cells)
    share = f"{mispicked} of {len(found.cells)} cells ({mispicked / max(1, len(found.cells)):.1%})"
    rows.append((f"today's choice proven slower by more than {MISPICK:.0%}", share))
    return rows


def _rules(found: Analysis) -> list[str]:
    if found.patch is None or found.checked is None:
        return ["None."]
    rows = [
        (r.id, ", ".join(r.when), r.candidate.text if r.candidate.cap else str(r.candidate.outcome), r.basis,
         f"{r.candidate.won}/{r.candidate.measured} cells, {r.candidate.shapes} shapes")
        for r in found.patch.rules
    ]  # fmt: skip
    parts = [_table(("rule", "when", "outcome", "basis", "won"), rows)]
    for rule in found.patch.rules:
        if rule.open_sides:
            box = ", ".join(t.text for t in rule.candidate.box)
            parts.append(
                f"**{rule.id} extends beyond the measured region**: measured in {box}; no bound on "
                f"{', '.join(rule.open_sides)}."
            )
    parts.append(f"Effect: {found.checked.outside}." if found.checked.outside else "")
    parts += [f"- {d.code}: {d.message}" for d in found.checked.new]
    parts += [f"- **The patched specs disagree with the fit**: {text}" for text in found.checked.surprises]
    parts.append(f"```diff\n{found.patch.diff}```")
    return parts


def _cells(cells: Sequence[Judged]) -> str:
    rows = []
    for cell in sorted(cells, key=lambda c: -c.best[1])[:MAX_ROWS]:
        name, _ = cell.best
        rows.append((str(cell.choices.cell), cell.choices.incumbent, name, *_verdict(cell.verdicts[name])))
    header = ("cell", "today", "faster", "speed-up", f"bounds at {1 - 2 * ALPHA:.0%}", "ahead", "p")
    return _table(header, rows) + _more(len(cells))


def _verdict(found: Verdict) -> tuple[str, str, str, str]:
    bounds = f"{found.low:.3f} to {found.high:.3f}"
    return f"{found.ratio:.3f}", bounds, f"{found.ahead} of {found.passes}", f"{found.p:.2g}"


def _rejections(found: Analysis) -> str:
    rows = [
        (str(r.outcome), r.where, f"{math.expm1(r.gain / max(1, r.measured)):.1%}", str(r.measured), r.reason)
        for r in (found.fitted.rejected if found.fitted else ())
    ]
    wrong = Counter((n, reason) for c in found.cells for n, reason in c.rejected.items())
    rows += [(n, f"{count} cells", "", str(count), reason) for (n, reason), count in sorted(wrong.items())]
    rows += [("", key, "", "", reason) for key, reason in found.failed]
    table = _table(("candidate", "where", "gain a cell", "cells", "reason"), rows[:MAX_ROWS])
    return table + _more(len(rows))


def _undecided(found: Analysis) -> str:
    rows = [
        (str(c.choices.cell), c.choices.incumbent, name, *_verdict(v), v.reason)
        for c in found.cells
        for name, v in c.verdicts.items()
        if v.state == "no evidence"
    ]
    rows.sort(key=lambda r: r[3], reverse=True)
    header = ("cell", "today", "challenger", "ratio", "bounds", "ahead", "p", "no evidence because")
    return _table(header, rows[:MAX_ROWS]) + _more(len(rows))


def _held_out(found: Analysis) -> str:
    rows = [
        (f"{h.shape[0]}x{h.shape[1]}", str(h.cells), str(h.changed), f"{math.expm1(h.gain):.2%}",
         f"{math.expm1(h.possible):.2%}", f"{math.exp(h.worst):.3f}")
        for h in found.held_out
    ]  # fmt: skip
    text = _table(("shape left out", "cells", "changed", "gained", "possible", "worst cell"), rows)
    harmed = [h for h in found.held_out if h.worst < math.log(0.97)]
    for h in harmed:
        shape = f"{h.shape[0]}x{h.shape[1]}"
        text += f"\n\nWithout {shape} the rules would reach further and slow it to {math.exp(h.worst):.3f}."
    return text


def _method(found: Analysis) -> str:
    return (
        "A candidate is timed only after its result on a sentinel-filled output agrees with an fp32 reference, and "
        "counts only if it still does afterwards. Every round times all candidates and the incumbent twice; the order "
        "is reversed on odd rounds and passes. A challenger wins a cell when it is ahead in a sign test over passes at "
        f"{ALPHA:.0%} (times the challengers compared) and the bootstrap bound of its mean lies beyond the noise; it "
        "loses likewise; everything else is no evidence and counts as a tie. Rules pay for every term, must win in at "
        "least two shapes, may not slow any measured cell, and are kept to the region measured unless they say so."
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    listed = [[str(v).replace("|", "\\|") for v in row] for row in rows]
    if not listed:
        return "None."
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in listed)])


def _more(count: int) -> str:
    return f"\n\n{count - MAX_ROWS} more are in the records." if count > MAX_ROWS else ""


def summary(found: Analysis) -> dict[str, Any]:
    """The campaign cell by cell, short enough to be committed: verdicts, and screening where nothing was re-run."""
    return {
        "schema": "calibration-summary/1",
        "campaign": found.header.model_dump(by_alias=True, exclude={"device": {"uuid"}}),
        "noise": round(found.noise, 5),
        "columns": ["launch", "state", "ratio", "low", "high", "ahead", "passes"],
        "cells": [_cell(c) for c in found.cells],
        "failed": dict(found.failed),
    }


def _cell(judged: Judged) -> dict[str, Any]:
    cell = judged.choices.cell
    row: dict[str, Any] = {"M": cell.M, "N": cell.N, "K": cell.K, "dtype": cell.dtype}
    row["today"] = judged.choices.incumbent
    row["rechecked"] = [
        [name, v.state, v.ratio, v.low, v.high, v.ahead, v.passes] for name, v in judged.verdicts.items()
    ]  # fmt: skip
    row["screened"] = {n: round(r, 3) for n, r in judged.screened.items() if n not in judged.verdicts}
    if judged.rejected:
        row["rejected"] = judged.rejected
    return row
