"""Fitted rules as an edit of the specs: a section, an evidence record, and a check that the edited tree is sound."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median

from ..diagnostics import Diagnostic
from ..expr import Compare, Int, Name, format_node
from ..ir import Family, Layer, Section, SpecTree
from .contract import needed
from .features import Space, Term
from .judge import Judged
from .proposals import Candidate, Fitted
from .records import Header, Pass


@dataclass(frozen=True)
class NewRule:
    """A rule as it will stand in the file, with the box it was measured in."""

    id: str
    evidence: str
    candidate: Candidate
    when: tuple[str, ...]
    open_sides: tuple[str, ...]
    """Sides of the box that the rule does not state: it decides beyond what was measured there."""
    basis: str


@dataclass(frozen=True)
class Patch:
    """The edit of a specs folder. `files` maps paths in it to their new text."""

    evidence_id: str
    rules: tuple[NewRule, ...]
    before: str
    """Section in front of which the new one is put."""
    files: dict[str, str]
    diff: str
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(d.is_error for d in self.diagnostics)


@dataclass(frozen=True)
class Style:
    """How a patch is written."""

    evidence_id: str | None = None
    notes: tuple[str, ...] = ()
    url: str | None = None


def target_section(layer: Layer, arch: str, cells: Sequence[Judged]) -> Section:
    """The earliest section that decides a cell with a proven win: new rules stand in front of it."""
    wins = {c.choices.rule.section for c in cells if c.best[1] > 0}
    return next(s for s in layer.sections if s.covers(arch) and s.name in wins)


def reachable(layer: Layer, arch: str, cells: Sequence[Judged], target: Section) -> list[Judged]:
    """Cells that rules in front of the section would see: those not settled by an earlier section."""
    order = [s.name for s in layer.sections if s.covers(arch)]
    start = order.index(target.name)
    return [c for c in cells if order.index(c.choices.rule.section) >= start]


def make_patch(
    tree: SpecTree, family: Family, layer: Layer, header: Header, passes: Sequence[Pass],
    cells: Sequence[Judged], fitted: Fitted, style: Style,
) -> Patch:  # fmt: skip
    """The edit for the fitted rules, which `fit` found on `cells` in the order of their keys."""
    ordered = sorted(cells, key=lambda c: c.choices.cell.key())
    arch = header.device.arch
    name = style.evidence_id or default_id(header, passes)
    target = target_section(layer, arch, ordered)
    space = Space(ordered, layer)
    rules: list[NewRule] = []
    for candidate in fitted.rules:
        evidence = name if len(fitted.rules) == 1 else f"{name}-{len(rules) + 1}"
        contract = needed(family, layer, target, ordered, candidate)
        rules.append(_rule(family, layer, header, candidate, evidence, contract, [r.id for r in rules]))
    section = _section_text(layer, arch, name, rules, header)
    path = Path(target.location.path)
    root = Path(tree.root)
    old = path.read_text("utf-8")
    files = {
        path.relative_to(root).as_posix(): _insert(old, target.location.line, section),
        f"evidence/{name}.yaml": "---\n".join(_evidence_text(r, header, space, style) for r in rules),
    }
    return Patch(name, tuple(rules), target.name, files, _diff(root, files))


def default_id(header: Header, passes: Sequence[Pass]) -> str:
    """Named by card, layer and data: the same records give the same id."""
    digest = hashlib.sha256(header.model_dump_json().encode())
    for text in sorted(p.model_dump_json() for p in passes):
        digest.update(text.encode())
    return f"{header.device.arch}-{header.layer.replace('_', '-')}-{digest.hexdigest()[:8]}"


def _rule(
    family: Family,
    layer: Layer,
    header: Header,
    candidate: Candidate,
    evidence: str,
    contract: Sequence[str],
    taken: Sequence[str],
) -> NewRule:
    shared = _shared(family, candidate)
    tight = {(t.name, t.op) for t in candidate.stated}
    terms = [*(t for t in candidate.terms if (t.name, t.op) not in tight), *candidate.stated]
    when = [*shared, *contract, *(_short(layer, text) for text in _equalities(terms))]
    stated = {_side(t) for t in candidate.stated} | ({"M+"} if candidate.cap is not None else set())
    base = f"{header.device.arch}-{layer.name.replace('_', '-')}-calibrated"
    number = 1
    while f"{base}-{number}" in family.rule_by_id or f"{base}-{number}" in taken:
        number += 1
    open_sides = tuple(_side(t) for t in candidate.box if _side(t) not in stated)
    when = list(dict.fromkeys(when))
    basis = _basis(header, candidate)
    return NewRule(f"{base}-{number}", evidence, candidate, tuple(when), open_sides, basis)


def _shared(family: Family, candidate: Candidate) -> list[str]:
    """Conditions of the rule that decides all its cells today, but for those that its own bounds imply."""
    if candidate.within is None:
        return []
    bounds: dict[tuple[str, str], Fraction] = {(t.name, t.op): t.value for t in candidate.stated}
    found = []
    for cond in family.rule_by_id[candidate.within].conds:
        if isinstance(cond, Compare) and isinstance(cond.left, Name) and isinstance(cond.right, Int):
            bound = bounds.get((cond.left.name, cond.op))
            if bound is not None and (bound <= cond.right.value if cond.op == "<=" else bound >= cond.right.value):
                continue
        found.append(format_node(cond))
    return found


def _side(term: Term) -> str:
    return f"{term.axis}{'-' if term.op == '>=' else '+'}"


def _basis(header: Header, candidate: Candidate) -> str:
    if header.device.synthetic:
        return "modelled"
    return "measured" if candidate.won == candidate.measured and not candidate.forgone else "conservative"


def _equalities(terms: Sequence[Term]) -> list[str]:
    """Texts of the terms; a lower and an upper bound of the same value become one equality."""
    unique = list(dict.fromkeys(terms))
    result = []
    for term in unique:
        twin = Term(term.axis, term.name, "<=" if term.op == ">=" else ">=", term.value)
        if twin not in unique:
            result.append(term.text)
        elif term.op == ">=":
            result.append(term.text.replace(">=", "=="))
    return result


def _short(layer: Layer, text: str) -> str:
    """The layer's predicate of exactly this condition, if it has one."""
    for predicate in layer.predicates:
        only = predicate.terms[0]
        if len(predicate.terms) == 1 and isinstance(only, Compare) and format_node(only) == text:
            return predicate.name
    return text


def _section_text(layer: Layer, arch: str, name: str, rules: Sequence[NewRule], header: Header) -> str:
    lines = [f"  - section: calibrated-{name}", f"    for: [{arch}]", "    rules:"]
    for rule in rules:
        key, value = _outcome(layer, rule.candidate)
        lines.append(f"      - id: {rule.id}")
        if rule.when:
            lines += _flow("        when: ", rule.when)
        lines.append(f"        {key}: {value}")
        lines.append(f"        basis: {rule.basis}")
        lines.append(f"        evidence: [{rule.evidence}]")
        beyond = f"; open beyond the measured {', '.join(rule.open_sides)}" if rule.open_sides else ""
        found = rule.candidate
        share = f"{found.won} of {found.measured} cells of {found.shapes} shapes won"
        lines.append(f"        why: {json.dumps(share + beyond)}")
    return "\n".join(lines) + "\n"


def _flow(key: str, items: Sequence[str]) -> list[str]:
    """A list in flow style, broken into lines of at most 110 characters."""
    lines, open_line = [], f"{key}["
    for index, item in enumerate(items):
        piece = item + ("]" if index == len(items) - 1 else ",")
        if len(open_line) + len(piece) > 110:
            lines.append(open_line.rstrip())
            open_line = " " * (len(key) - len(key.lstrip()) + 2)
        open_line += piece + " "
    return [*lines, open_line.rstrip()]


def _outcome(layer: Layer, candidate: Candidate) -> tuple[str, str]:
    if candidate.cap is not None:
        return "m_cap", str(candidate.cap) if candidate.cap < 10_000 else f"{candidate.cap:_}"
    return ("tile" if layer.kind == "tile" else layer.name), str(candidate.outcome)


def _insert(text: str, line: int, section: str) -> str:
    """The text with a section in front of the one on a line, above the comments that belong to that one."""
    lines = text.splitlines(keepends=True)
    at = line - 1
    while at > 0 and lines[at - 1].lstrip().startswith("#"):
        at -= 1
    spaced = at > 0 and not lines[at - 1].strip()
    return "".join([*lines[:at], section, "\n" if spaced else "", *lines[at:]])


def _evidence_text(rule: NewRule, header: Header, space: Space, style: Style) -> str:
    device, method = header.device, header.method
    facts = [f"arch: {device.arch}", f"num_sms: {device.num_sms}", f"product: {json.dumps(device.product)}"]
    facts += [f'driver: "{device.driver}"'] if device.driver else []
    facts += [f'cuda: "{device.cuda}"'] if device.cuda else []
    lines = ["schema: evidence/1", f"id: {rule.evidence}", f"device: {{{', '.join(facts)}, clocks: unlocked}}"]
    lines.append(
        f"method: {{warmup: {method.warmup}, reps: {method.rounds}, statistic: median, interleaved: true, "
        f"sessions: {method.passes}}}"
    )
    lines += _flow("region: ", [t.text for t in _region(rule)])
    lines.append(f"cells: {{{_cells_text(rule.candidate, space)}}}")
    if style.url:
        lines.append(f"url: {style.url}")
    lines.append("limits:")
    lines += [f"  - {json.dumps(text)}" for text in _limits(header, space.cells, rule, style)]
    return "\n".join(lines) + "\n"


def _region(rule: NewRule) -> list[Term]:
    """The box on the sides that the rule does not leave open on purpose; of M, always."""
    return [t for t in rule.candidate.box if t.axis == "M" or _side(t) not in rule.open_sides]


def _cells_text(found: Candidate, space: Space) -> str:
    gains = [math.exp(e) for e in found.effect[found.changed].tolist()]
    shapes = {space.cells[i].choices.cell.shape for i in found.changed.nonzero()[0].tolist()}
    text = f"measured: {len(gains)}, won: {found.won}, shapes: {len(shapes)}"
    if found.won == len(gains) or min(gains) < 1:
        ratios = (min(gains), median(gains), max(gains))
        text += "".join(f", {k}_ratio: {v:.3f}" for k, v in zip(("min", "median", "max"), ratios, strict=True))
    return text


def _limits(header: Header, cells: Sequence[Judged], rule: NewRule, style: Style) -> list[str]:
    first, found = cells[0].choices.cell, rule.candidate
    dtypes = sorted({c.choices.cell.dtype for c in cells})
    words = "".join(f", {k} {v}" for k, v in sorted(first.words.items()))
    limits = ["one card", f"{', '.join(dtypes)}, blocksize {first.blocksize}{words}"]
    if header.source != "measured here":
        limits.append(f"source of the numbers: {header.source}")
    if rule.open_sides:
        box = ", ".join(t.text for t in found.box)
        limits.append(f"measured in {box}; the rule has no bound on {', '.join(rule.open_sides)}")
    if found.forgone:
        limits.append(f"{found.forgone} cells above the cap were won too and are left to the fallback")
    return [*limits, *style.notes]


def _diff(root: Path, files: dict[str, str]) -> str:
    pieces: list[str] = []
    for name, text in sorted(files.items()):
        path = root / name
        old = path.read_text("utf-8") if path.is_file() else ""
        shown = f"{root.name}/{name}"
        origin = f"a/{shown}" if path.is_file() else "/dev/null"
        lines = difflib.unified_diff(old.splitlines(True), text.splitlines(True), origin, f"b/{shown}")
        pieces += lines
    return "".join(pieces)


def apply_patch(patch: Patch, root: Path) -> None:
    """Write the patch's files into a specs folder."""
    for name, text in patch.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
