"""`tilewright decisions`: the decisions of a grid as bands of M."""

from __future__ import annotations

from pathlib import Path

import click

from ._common import fail, load_or_exit, pick, pick_family, specs_option


@click.command("decisions")
@click.argument("family", required=False)
@specs_option
@click.option("--grid", help="Grid whose archs and shapes are shown.  [default: decisions]")
@click.option("--arch", "archs", multiple=True, help="Show this arch only; may be repeated.")
@click.option("--digest", is_flag=True, help="Print one SHA-256 per arch and layer over the whole grid instead.")
@click.option("--write", type=click.Path(file_okay=False, path_type=Path), help="Update golden files in a folder.")
@click.option("--check", type=click.Path(file_okay=False, path_type=Path), help="Compare with golden files.")
def command(
    family: str | None,
    specs: str,
    grid: str | None,
    archs: tuple[str, ...],
    digest: bool,
    write: Path | None,
    check: Path | None,
) -> None:
    """Enumerate a grid and show each shape's decisions as bands of M.

    Every M is decided up to 4096 (and past the grid's greatest); above, each octave is sampled.
    """
    from ..decisions import arch_tables, digests, golden_files, render_tables, stale_goldens, write_goldens
    from ..grid import GridError, expand, grid_archs, pick_grid

    tree = load_or_exit(specs)
    chosen = pick_family(tree, family)
    try:
        cells = pick_grid([tree], chosen.name, grid)
        known = grid_archs(tree, cells)
        wanted = [pick("arch of this grid", name, [a.name for a in known]) for name in archs]
        shown = [a for a in known if not wanted or a.name in wanted]
        if digest:
            for arch in shown:
                for layer, value in digests(chosen, expand(chosen, arch, cells)).items():
                    click.echo(f"{chosen.name} {arch.name} {layer} {value}")
        elif write is not None:
            for name in write_goldens(write, golden_files(tree, chosen, cells)):
                click.echo(f"updated {write / name}")
        elif check is not None:
            stale = stale_goldens(check, golden_files(tree, chosen, cells))
            if stale:
                fail(f"out of date: {', '.join(stale)}", f"run: tilewright decisions --write {check}")
        else:
            click.echo("\n".join(render_tables(chosen, arch_tables(chosen, a, cells)) for a in shown), nl=False)
    except (GridError, KeyError) as error:
        fail(f"{error.args[0]}.")
