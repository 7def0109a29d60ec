"""`tilewright matrix`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ._common import fail, format_option, load_or_exit, specs_option


@click.command()
@specs_option
@format_option("markdown", "json")
@click.option(
    "--write", type=click.Path(exists=True, dir_okay=False), multiple=True, help="File to update between markers."
)
@click.option("--check", is_flag=True, help="With --write: change nothing, exit 1 when a file is out of date.")
def command(specs: str, fmt: str, write: tuple[str, ...], check: bool) -> None:
    """Show which engine serves which arch in which family, and on what basis."""
    from ..matrix import as_markdown, as_rows, replace_between_markers

    tree = load_or_exit(specs)
    if not write:
        click.echo(as_markdown(tree) if fmt == "markdown" else json.dumps(as_rows(tree), indent=2))
        return
    stale = []
    for path in map(Path, write):
        text = path.read_text("utf-8")
        try:
            new = replace_between_markers(text, as_markdown(tree), path)
        except ValueError as error:
            fail(f"{error}.")
        if new != text:
            stale.append(str(path))
            if not check:
                path.write_text(new, "utf-8")
    if check and stale:
        click.echo(
            f"error: {', '.join(stale)} out of date; mend with: tilewright matrix --write {' --write '.join(stale)}",
            err=True,
        )
        sys.exit(1)
