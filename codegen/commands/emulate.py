"""`tilewright emulate`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from ._common import fail, format_option, load_or_exit, pick, pick_arch, pick_family, specs_option

if TYPE_CHECKING:
    from ..emulate.build import Target
    from ..emulate.cases import Problem
    from ..emulate.schedules import Outcome
    from ..ir import Arch, Family


_LARGEST = 1 << 14  # of a size of --problem


@click.command()
@click.argument("family", required=False)
@click.option("--tile", "tiles", multiple=True, help="Only this tile; may be given more than once.")
@click.option("--arch", help="The arch whose rules of the hardware hold; without it, the first that has the engine.")
@click.option("--schedules", default=20, show_default=True, type=click.IntRange(min=1), help="Schedules a problem.")
@click.option(
    "--seed", default=0, show_default=True, help="Seed of the first schedule; the next one has the next seed."
)
@click.option("--problem", "problems", multiple=True, metavar="M,N,K", help="Instead of the tile's own small problems.")
@click.option("--word", "words", multiple=True, metavar="NAME=WORD", help="A word of the problem, e.g. quant_type=fp4.")
@click.option("--dtype", default="bf16", show_default=True, type=click.Choice(["f16", "bf16", "f32"]))
@click.option("--exact", is_flag=True, help="Operands whose sums are exact: results must be equal, not close.")
@specs_option
@format_option("text", "json")
def command(
    family: str | None,
    tiles: tuple[str, ...],
    arch: str | None,
    schedules: int,
    seed: int,
    problems: tuple[str, ...],
    words: tuple[str, ...],
    dtype: str,
    exact: bool,
    specs: str,
    fmt: str,
) -> None:
    """Run a family's kernels on the host under random schedules, and report what goes wrong.

    The kernels' headers are compiled by the host's C++ compiler; what they ask of the hardware is emulated. The
    order in which threads and asynchronous operations go on is drawn from the seed. Exit status 1 when anything is
    found.
    """
    from ..emulate.build import BuildError
    from ..emulate.schedules import run_schedules

    tree = load_or_exit(specs)
    chosen = pick_family(tree, family)
    archs = [pick_arch(tree, arch)] if arch else list(tree.archs.values())
    outcomes = []
    targets = _targets(chosen, tiles, archs, dtype)
    if not targets:
        fail(f"no tile of {chosen.name} runs on {archs[0].name}.")
    for target in targets:
        for problem in _problems(target, problems, words, exact):
            try:
                outcome = run_schedules(target, problem, schedules, seed)
            except BuildError as error:
                fail(f"{target.tile}: {error}")
            outcomes.append(outcome)
            if fmt == "text":
                click.echo(_line(outcome))
    if fmt == "json":
        click.echo(json.dumps([_record(outcome) for outcome in outcomes], indent=2))
    sys.exit(0 if all(outcome.ok for outcome in outcomes) else 1)


def _targets(family: Family, names: tuple[str, ...], archs: list[Arch], dtype: str) -> list[Target]:
    from ..emulate.build import Target
    from ..engines import engine_dtypes
    from ..resources import shortfalls

    known = {tile.id: tile for tile in family.tiles}
    wanted = [known[pick("tile", name, known)] for name in names] or list(known.values())
    targets = []
    for tile in wanted:
        legal = [a for a in archs if a.profile.cc is not None and not shortfalls(a.profile, tile)]
        if not legal:
            if names or len(archs) > 1:
                fail(f"no arch asked for can run tile '{tile.id}' (engine {tile.engine}).")
            continue
        takes = engine_dtypes(family.name, tile.engine, family.dtypes)
        cc = legal[0].profile.cc
        assert cc is not None
        target_dtype = dtype if dtype in takes else takes[0]
        targets.append(Target(family.name, tile.engine, tile.id, tile.fields, (cc[0], cc[1]), target_dtype))
    return targets


def _problems(target: Target, texts: tuple[str, ...], words: tuple[str, ...], exact: bool) -> list[Problem]:
    from dataclasses import replace

    from ..emulate.problems import WORDS, small_problems

    given: dict[str, str | int] = {}
    for text in words:
        name, equals, word = text.partition("=")
        if not equals or not name:
            fail(f"'{text}' is no word of a problem.", "write NAME=WORD, e.g. quant_type=fp4")
        known = WORDS[target.family]
        choices = known[pick("word", name, known)]
        given[name] = pick(name, word, choices) if choices else _number(name, word)
    found = small_problems(target)
    if texts:
        found = [replace(found[0], m=m, n=n, k=k) for m, n, k in map(_sizes, texts)]
    values = "exact" if exact else "random"
    return [replace(problem, values=values, words={**problem.words, **given}) for problem in found]


def _number(name: str, word: str) -> int:
    if not word.isdecimal() or len(word) > 4:
        fail(f"{name}={word}: a number from 0 to 9999 is expected.")
    return int(word)


def _sizes(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() and len(part) < 20 for part in parts):
        fail(f"'{text}' is no problem.", "write M,N,K, e.g. 37,256,512")
    m, n, k = (int(part) for part in parts)
    if not all(1 <= size <= _LARGEST for size in (m, n, k)):
        fail(f"'{text}': M, N and K are 1 to {_LARGEST}; every byte of them is emulated.")
    return m, n, k


def _line(outcome: Outcome) -> str:
    head = (
        f"{outcome.target.tile:<20} {outcome.problem!s:<60} {outcome.schedules:>6} schedules {outcome.seconds:7.1f} s  "
    )
    if outcome.refused:
        return f"{head}refused: {outcome.refused}"
    if not outcome.failures:
        return f"{head}ok (at most {outcome.worst:.3f} of the bound)"
    return "\n".join([head + "FAILED", *(f"  seed {f.seed}: {f.text}" for f in outcome.failures)])


def _record(outcome: Outcome) -> dict[str, Any]:
    return {
        "family": outcome.target.family,
        "tile": outcome.target.tile,
        "engine": outcome.target.engine,
        "cc": list(outcome.target.cc),
        "problem": [outcome.problem.m, outcome.problem.n, outcome.problem.k],
        "dtype": outcome.problem.dtype,
        "words": dict(outcome.problem.words),
        "schedules": outcome.schedules,
        "ok": outcome.ok,
        "refused": outcome.refused,
        "worst_of_bound": outcome.worst,
        "failures": [{"seed": f.seed, "detector": f.detector, "text": f.text} for f in outcome.failures],
    }
