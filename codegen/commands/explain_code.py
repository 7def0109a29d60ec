"""`tilewright explain-code`."""

from __future__ import annotations

import click

from ._common import pick


@click.command()
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Say what a diagnostic code means and how to mend it; without a code, list them all."""
    from ..codes import CODES, explain

    if code is None:
        for entry in CODES.values():
            click.echo(f"{entry.code}  {entry.title}")
        return
    click.echo(explain(pick("code", code.upper(), CODES)), nl=False)
