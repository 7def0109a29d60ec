"""The table of proven choices: what gets an entry, how far it reaches, and that load_tuned's reader takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilewright_codegen.calibrate.judge import judge_cells
from tilewright_codegen.calibrate.records import Device, Method
from tilewright_codegen.calibrate.table import TableError, text, tuned_table
from tilewright_codegen.ir import SpecTree

from .conftest import choice, rechecks

CARD = Device(arch="sm121", num_sms=48, product="card", driver="580.95.05", build="d" * 64, version="0.1.0")


def judged(tree: SpecTree, rows: dict[int, float], challenger: str = "32x64-128") -> Any:
    """Cells of one weight, in which the challenger's ratio is as given."""
    chosen = [choice(tree, "tile", M, 4096, 4096) for M in rows]
    passes = [
        record
        for one, ratio in zip(chosen, rows.values(), strict=True)
        for record in rechecks(one, {challenger if one.incumbent != challenger else "32x64-64": [ratio] * 7})
    ]
    return judge_cells(chosen, passes, Method())


def test_an_entry_reaches_over_neighbours_that_prove_the_same(tree: SpecTree) -> None:
    cells = judged(tree, {200: 1.2, 220: 1.1, 240: 0.9, 250: 1.15, 300: 1.0})
    table = tuned_table("gemm_4bit", CARD, cells, "measured here")
    won = [(c.choices.cell.M, c.best[0]) for c in cells if c.best[1] > 0]
    assert [m for m, _ in won] == [200, 220, 250]
    assert [(e["M"], e["choice"]) for e in table["entries"]] == [([200, 220], won[0][1]), ([250, 250], won[2][1])]
    assert table["entries"][0] | {"M": 0, "choice": ""} == {
        "M": 0, "N": 4096, "K": 4096, "dtype": "bf16", "quant_type": "nf4", "layout": "packed",
        "blocksize": 64, "choice": "",
    }  # fmt: skip


def test_the_reader_of_the_package_takes_it(tree: SpecTree, tmp_path: Path) -> None:
    tuned = pytest.importorskip("tilewright._tuned")
    table = tuned_table("gemm_4bit", CARD, judged(tree, {200: 1.2, 250: 1.15, 230: 0.8}), "measured here")
    (tmp_path / "tuned.json").write_text(text(table))
    head, buckets = tuned.read(tmp_path / "tuned.json")
    assert (head["driver_major"], head["spec_digest"], head["version"]) == (580, "d" * 64, "0.1.0")
    assert [(b.first, b.last) for b in buckets] == [(200, 200), (250, 250)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"driver": None}, "state no driver"),
        ({"driver": "unknown", "build": None}, "state no driver, no build"),
        ({"version": None}, "state no version"),
        ({"synthetic": True}, "synthetic"),
    ],
)
def test_records_without_a_key_give_no_table(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        tuned_table("gemm_4bit", CARD.model_copy(update=changes), [], "measured here")
