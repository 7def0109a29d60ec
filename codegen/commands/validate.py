"""`tilewright validate`."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import click

from ._common import format_option, report, specs_option

if TYPE_CHECKING:
    from ..validate import Report


@click.command()
@specs_option
@format_option("text", "json", "github")
def command(specs: str, fmt: str) -> None:
    """Check a specs folder: form, names, completeness, legality, reachability, evidence.

    Prints every finding with its place. Exit status 1 when there are errors; warnings alone give 0.
    """
    # What is read stays until the end: looking for garbage in it would take a twentieth of the time.
    gc.disable()
    from ..validate import validate

    try:
        result = validate(specs)
    finally:
        gc.enable()
    report(result.diagnostics, fmt)
    if fmt != "json":
        click.echo(summary(specs, result))
    if not result.ok:
        sys.exit(1)


def summary(specs: str, result: Report) -> str:
    """One line with counts."""
    findings = f"{_count(result.errors, 'error')}, {_count(result.warnings, 'warning')}"
    if result.tree is None:
        return f"{specs}: {findings}"
    families = result.tree.families.values()
    rules = sum(len(f.rule_by_id) for f in families)
    tiles = sum(len(f.tiles) for f in families)
    archs = _count(len(result.tree.archs), "arch")
    return f"{specs}: {archs}, {_count(rules, 'rule')}, {_count(tiles, 'tile')}: {findings}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
