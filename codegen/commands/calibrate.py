"""`tilewright calibrate`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._common import fail, load_or_exit, pick, pick_arch, pick_family, pick_words, specs_option

if TYPE_CHECKING:
    from ..calibrate.analyse import Analysis
    from ..calibrate.candidates import Choices
    from ..calibrate.measure import Campaign
    from ..calibrate.plan import Design
    from ..calibrate.records import Header, Method
    from ..ir import Arch, Family, Layer, SpecTree

SIDES = ("M-", "M+", "waves-", "waves+", "K-", "K+")


@click.command("calibrate")
@click.argument("family_name", metavar="FAMILY")
@click.option("--layer", "layer_name", help="Layer whose outcomes compete.")
@click.option(
    "--costs", "table", metavar="TABLE", help="Fit a table of costs to all tiles instead of rules to a layer."
)
@click.option(
    "--engine", "engines", multiple=True, help="Engine whose tiles compete for --costs.  [default: the arch's]"
)
@click.option("--arch", "arch_name", help="Arch whose rules are calibrated, such as sm90.  [default: the card's]")
@click.option("--sms", type=click.IntRange(1), help="SMs of the card.  [default: the card's, or the profile's]")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder.  [default: calibration/ARCH-LAYER]"
)
@click.option("--dtype", "dtypes", multiple=True, help="Type of the activations; may be repeated.  [default: bf16]")
@click.option("--shape", "shapes", multiple=True, help="NxK instead of the shipped list; may be repeated.")
@click.option("--rows", help="Values of M, separated by commas, instead of the shipped list.")
@click.option("--input", "inputs", multiple=True, help="A further input, such as quant_type=fp4.")
@click.option(
    "--layout", "layouts", multiple=True, type=click.Choice(["packed", "prepacked"]),
    help="Order of a 4-bit weight's bytes: short for --input layout=WORD.  [default: packed]",
)  # fmt: skip
@click.option("--seeded", type=click.IntRange(0), default=60, show_default=True, help="Cells at today's thresholds.")
@click.option("--max-cells", type=click.IntRange(1), help="A seeded sample of so many cells.")
@click.option("--passes", type=click.IntRange(6), default=7, show_default=True, help="Fresh processes of the recheck.")
@click.option("--rounds", type=click.IntRange(3), default=25, show_default=True, help="Interleaved rounds of a pass.")
@click.option("--quick", is_flag=True, help="For --costs: leave out the fits without a weight, which take a minute.")
@click.option("--hot", is_flag=True, help="Also with the weights left in the cache (reported, not decided by).")
@click.option("--extend", multiple=True, type=click.Choice(SIDES), help="Side of the measured region to leave open.")
@click.option("--through", is_flag=True, help="Also cells that an earlier layer settles today.")
@click.option("--device", type=click.IntRange(0), default=0, show_default=True, help="Number of the card.")
@click.option("--scheduler", metavar="ADDRESS", help="dask scheduler whose workers measure, one a card.")
@click.option("--synthetic", type=click.Path(exists=True, dir_okay=False, path_type=Path), hidden=True)
@click.option("--plan", "plan_only", is_flag=True, help="Print the cells and stop.")
@click.option("--analyse", "analyse_only", is_flag=True, help="Measure nothing; use what is recorded.")
@specs_option
def command(**given: Any) -> None:
    """Measure the outcomes of a layer against each other, and write the rules that the times defend.

    The folder OUT gets records.jsonl (every pass, as it comes), report.md, report.html and, where a rule is defended,
    rules.patch for `git apply`; tuned.json holds the proven cells for tilewright.load_tuned. A campaign that was
    stopped goes on where it was. Clocks are never changed.
    """
    tree = load_or_exit(given["specs"])
    family = pick_family(tree, given["family_name"])
    _check_options(given)
    if given["table"] is not None:
        _costs(tree, family, given)
        return
    if given["layer_name"] is None:
        fail("a layer is needed: --layer NAME.", f"layers: {', '.join(family.layer_by_name)}; or --costs TABLE")
    layer = family.layer_by_name[pick("layer", given["layer_name"], family.layer_by_name)]
    if layer.repairs:
        fail(f"layer '{layer.name}' repairs what '{layer.repairs}' chose; calibrate that one.")
    arch = _arch(tree, family, given)
    given["out"] = given["out"] or Path("calibration") / "-".join((arch.name, layer.name, *_apart(family, given)))
    cells = [] if given["analyse_only"] else _plan(family, arch, layer, given)
    if given["plan_only"]:
        _show_plan(cells)
        return
    campaign = _campaign(family, layer.name, arch, cells, given)
    if not given["analyse_only"]:
        _run(campaign, given["scheduler"])
    if campaign.store.header is None or not campaign.store.passes:
        fail(f"{given['out']} holds no records.", "run without --analyse first")
    _matches(campaign)
    from ..calibrate.analyse import analyse

    found = analyse(
        tree, family, layer, campaign.store.header, campaign.store.passes,
        extend=given["extend"], failed=sorted(campaign.failed.items()),
    )  # fmt: skip
    _write(found, given["out"])


def _check_options(given: dict[str, Any]) -> None:
    """Refuse options that would be ignored, and names that no table can have."""
    from ..models.base import WORD

    table = given["table"]
    layouts = dict.fromkeys(f"layout={word}" for word in given["layouts"])
    given["inputs"] = (*given["inputs"], *layouts)
    if len({text for text in given["inputs"] if text.startswith("layout=")}) > 1:
        fail("one layout at a time: each has cells and costs of its own.", "run once for each --layout")
    if table is None:
        unread = [option for option, key in (("--engine", "engines"), ("--quick", "quick")) if given[key]]
        if unread:
            fail(f"{unread[0]} is for a table of costs: --costs TABLE.")
    elif given["layer_name"] is not None:
        fail("--layer and --costs exclude each other.", "a table of costs is fitted to tiles of any layer")
    elif re.fullmatch(WORD, table) is None:
        fail(f"--costs '{table}' is not a plain word (letters, digits and underscores).")


def _apart(family: Family, given: dict[str, Any]) -> list[str]:
    """Words by which the folder of a campaign is told apart from that of the same layer."""
    known = {name: item.words[0] for name, item in family.input_by_name.items() if item.is_enum}
    return [word for name, word in pick_words(family, given["inputs"]).items() if word != known[name]]


def _arch(tree: SpecTree, family: Family, given: dict[str, Any]) -> Arch:
    """The arch that is named, or that of the card."""
    given["family_name"] = family.name
    given["backend"] = _backend(given)
    if given["arch_name"] is None and given["scheduler"]:
        fail("with --scheduler the arch must be named: --arch.")
    if given["arch_name"] is None:
        given["arch_name"], card_sms = _card(given["backend"])
        given["sms"] = given["sms"] or card_sms
    return pick_arch(tree, given["arch_name"])


def _costs(tree: SpecTree, family: Family, given: dict[str, Any]) -> None:
    """Measure every tile in every cell once, and fit a table of costs."""
    from ..calibrate.cost_fit import MIN_CELLS
    from ..calibrate.cost_plan import cost_plan
    from ..calibrate.cost_table import compact, document, make_table, report

    arch = _arch(tree, family, given)
    table = given["table"]
    out = given["out"] = given["out"] or Path("calibration") / f"{arch.name}-{table}"
    engines = [pick("engine", e, arch.profile.engines) for e in given["engines"]] or list(arch.profile.engines)
    cells = [] if given["analyse_only"] else cost_plan(family, arch, engines, _design(family, arch, given))
    if not cells and not given["analyse_only"]:
        fail(f"two tiles of {', '.join(engines)} compete nowhere on {arch.name} for these shapes and sizes.")
    if given["plan_only"]:
        _show_plan(cells)
        return
    campaign = _campaign(family, table, arch, cells, given)
    campaign.screen_only = True
    if not given["analyse_only"]:
        _run(campaign, given["scheduler"])
    if campaign.store.header is None or not campaign.store.passes:
        fail(f"{out} holds no records.", "run without --analyse first")
    _matches(campaign)
    found = make_table(family, table, campaign.store.header, campaign.store.passes, hold_out=not given["quick"])
    if not found.costs:
        fail(f"no tile was timed in {MIN_CELLS} cells, so there is nothing to fit.", "name more --rows or --shape")
    (out / "costs.yaml").write_text(document(found, _why(found.header, campaign.store.passes[0].cell.words)), "utf-8")
    (out / "times.json").write_text(compact(found), "utf-8")
    (out / "report.md").write_text(report(found), "utf-8")
    click.echo(json.dumps(found.numbers()))
    click.echo(f"wrote {out / 'costs.yaml'}, {out / 'times.json'} and {out / 'report.md'}")


def _why(header: Header, words: Mapping[str, str]) -> str:
    """What the costs of a table are of."""
    return ", ".join([f"picoseconds on {header.device.product}", *(f"{key} {word}" for key, word in words.items())])


def _plan(family: Family, arch: Arch, layer: Layer, given: dict[str, Any]) -> list[Choices]:
    from ..calibrate.plan import plan
    from ..evaluate import ProblemError

    try:
        cells = plan(family, arch, layer, _design(family, arch, given))
    except ProblemError as error:
        fail(f"{error}.")
    if not cells:
        fail(f"layer '{layer.name}' has nothing to choose on {arch.name} for these shapes and sizes.")
    return cells


def _design(family: Family, arch: Arch, given: dict[str, Any]) -> Design:
    from ..calibrate.plan import Design
    from ..calibrate.shapes import ROWS, SHAPES

    dtypes = tuple(dict.fromkeys(pick("dtype", d, family.dtypes) for d in given["dtypes"] or ("bf16",)))
    return Design(
        dtypes=dtypes,
        num_sms=given["sms"] or arch.profile.sm_counts[0],
        points=tuple(_point(text) for text in given["shapes"]) or SHAPES,
        rows=_rows(given["rows"]) or ROWS,
        words=tuple(pick_words(family, given["inputs"]).items()),
        blocksize=16 if "quant_type=e2m1" in given["inputs"] else 64,
        seeded=given["seeded"],
        max_cells=given["max_cells"],
        through=given["through"],
    )


def _point(text: str) -> Any:
    from ..grid import Point

    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and int(p) > 0 for p in parts):
        fail(f"'{text}' is no shape; NxK is expected, such as 4096x14336.")
    return Point(int(parts[0]), int(parts[1]))


def _rows(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = [p.strip() for p in text.split(",")]
    if not all(p.isascii() and p.isdigit() and int(p) > 0 for p in parts):
        fail(f"'{text}' is no list of sizes; such as 1,2,4,8 is expected.")
    return tuple(sorted({int(p) for p in parts}))


def _show_plan(cells: list[Choices]) -> None:
    for c in cells:
        click.echo(f"{c.cell}: {c.incumbent} ({c.rule.id}) against {', '.join(c.challengers)}")
    launches = sum(1 + len(c.challengers) for c in cells)
    click.echo(f"{len(cells)} cells, {launches} launches to time", err=True)


def _method(given: dict[str, Any]) -> Method:
    from ..calibrate.records import Method

    modes = ["rotated", "hot"] if given["hot"] else ["rotated"]
    method = {"passes": given["passes"], "rounds": given["rounds"], "modes": modes}
    if given["table"] is not None:  # many cells, each measured once
        method |= {"warmup": 2, "rounds": given["rounds"], "replay_us": 150}
    return Method.model_validate(method)


def _backend(given: dict[str, Any]) -> dict[str, Any]:
    if given["synthetic"] is None:
        return {"kind": "cuda", "device": given["device"], "family": given["family_name"]}
    from pydantic import ValidationError

    from ..calibrate.synthetic import World

    try:
        world = World.model_validate_json(given["synthetic"].read_text("utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        fail(f"{given['synthetic']} describes no synthetic card: {str(error).splitlines()[0]}.")
    return {"kind": "synthetic", "world": world.model_dump(mode="json")}


def _card(backend: dict[str, Any]) -> tuple[str, int]:
    """Arch and SM count of the card that would measure."""
    from ..calibrate.measure import MeasureError, ask_device

    try:
        device = ask_device(backend)
    except MeasureError as error:
        fail(f"{error}.", "without a card: --arch, with --plan or --analyse")
    return device.arch, device.num_sms


def _campaign(family: Family, layer: str, arch: Arch, cells: list[Choices], given: dict[str, Any]) -> Campaign:
    from ..calibrate.measure import Campaign
    from ..calibrate.records import RecordError, Store

    try:
        store = Store(given["out"] / "records.jsonl")
    except RecordError as error:
        fail(f"{error}.")
    return Campaign(
        family.name, layer, cells, _method(given), given["backend"], store, arch.name, through=given["through"],
        say=lambda text: click.echo(text, err=True),
    )  # fmt: skip


def _run(campaign: Campaign, scheduler: str | None) -> None:
    from ..calibrate.measure import MeasureError

    try:
        if scheduler is None:
            campaign.run()
            return
        from ..calibrate.cluster import cluster_runner

        with cluster_runner(scheduler, campaign.arch) as campaign.runner:
            campaign.pooled = True
            campaign.run()
    except MeasureError as error:
        fail(f"{error}.")
    except KeyboardInterrupt:
        click.echo("stopped; the same command goes on from here", err=True)
        sys.exit(130)


def _matches(campaign: Campaign) -> None:
    header = campaign.store.header
    assert header is not None
    recorded = (header.family, header.layer, header.device.arch)
    if recorded != (campaign.family, campaign.layer, campaign.arch):
        fail(f"the records are of {' '.join(recorded)}, asked for was "
             f"{campaign.family} {campaign.layer} {campaign.arch}.")  # fmt: skip


def _write_table(found: Analysis, out: Path) -> None:
    """The proven cells for `tilewright.load_tuned`, where the records say on what they were measured."""
    from ..calibrate.table import FAMILY, TableError, text, tuned_table

    path = out / "tuned.json"
    path.unlink(missing_ok=True)
    header = found.header
    if header.family != FAMILY:
        return
    try:
        table = tuned_table(header.family, header.device, found.cells, header.source)
    except TableError as error:
        click.echo(f"no table for load_tuned: {error}")
        return
    if table["entries"]:
        path.write_text(text(table), "utf-8")
        click.echo(f"wrote {path}: {len(table['entries'])} entries for tilewright.load_tuned")


def _write(found: Analysis, out: Path) -> None:
    from ..calibrate.page import page
    from ..calibrate.report import markdown, summary

    whole = summary(found)
    lines = ",\n".join(json.dumps(c) for c in whole.pop("cells"))
    head = json.dumps(whole)[:-1]
    (out / "summary.json").write_text(f'{head}, "cells": [\n{lines}\n]}}\n', "utf-8")
    (out / "report.md").write_text(markdown(found), "utf-8")
    (out / "report.html").write_text(page(found), "utf-8")
    _write_table(found, out)
    patch = out / "rules.patch"
    patch.unlink(missing_ok=True)
    click.echo(found.conclusion)
    if found.patch is not None and found.checked is not None:
        if not found.checked.ok:
            problems = [str(d.message) for d in found.checked.new if d.is_error] + list(found.checked.surprises)
            fail(f"the patch was not written: {problems[0]}", "see report.md")
        patch.write_text(found.patch.diff, "utf-8")
        click.echo(f"wrote {patch}; {found.checked.outside or 'no grid of decisions to compare on'}")
    click.echo(f"wrote {out / 'report.md'} and {out / 'report.html'}")
