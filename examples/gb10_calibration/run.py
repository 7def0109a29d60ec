"""Retells the calibration of the GB10 on its published numbers: what the tool accepts, and what it rejects.

Needs tilewright installed (pip install -e .): python examples/gb10_calibration/run.py [--out FOLDER]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from tilewright_codegen.calibrate.analyse import Analysis, analyse
from tilewright_codegen.calibrate.candidates import choices
from tilewright_codegen.calibrate.page import page
from tilewright_codegen.calibrate.patch import Style, apply_patch
from tilewright_codegen.calibrate.records import Cell, Device, Header, Method, Pass
from tilewright_codegen.calibrate.report import markdown
from tilewright_codegen.difference import Difference, compare
from tilewright_codegen.ir import Arch, Family
from tilewright_codegen.tree import load_tree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
SOURCE = "published numbers of the GB10 and what had to be filled in, see examples/gb10_calibration/published.yaml"
FALLBACK, DTYPES = "fallback", ("bf16", "f16")


def stock_tree(folder: Path) -> Path:
    """The example tree without the sm121 tier, by the patch of the other example."""
    place = HERE.parent / "add_sm121_tier" / "run.py"
    spec = importlib.util.spec_from_file_location("add_sm121_tier", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Path = module.stock_tree(folder)
    return made


def cell(data: dict[str, Any], M: int, N: int, K: int, dtype: str) -> Cell:
    device = data["device"]
    return Cell(arch=device["arch"], num_sms=device["num_sms"], dtype=dtype, M=M, N=N, K=K)


def passes(at: Cell, today: str, other: str, ratios: list[float], source: str, stage: str = "recheck") -> list[Pass]:
    """One record a pass."""
    return [
        Pass.model_validate({"stage": stage, "index": i, "cell": at.model_dump(), "incumbent": today,
                             "ratios": {other: ratio}, "source": source})
        for i, ratio in enumerate(ratios)
    ]  # fmt: skip


def path_ratios(data: dict[str, Any]) -> list[tuple[Cell, list[float], str]]:
    """Fallback's time over the fused kernel's by cell, one a session, and whether they are published."""
    path, found = data["path"], []
    sessions, above, lost = path["sessions"], path["above"], path["above"]["lost"]
    for shape in path["medians"]["shapes"]:
        N, K = shape["N"], shape["K"]
        for dtype in path["dtypes"]:
            for M in path["rows"]["value"]:
                found.append((cell(data, M, N, K, dtype), [shape["ratio"]] * sessions, "summary"))
            at = cell(data, above["M"], N, K, dtype)
            if (lost["N"], lost["K"]) == (N, K):
                found.append((at, lost["ratios"], "published"))
            else:
                found.append((at, [above["won"]["ratio"]] * sessions, "summary"))
    return found


def path_records(data: dict[str, Any], family: Family, arch: Arch) -> list[Pass]:
    """The same against what the rules of the family choose today, which is the fused kernel in some cells."""
    found = []
    for at, ratios, status in path_ratios(data):
        today = choices(family, arch, family.layer_by_name["path"], at)
        assert today is not None
        kernel = today.launches["custom"]
        if today.incumbent == FALLBACK:
            found += passes(at, FALLBACK, kernel, ratios, status)
        else:
            found += passes(at, kernel, FALLBACK, [1 / r for r in ratios], status)
    return found


def tile_records(data: dict[str, Any]) -> list[Pass]:
    found = []
    tile = data["tile"]
    for entry in tile["cells"]:
        for dtype in DTYPES:
            at = cell(data, entry["M"], entry["N"], entry["K"], dtype)
            found += passes(at, entry["today"], entry["other"], [entry[dtype]] * tile["passes"], entry["status"])
    for entry in [*tile["rechecked"], *tile["screened"]]:
        at = cell(data, entry["M"], entry["N"], entry["K"], "bf16")
        found += passes(at, entry["today"], entry["other"], [entry["screen"]], entry["status"], "screen")
        found += passes(at, entry["today"], entry["other"], entry.get("passes", []), entry["status"])
    return found


def header(data: dict[str, Any], layer: str, sessions: int, *, through: bool) -> Header:
    method = Method(warmup=8, rounds=25, passes=sessions, noise_floor=data["noise_floor"]["value"])
    device = Device.model_validate(data["device"])
    return Header(family="gemm_4bit", layer=layer, device=device, method=method, source=SOURCE, through=through)


def calibrate_path(data: dict[str, Any], stock: Path) -> Analysis:
    """The path layer of the tree without the tier. K is left open and so are more waves, as the published tier does."""
    tree = load_tree(stock)
    family = tree.families["gemm_4bit"]
    layer, records = family.layer_by_name["path"], path_records(data, family, tree.archs["sm121"])
    style = Style(evidence_id="gb10-path-retold", url=data["url"])
    return analyse(
        tree, family, layer, header(data, "path", data["path"]["sessions"], through=False), records,
        extend=("K-", "K+", "waves+"), style=style,
    )  # fmt: skip


def calibrate_tile(data: dict[str, Any]) -> Analysis:
    """The tile layer of our own tree, whose tiles for sm121 are the published ones."""
    tree = load_tree(ROOT / "specs")
    family = tree.families["gemm_4bit"]
    style = Style(evidence_id="gb10-tile-retold", url=data["url"])
    head = header(data, "tile", data["tile"]["passes"], through=True)
    return analyse(tree, family, family.layer_by_name["tile"], head, tile_records(data), style=style)


def against_published(found: Analysis, stock: Path) -> Difference:
    """The tree with our patch against the one with the published tier, on the grid of the published proof."""
    assert found.patch is not None
    apply_patch(found.patch, stock)
    published = load_tree(EXAMPLE)
    return compare(published, load_tree(stock), "gemm_4bit", published.grids["sm121-case"])


def statements(path: Analysis, tile: Analysis, difference: Difference) -> dict[str, bool]:
    """What the retelling must come to, and whether it does."""
    narrow = [c for c in tile.wins if c.choices.incumbent == "32x128-128"]
    wide = [c for c in tile.cells if c.choices.incumbent == "128x128-64"]
    false_win = [c for c in wide if c.choices.cell.M == 384]
    rules = tile.patch.rules if tile.patch else ()
    return {
        "path: one rule, cap 256, from one wave on": [r.candidate.cap for r in path.patch.rules] == [256]
        and path.patch.rules[0].when == ("full_wave",)
        if path.patch
        else False,
        "path: M = 384 stays with the fallback although 18 of 20 cells win there": any(
            r.where.endswith("M <= 384") for r in (path.fitted.rejected if path.fitted else ())
        ),
        "path: decides as the published tier on 60,720 problems": difference.changed == 0
        and difference.enumerated == 60_720,
        "tile: 32x128-128 is not the best choice in 8 of 8 cells": len(narrow) == 8,
        "tile: a rule takes 32x64-128 where two shapes win": [r.candidate.outcome for r in rules] == ["32x64-128"],
        "tile: no rule replaces 128x128-64": all(
            outcome == "128x128-64" for c, outcome in tile.outcomes() if c.choices.incumbent == "128x128-64"
        ),
        "tile: the win of 14.2 % at M = 384 is no evidence": all(
            c.verdicts["64x64-64"].state == "no evidence" for c in false_win
        )
        and len(false_win) == 1,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write both reports there")
    out = parser.parse_args().out
    data = yaml.safe_load((HERE / "published.yaml").read_text("utf-8"))
    with TemporaryDirectory() as temporary:
        stock = stock_tree(Path(temporary))
        path, tile = calibrate_path(data, stock), calibrate_tile(data)
        difference = against_published(path, stock)
    for name, found in (("path", path), ("tile", tile)):
        print(f"{name}: {found.conclusion}")
        for rule in found.patch.rules if found.patch else ():
            print(f"  {', '.join(rule.when)} -> {rule.candidate.cap or rule.candidate.outcome} ({rule.basis})")
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / f"{name}.md").write_text(markdown(found), "utf-8")
            (out / f"{name}.html").write_text(page(found), "utf-8")
    held = statements(path, tile, difference)
    for statement, holds in held.items():
        print(f"{'holds' if holds else 'FAILS'}: {statement}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
