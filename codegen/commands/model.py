"""`tilewright model`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ._common import fail, format_option, load_or_exit, pick, pick_arch, pick_family, specs_option

if TYPE_CHECKING:
    from ..ir import Arch, Tile
    from ..models.tiles import Tcgen05Tile
    from ..throughput import Prediction


# Every tile of a problem is walked: past this that takes minutes.
_LARGEST = 1 << 17


@click.command()
@click.argument("family")
@click.option("--arch", "name", required=True, help="The chip; its profile needs `figures`.")
@click.option("--tile", "ids", multiple=True, help="Only this tile; may be given more than once.")
@click.option("--problem", default="16384,16384,16384", show_default=True, help="M,N,K.")
@click.option("--vary", "variations", multiple=True, help="FIELD=VALUE[,VALUE...]: also as if the tile had this field.")
@specs_option
@format_option("text", "json")
def command(
    family: str, name: str, ids: tuple[str, ...], problem: str, variations: tuple[str, ...], specs: str, fmt: str
) -> None:
    """Predict the throughput of tcgen05 tiles on a chip, slowest first.

    Nothing is measured: the prediction rests on the figures of the arch profile, and says which of them are assumed.
    """
    from ..resources import is_legal
    from ..throughput import rank

    tree = load_or_exit(specs)
    arch, size = pick_arch(tree, name), _problem(problem)
    tiles = {t.id: t for t in pick_family(tree, family).tiles if t.engine == "tcgen05"}
    if not tiles:
        fail(f"{family} has no tcgen05 tile.")
    chosen = [tiles[pick("tcgen05 tile", i, tiles)] for i in ids]
    chosen = chosen or [t for t in tiles.values() if is_legal(arch.profile, t)]
    found = {}
    for tile in chosen:
        for label, model in _varied(tile, variations):
            found[label] = _predict(arch, model, size)
    names = {id(p): label for label, p in found.items()}
    rows = [_row(names[id(p)], p) for p in rank(list(found.values()))]
    click.echo(json.dumps(rows, indent=2) if fmt == "json" else _text(rows, arch))


def _problem(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) != 3 or not all(p.strip().isdecimal() and len(p) < 20 and int(p) > 0 for p in parts):
        fail(f"--problem '{text}': three positive numbers M,N,K are expected.")
    if any(int(p) > _LARGEST for p in parts):
        fail(f"--problem '{text}': M, N and K are at most {_LARGEST}.")
    m, n, k = (int(p) for p in parts)
    return m, n, k


def _varied(tile: Tile, variations: tuple[str, ...]) -> list[tuple[str, Tcgen05Tile]]:
    """The tile with every combination of the given values, re-validated."""
    from itertools import product

    from pydantic import ValidationError

    from ..models.tiles import Tcgen05Tile

    axes = [_axis(text) for text in variations]
    made = []
    for values in product(*(values for _, values in axes)):
        changed = dict(zip((field for field, _ in axes), values, strict=True))
        label = " ".join([tile.id, *(f"{k}={v}" for k, v in changed.items())])
        try:
            made.append((label, Tcgen05Tile.model_validate({**tile.model.model_dump(), **changed})))
        except ValidationError as error:
            first = error.errors()[0]
            fail(f"--vary {'.'.join(str(p) for p in first['loc'])}: {first['msg']}.")
    return made


def _axis(text: str) -> tuple[str, list[Any]]:
    field, found, values = text.partition("=")
    if not found or not field or not values:
        fail(f"--vary '{text}': FIELD=VALUE[,VALUE...] is expected.")
    words: dict[str, Any] = {"true": True, "false": False, "none": None}
    return field, [words.get(v, int(v) if v.isdecimal() else v) for v in values.split(",")]


def _predict(arch: Arch, tile: Tcgen05Tile, size: tuple[int, int, int]) -> Prediction:
    from ..engine_needs import ENGINE_NEEDS
    from ..models.tiles import Tcgen05Tile
    from ..throughput import predict, tile_shape

    figures = arch.profile.figures
    if figures is None:
        fail(f"{arch.name} has no `figures` to predict from.")
    if tile.dtype not in figures.mma_flops_per_clock:
        fail(f"the figures of {arch.name} say nothing about {tile.dtype}.")
    smem = ENGINE_NEEDS[Tcgen05Tile].needs(tile).smem_bytes
    return predict(tile_shape(tile), size, figures, arch.profile.sm_counts[0], smem)


def _row(label: str, p: Prediction) -> dict[str, Any]:
    return {
        "tile": label,
        "tflops": round(p.tflops),
        "of_ceiling": round(p.tflops / p.ceiling_tflops, 3),
        "us": round(p.microseconds, 1),
        "waves": p.waves,
        "dram_gb_s": round(p.dram_gb_s),
        "smem_kib": round(p.smem_bytes / 1024, 1),
        "bound": p.bound,
    }


def _text(rows: list[dict[str, Any]], arch: Arch) -> str:
    names = list(rows[0])
    cells = [[n.replace("_", " ") for n in names], *([str(row[n]) for n in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    lines = [
        "  ".join(c.ljust(w) if i in (0, 7) else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in cells
    ]
    figures = arch.profile.figures
    assert figures is not None
    note = f"basis: modelled; assumed figures of {arch.name}: {', '.join(figures.assumed) or 'none'}"
    return "\n".join([*(line.rstrip() for line in lines), note])
