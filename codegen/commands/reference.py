"""`tilewright reference`."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.option("--write", type=click.Path(dir_okay=False), help="File to write instead of printing.")
@click.option("--check", is_flag=True, help="With --write: change nothing, exit 1 when the file is out of date.")
def command(write: str | None, check: bool) -> None:
    """Print the reference of all spec keys, as Markdown."""
    from ..reference import reference

    text = reference()
    if write is None:
        click.echo(text, nl=False)
        return
    path = Path(write)
    if path.is_file() and path.read_text("utf-8") == text:
        return
    if check:
        click.echo(f"error: {write} is out of date; mend it with: tilewright reference --write {write}", err=True)
        sys.exit(1)
    path.write_text(text, "utf-8")
