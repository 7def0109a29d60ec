"""`tilewright map`: a picture of the decisions, or of what moved."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._common import fail, load_or_exit, pick, pick_family, pick_words, specs_option

if TYPE_CHECKING:
    from ..ir import Family, SpecTree
    from ..mapping import Panel, Question


@click.command("map")
@click.option("--out", "outs", multiple=True, type=click.Path(dir_okay=False, path_type=Path),
              help="File to write, .png or .svg; may be repeated.  [default: decision-map.png]")  # fmt: skip
@click.option("--arch", "archs", multiple=True, help="Draw this arch only; may be repeated.")
@click.option("--family", help="Family; needed only when there are several.")
@click.option("--grid", help="Grid whose shapes are the rows.  [default: decisions]")
@click.option("--k", type=click.IntRange(min=1), help="Draw M x N for this K instead of M x shapes.")
@click.option("--dtype", help="Element type of the activations.  [default: bf16, or the family's first]")
@click.option(
    "--set", "--input", "words", multiple=True, metavar="INPUT=WORD", help="A further input, such as quant_type=fp4."
)
@click.option("--blocksize", type=click.IntRange(min=1), default=64, show_default=True)
@click.option("--sms", type=click.IntRange(min=1), help="SMs of every card.  [default: each profile's first count]")
@click.option("--max-m", type=click.IntRange(min=2, max=65536), default=2048, show_default=True)
@click.option("--diff", "base", metavar="BASE", help="Show only what moved against a git revision or a folder.")
@specs_option
def command(
    outs: tuple[Path, ...], archs: tuple[str, ...], family: str | None, grid: str | None, k: int | None,
    dtype: str | None, words: tuple[str, ...], blocksize: int, sms: int | None, max_m: int, base: str | None,
    specs: str,
) -> None:  # fmt: skip
    """Draw which kernel runs for every M, one panel an arch.

    Colours are tiles, in shades of one hue per engine; grey is the fallback. Hatching says how well founded the
    weakest rule behind a decision is.
    """
    outs = outs or (Path("decision-map.png"),)
    for out in outs:
        if out.suffix not in (".png", ".svg"):
            fail(f"'{out}' is neither .png nor .svg.")
    from ..grid import GridError, pick_grid
    from ..mapping import n_points, panels, shape_points
    from ..revision import RevisionError, base_specs

    tree = load_or_exit(specs)
    chosen = pick_family(tree, family)
    question = _question(chosen, dtype, words, blocksize, max_m)
    wanted = [tree.archs[pick("arch", name, tree.archs)] for name in archs] or list(tree.archs.values())
    try:
        points = n_points(chosen, k) if k else shape_points(pick_grid([tree], chosen.name, grid))
        with ExitStack() as stack:
            before = _before(stack.enter_context(base_specs(base, specs)), chosen) if base else None
        gone: list[str] = []
        if before is not None:
            gone = [a.name for a in wanted if a.name not in before[0].archs]
            wanted = [a for a in wanted if a.name in before[0].archs]
        found = panels(tree, chosen, question, points, wanted, None if before is None else before[1], sms)
    except (GridError, RevisionError, KeyError, ValueError) as error:
        fail(f"{error.args[0]}.")
    _draw(outs, chosen, question, found, k, base, gone)


def _before(folder: Path, family: Family) -> tuple[SpecTree, Family]:
    tree = load_or_exit(str(folder))
    return tree, pick_family(tree, family.name)


def _question(family: Family, dtype: str | None, words: tuple[str, ...], blocksize: int, max_m: int) -> Question:
    from ..decide import DTYPE_ALIASES
    from ..mapping import Question

    chosen = dtype or ("bf16" if "bf16" in family.dtypes else family.dtypes[0])
    return Question(
        pick("dtype", DTYPE_ALIASES.get(chosen, chosen), family.dtypes),
        tuple(pick_words(family, words).items()),
        blocksize,
        max_m,
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 6 else f"the other {len(names)} archs"


def _draw(
    outs: tuple[Path, ...], family: Family, question: Question, found: list[Panel], k: int | None,
    base: str | None, gone: list[str],
) -> None:  # fmt: skip
    try:
        from ..mapping_plot import Picture, draw
    except ImportError:
        fail("drawing needs matplotlib, which is not installed.", "pip install 'tilewright[map]'")
    inputs = ", ".join([question.dtype, *(w for _, w in question.words), f"blocksize {question.blocksize}"])
    where = f"K = {k}" if k else "weights of real models"
    shown = found
    if base is None:
        title, note = f"{family.name}: which kernel runs", "colour: tile, one hue an engine"
    else:
        shown = [p for p in found if p.moved]
        still = [p.arch for p in found if not p.moved]
        title = f"{family.name}: what moves against {base}" if shown else f"{family.name}: no decision moves"
        note = f"no change on {_listed(still)}" if shown and still else f"all {len(found)} archs compared"
        note += f"; not in the base: {', '.join(gone)}" if gone else ""
    picture = Picture(title, f"{inputs}; {where}; {note}", shown, k is None, base is not None, question.m_limit)
    for out in outs:
        out.parent.mkdir(parents=True, exist_ok=True)
        draw(picture, out)
        click.echo(f"wrote {out}")
