"""`tilewright diff BASE`: which decisions change, and which cannot have."""

from __future__ import annotations

import click

from ._common import fail, format_option, load_or_exit, pick_family, specs_option


@click.command("diff")
@click.argument("base")
@specs_option
@click.option("--family", help="Family to compare; needed only when there are several.")
@click.option("--grid", help="Grid of the specs to enumerate.  [default: decisions]")
@click.option("--seeded", is_flag=True, help="Enumerate around every threshold of both sides instead of a grid.")
@format_option("text", "json", "markdown")
@click.option("--limit", type=click.IntRange(min=0), default=40, show_default=True, help="Rows of changes to show.")
@click.option("--exit-code", is_flag=True, help="Exit with status 1 when a decision changes.")
def command(
    base: str, specs: str, family: str | None, grid: str | None, seeded: bool, fmt: str, limit: int, exit_code: bool
) -> None:
    """Show which decisions change against BASE, a git revision or a folder of specs.

    Both sides are enumerated on the same problems. No assumption is made about the shape of a change: a decision
    may move back and forth with M.
    """
    from ..difference import compare
    from ..difference_report import RENDERERS
    from ..grid import GridError, pick_grid
    from ..revision import RevisionError, base_specs

    if seeded and grid:
        raise click.UsageError("--seeded and --grid exclude each other.")
    head = load_or_exit(specs)
    try:
        with base_specs(base, specs) as folder:
            before = load_or_exit(str(folder))
        name = pick_family(head, family).name
        chosen = None if seeded else pick_grid((head, before), name, grid)
        found = compare(before, head, name, chosen)
    except (GridError, RevisionError) as error:
        fail(f"{error}.")
    click.echo(RENDERERS[fmt](found, base, limit=limit))
    if exit_code and found.changed:
        raise SystemExit(1)
