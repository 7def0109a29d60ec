"""An Explanation as text for a person and as JSON for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from .costs import compares_costs
from .explain import Cited, Explanation, LayerExplanation, Nearest
from .expr import format_node
from .ir import CUSTOM, FALLBACK, Cap, Rule

INDENT = " " * 4
SHOWN_COSTS = 5
"""Tiles of a cost table that are named."""


def render_text(found: Explanation) -> str:
    """The problem, then a block a layer, then the nearest thresholds."""
    problem = ", ".join(f"{k}={v}" for k, v in found.problem.items() if k not in ("M", "N", "K"))
    size = " x ".join(str(found.problem[v]) for v in ("M", "N", "K"))
    lines = [f"{found.family.name}  M x N x K = {size}  on {found.arch} ({problem})", ""]
    width = max(len(layer.layer) for layer in found.layers)
    for layer in found.layers:
        lines += _layer(layer, width)
    lines += ["", f"launches {found.launch}" if found.launch else "launches no tile", "", "nearest changes"]
    lines += _nearest(found)
    return "\n".join(lines)


def _layer(layer: LayerExplanation, width: int) -> Iterator[str]:
    name = layer.layer.ljust(width)
    if layer.rule is None:
        yield f"{name}  not asked: needs {' and '.join(layer.unmet)}"
        return
    yield f"{name}  {layer.value}    rule {layer.rule.id}    {_place(layer.rule)}"
    conds = ", ".join(format_node(c) for c in layer.rule.conds if not compares_costs(c))
    yield f"{INDENT}when: {conds or 'always (the last rule)'}{_cap(layer.rule)}"
    if layer.costs:
        shown = ", ".join(f"{tile} {picoseconds / 1e6:.2f}" for tile, picoseconds in layer.costs[:SHOWN_COSTS])
        more = f", and {len(layer.costs) - SHOWN_COSTS} more" if len(layer.costs) > SHOWN_COSTS else ""
        yield f"{INDENT}costs, us: {shown}{more}"
    if layer.rule.why:
        yield f"{INDENT}why: {layer.rule.why}"
    issue = f", issue {layer.rule.issue}" if layer.rule.issue else ""
    yield f"{INDENT}basis: {layer.rule.basis or 'not stated'}{issue}"
    yield from _evidence(layer.evidence)
    if layer.runner_up is not None:
        same = " as well" if layer.runner_up_value == layer.value else ""
        yield f"{INDENT}otherwise: {layer.runner_up_value}{same}, by {layer.runner_up.id}    {_place(layer.runner_up)}"


def _cap(rule: Rule) -> str:
    if not isinstance(rule.outcome, Cap):
        return ""
    limit = rule.outcome.limit
    return f"    yields: {CUSTOM if limit is None else f'{CUSTOM} up to M = {limit}' if limit else FALLBACK}"


def _place(rule: Rule) -> str:
    return f"{rule.location.path}:{rule.location.line}"


def _evidence(found: Sequence[Cited]) -> Iterator[str]:
    """Records with numbers get a line each; those that only name a card share one."""
    plain = [c for c in found if c.record is None or (c.record.cells is None and not c.record.region)]
    for cited in found:
        if cited not in plain:
            yield f"{INDENT}evidence: {_cited(cited)}"
    if plain:
        cards = [f"{c.id} ({_card(c)})" for c in plain]
        urls = list(dict.fromkeys(c.record.url for c in plain if c.record is not None and c.record.url))
        text = f"evidence: {', '.join(cards)}; no cells published" + "".join(f"; {url}" for url in urls)
        yield textwrap.fill(text, 110, initial_indent=INDENT, subsequent_indent=INDENT + "  ", break_on_hyphens=False)


def _card(cited: Cited) -> str:
    if cited.record is None:
        return "no such record"
    device = cited.record.device
    return f"{device.product or device.arch}, {device.num_sms} SMs"


def _cited(cited: Cited) -> str:
    record = cited.record
    assert record is not None
    parts = [_card(cited)]
    if record.cells is not None:
        cells = record.cells
        parts.append(f"won {cells.won} of {cells.measured} cells")
        if cells.median_ratio is not None:
            parts.append(f"median {cells.median_ratio:g} times as fast")
    if record.region:
        place = {True: "inside", False: "OUTSIDE", None: "cannot tell whether inside"}[cited.inside]
        parts.append(f"this problem is {place} its region" if cited.inside is not None else f"{place} its region")
    return f"{cited.id}: {', '.join(parts)}" + (f"; {record.url}" if record.url else "")


def _nearest(found: Explanation) -> Iterator[str]:
    for goal in found.nearest:
        start = int(found.problem[goal.variable])
        name, steps = goal.variable, f"  [in steps of {goal.step}]" if goal.step > 1 else ""
        if goal.value is not None:
            sign = "+" if goal.direction > 0 else "-"
            yield f"{INDENT}{name}{sign}{abs(goal.value - start)} ({goal.value}) would switch {_moved(goal)}{steps}"
        elif goal.direction > 0:
            yield f"{INDENT}{name}: nothing changes above, up to the limit of {_limit(found, goal)}{steps}"
        elif start > goal.step:
            yield f"{INDENT}{name}: nothing changes below{steps}"


def _moved(goal: Nearest) -> str:
    """The first layer that moves, with its rule, and what is launched then."""
    first, last = goal.moved[0], goal.moved[-1]
    text = f"{first.layer} {_shown(first.before)} -> {_shown(first.after)}"
    if first.rule is not None:
        text += f" ({first.rule})"
    if last is not first and last.after is not None:
        text += f", then {last.after}"
    return text


def _limit(found: Explanation, goal: Nearest) -> int:
    return found.family.input_by_name[goal.variable].limit


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def render_json(found: Explanation) -> str:
    """Everything, rules and evidence in full."""
    document = {
        "family": found.family.name,
        "arch": found.arch,
        "problem": dict(found.problem),
        "launch": found.launch,
        "layers": [_layer_json(layer) for layer in found.layers],
        "nearest": [_nearest_json(goal, int(found.problem[goal.variable])) for goal in found.nearest],
    }
    return json.dumps(document, indent=2)


def _layer_json(layer: LayerExplanation) -> dict[str, Any]:
    return {
        "layer": layer.layer,
        "value": layer.value,
        "rule": None if layer.rule is None else _rule_json(layer.rule),
        "evidence": [
            {
                "id": c.id,
                "inside_region": c.inside,
                "record": None if c.record is None else c.record.model_dump(mode="json", exclude={"kind"}),
            }
            for c in layer.evidence
        ],
        "runner_up": None if layer.runner_up is None else _rule_json(layer.runner_up),
        "runner_up_value": layer.runner_up_value,
        "unmet": list(layer.unmet),
        "costs": [{"tile": tile, "picoseconds": cost} for tile, cost in layer.costs],
    }


def _rule_json(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "section": rule.section,
        "file": rule.location.path,
        "line": rule.location.line,
        "when": [format_node(c) for c in rule.conds],
        "basis": rule.basis,
        "evidence": list(rule.evidence),
        "issue": rule.issue,
        "why": rule.why,
    }


def _nearest_json(goal: Nearest, start: int) -> dict[str, Any]:
    return {
        "input": goal.variable,
        "direction": goal.direction,
        "step": goal.step,
        "value": goal.value,
        "offset": None if goal.value is None else goal.value - start,
        "moved": [{"layer": m.layer, "before": m.before, "after": m.after, "rule": m.rule} for m in goal.moved],
    }


RENDERERS = {"text": render_text, "json": render_json}
