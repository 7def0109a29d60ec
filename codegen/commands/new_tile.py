"""`tilewright new-tile`."""

from __future__ import annotations

from pathlib import Path

import click

from ._common import fail, load_or_exit, pick, pick_family, specs_option


@click.command()
@click.argument("family")
@click.argument("name")
@click.option("--like", required=True, help="Tile whose fields are taken over.")
@click.option("--set", "changes", multiple=True, metavar="FIELD=VALUE", help="Field that differs; may be repeated.")
@click.option("--reserve", help="Why the tile is built before a rule picks it.")
@specs_option
def command(family: str, name: str, like: str, changes: tuple[str, ...], reserve: str | None, specs: str) -> None:
    """Add tile NAME to FAMILY below the tile it is like, and say where it would be legal."""
    from ..diagnostics import SpecError
    from ..resources import contradictions, shortfalls
    from ..scaffold import ScaffoldError, plan_tile, try_edit

    tree = load_or_exit(specs)
    chosen = pick_family(tree, family)
    pick("tile", like, chosen.tile_by_id)
    pairs = dict(_pair(change) for change in changes)
    try:
        insertion = plan_tile(chosen, Path(specs), name, like, pairs, reserve)
        _, tree = try_edit(specs, [insertion], {})
    except ScaffoldError as error:
        fail(f"{error}.")
    except SpecError as error:
        fail(f"the specs would have been wrong, so nothing was changed:\n{error}")
    tile = tree.families[chosen.name].tile_by_id[name]
    click.echo(f"added {name} at {tile.location}")
    for problem in contradictions(tile):
        click.echo(f"  nowhere legal: {problem}")
    for arch in tree.archs.values():
        lacks = shortfalls(arch.profile, tile)
        click.echo(f"  {arch.name}: {'legal' if not lacks else lacks[0]}")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        fail(f"--set {text}: FIELD=VALUE is expected.")
    return key, value
