"""Verdicts as text and as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from .claims import COMMAND_LINE
from .expr import format_int
from .ir import Family, SpecTree
from .prove import Verdict, Witness
from .smt_problems import Problem

WORDS = {"proved": "proved", "counterexample": "FALSE", "unknown": "unknown", "skipped": "skipped"}


def render_text(tree: SpecTree, verdicts: Sequence[Verdict], specs: str, base: str | None = None) -> str:
    """One line a claim, with the problems that refute it and the command that shows each; then what was covered."""
    lines: list[str] = []
    for verdict in verdicts:
        lines.append(f"{WORDS[verdict.status]:<8} {verdict.claim.id}: {verdict.detail}")
        if verdict.status == "counterexample":
            if verdict.claim.location.path != COMMAND_LINE:
                lines.append(f"  claimed at {verdict.claim.location}")
            lines += [line for w in verdict.witnesses for line in _witness_lines(tree, verdict, w, specs, base)]
    for name in dict.fromkeys(v.claim.family for v in verdicts):
        lines.append(f"for every {domain(tree.families[name])} of {name}")
    lines.append(_summary(verdicts))
    return "\n".join(lines)


def _witness_lines(tree: SpecTree, verdict: Verdict, witness: Witness, specs: str, base: str | None) -> Iterable[str]:
    family = tree.families[verdict.claim.family]
    for problem in witness.problems:
        yield f"  {' '.join(f'{name}={value}' for name, value in problem.items())}"
        yield f"  {explain_command(family, witness.arch, problem, specs)}"


def explain_command(family: Family, arch: str, problem: Problem, specs: str) -> str:
    """The command line that shows this decision rule by rule."""
    words = ["tilewright", "explain", *(str(problem[name]) for name in ("M", "N", "K")), "--arch", arch]
    words += ["--sms", str(problem["num_sms"]), "--dtype", str(problem["dtype"])]
    for item in family.inputs:
        if item.name == "blocksize":
            words += ["--blocksize", str(problem[item.name])]
        elif item.is_enum and item.name != "dtype":
            words += ["--set", f"{item.name}={problem[item.name]}"]
    return shlex.join([*words, "--specs", specs])


def domain(family: Family) -> str:
    """The problems that a proof covers."""
    integers = [f"{i.name} <= {format_int(i.limit)}" for i in family.inputs if not i.is_enum]
    enums = [f"{i.name} of {'/'.join(i.words)}" for i in family.inputs if i.is_enum]
    return ", ".join([*integers, *enums])


def _summary(verdicts: Sequence[Verdict]) -> str:
    counts = {word: sum(v.status == status for v in verdicts) for status, word in WORDS.items()}
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{len(verdicts)} claim{'s' if len(verdicts) != 1 else ''}: {', '.join(parts)}"


def render_json(tree: SpecTree, verdicts: Sequence[Verdict]) -> str:
    """A JSON array with one object a claim."""
    return json.dumps([_row(tree, v) for v in verdicts], indent=2)


def _row(tree: SpecTree, verdict: Verdict) -> dict[str, Any]:
    location = verdict.claim.location
    return {
        "id": verdict.claim.id,
        "claim": verdict.claim.model.claim,
        "family": verdict.claim.family,
        "path": location.path,
        "line": location.line,
        "status": verdict.status,
        "detail": verdict.detail,
        "archs": list(verdict.archs),
        "witnesses": [
            {"arch": w.arch, "problems": [dict(p) for p in w.problems], "text": w.text} for w in verdict.witnesses
        ],
        "domain": domain(tree.families[verdict.claim.family]),
        "seconds": round(verdict.seconds, 3),
    }
