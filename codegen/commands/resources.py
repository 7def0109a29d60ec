"""`tilewright resources`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ._common import format_option, load_or_exit, pick_arch, pick_family, specs_option

if TYPE_CHECKING:
    from ..ir import Arch, Tile


@click.command()
@click.argument("family", required=False)
@click.option("--arch", "names", multiple=True, help="Only this arch; may be given more than once.")
@specs_option
@format_option("text", "json", "markdown")
def command(family: str | None, names: tuple[str, ...], specs: str, fmt: str) -> None:
    """Show what each tile needs on each arch: shared memory, registers, tensor memory.

    `smem` is dynamic shared memory of a block in KiB; `regs` estimates the registers of a thread; `tmem` counts
    columns of tensor memory. Under an arch: the part of its shared memory limit, or what is missing.
    """
    tree = load_or_exit(specs)
    archs = [pick_arch(tree, n) for n in names] or list(tree.archs.values())
    tiles = pick_family(tree, family).tiles
    if fmt == "json":
        click.echo(json.dumps([_record(tile, archs) for tile in tiles], indent=2))
        return
    table, notes = _table(tiles, archs)
    click.echo(_markdown(table) if fmt == "markdown" else _text(table))
    for number, note in enumerate(notes, 1):
        click.echo(f"{'' if number > 1 else chr(10)}[{number}] {note}")


def _record(tile: Tile, archs: Sequence[Arch]) -> dict[str, Any]:
    from ..resources import needs, required_features, shortfalls, smem_limit, tmem_allocation

    need = needs(tile)
    return {
        "tile": tile.id,
        "engine": tile.engine,
        "smem_bytes": need.smem_bytes,
        "threads": need.threads,
        "registers_estimate": need.registers,
        "tmem_columns": need.tmem_columns,
        "cluster": need.cluster,
        "features": list(required_features(tile)),
        "archs": {
            arch.name: {
                "legal": not shortfalls(arch.profile, tile),
                "smem_limit_bytes": smem_limit(arch.profile, tile),
                "tmem_allocated_columns": tmem_allocation(arch.profile, tile) if need.tmem_columns else 0,
                "lacking": list(shortfalls(arch.profile, tile)),
            }
            for arch in archs
        },
    }


def _table(tiles: Sequence[Tile], archs: Sequence[Arch]) -> tuple[list[list[str]], list[str]]:
    from ..resources import needs, shortfalls, smem_limit

    notes: list[str] = []
    rows = [["tile", "engine", "smem", "threads", "regs", "tmem", *(a.name for a in archs)]]
    for tile in tiles:
        need = needs(tile)
        row = [tile.id, tile.engine, f"{need.smem_bytes / 1024:.1f}", _or_dash(need.threads)]
        row += [_or_dash(need.registers), _or_dash(need.tmem_columns)]
        for arch in archs:
            lacking = "; ".join(shortfalls(arch.profile, tile))
            if not lacking:
                row.append(f"{100 * need.smem_bytes / smem_limit(arch.profile, tile):.0f}%")
            elif tile.engine not in arch.profile.engines:
                row.append("-")
            else:
                note = f"{tile.id}: {lacking}"
                notes += [] if note in notes else [note]
                row.append(f"no [{notes.index(note) + 1}]")
        rows.append(row)
    return rows, notes


def _or_dash(value: int | None) -> str:
    return str(value) if value else "-"


def _text(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])
