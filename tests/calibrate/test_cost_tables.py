"""Costs fitted to times: they find the fastest tile again, also of weights that they have not seen."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright_codegen.calibrate import cost_choice, cost_fit, cost_judge
from tilewright_codegen.calibrate.cost_fit import Cost, Geometry, Timed
from tilewright_codegen.calibrate.cost_judge import left_out, regrets, summary
from tilewright_codegen.calibrate.cost_plan import cost_choices
from tilewright_codegen.calibrate.cost_table import Table, document, make_table, read_compact, timed
from tilewright_codegen.calibrate.geometry import geometry
from tilewright_codegen.calibrate.records import Cell, Device, Header, Method, Store
from tilewright_codegen.evaluate import decide
from tilewright_codegen.ir import SpecTree
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
# Tiles whose true costs cross within the grid: small ones, large ones, one that shares tiles in clusters of two.
TRUTH = {
    "small": Cost(Geometry(64, 64, 1, 132), 132, 0, {"start": 3_000_000, "step": 60_000, "round_step": 60_000}),
    "wide": Cost(Geometry(64, 256, 1, 132), 132, 0, {"start": 4_000_000, "step": 190_000, "round_step": 190_000}),
    "large": Cost(
        Geometry(256, 128, 1, 132), 132, 0, {"start": 5_000_000, "step": 260_000, "round_step": 280_000, "weight": 40}
    ),
    "split": Cost(
        Geometry(128, 128, 2, 132), 130, 65,
        {"start": 5_000_000, "step": 80_000, "whole_step": 70_000, "round_step": 150_000, "outside_step": 5},
    ),
}  # fmt: skip
TILES = {name: cost.geometry for name, cost in TRUTH.items()}
SHAPES = [(N, K) for N in (1024, 2048, 3072, 4096, 5120, 8192, 11_008, 14_336) for K in (1024, 2048, 4096, 8192)]
ROWS = (16, 48, 64, 100, 128, 200, 256, 320, 512, 777, 1024)


def campaign(noise: float, seed: int = 1) -> list[Timed]:
    """Times of TRUTH: every cell as a whole drifts by up to 15 %, and one time in fifty is a fifth too long."""
    generator = random.Random(seed)
    cells = []
    for N, K in SHAPES:
        for M in ROWS:
            common = 1 + 0.15 * generator.random()
            times = {}
            for name, cost in TRUTH.items():
                late = 1.2 if generator.random() < 0.02 else 1.0
                times[name] = cost.of(M, N, K) / 1e6 * common * late * generator.lognormvariate(0, noise)
            cells.append(Timed(M, N, K, times))
    return cells


def exact_campaign() -> list[Timed]:
    """Times of TRUTH as they are."""
    times = {name: cost.of for name, cost in TRUTH.items()}
    return [Timed(M, N, K, {n: of(M, N, K) / 1e6 for n, of in times.items()}) for N, K in SHAPES for M in ROWS]


def true_regrets(costs: dict[str, Cost], cells: list[Timed]) -> list[float]:
    """Judged by the truth, not by the noisy times."""
    exact = [Timed(c.M, c.N, c.K, {n: t.of(c.M, c.N, c.K) / 1e6 for n, t in TRUTH.items()}) for c in cells]
    found: list[float] = cost_judge.regrets(costs, exact)
    return found


def test_the_fastest_tile_is_found_again() -> None:
    cells = campaign(noise=0.02)
    costs = cost_fit.fit_costs(cells, TILES)
    found = cost_judge.summary(true_regrets(costs, cells))
    assert found["mispicked"] <= len(cells) // 100
    assert found["regret_geomean"] < 0.001
    assert (costs["split"].blocks, costs["split"].clusters) == (130, 65)


def test_times_that_are_off_do_not_move_the_costs() -> None:
    """One time in twelve of one tile is a third too long, most of them where it has several rounds."""
    cells = campaign(noise=0.0)
    off = [i for i, c in enumerate(cells) if c.M >= 256][::6]
    for i in off:
        cells[i] = replace(cells[i], times={**cells[i].times, "large": 1.33 * cells[i].times["large"]})
    found = cost_fit.fit_costs(cells, TILES)
    exact = cost_fit.fit_costs([c for i, c in enumerate(cells) if i not in off], TILES)
    ratios = [found["large"].of(c.M, c.N, c.K) / exact["large"].of(c.M, c.N, c.K) for c in cells]
    assert max(ratios) < 1.03
    assert min(ratios) > 0.98


def test_choices_are_right_where_no_sum_of_counts_is() -> None:
    """A tile that is as fast as its loads or its products, whichever take longer: straight lines cut that corner."""

    def bent(c: Timed) -> float:
        tiles = -(-c.M // 96) * -(-c.N // 64)
        return 3.3 + max(0.05 * c.K / 64 * (1 + (tiles - 1) // 132), 5e-7 * c.N * c.K)

    tiles = {**TILES, "bent": Geometry(96, 64, 1, 132)}
    cells = [Timed(c.M, c.N, c.K, {**c.times, "bent": bent(c)}) for c in exact_campaign()]
    fitted = cost_fit.fit_costs(cells, tiles)
    before, after = (summary(regrets(costs, cells)) for costs in (fitted, cost_choice.refined(fitted, cells)))
    assert before["mispicked"] >= 8
    assert after["mispicked"] <= 0.7 * before["mispicked"]
    assert after["regret_geomean"] <= 0.65 * before["regret_geomean"]


def test_what_is_right_stays() -> None:
    cells = exact_campaign()
    moved = cost_choice.refined(TRUTH, cells)
    for name, cost in moved.items():
        assert set(cost.values) == set(TRUTH[name].values)
        ratios = [cost.of(c.M, c.N, c.K) / TRUTH[name].of(c.M, c.N, c.K) for c in cells]
        assert min(ratios) > 0.99 and max(ratios) < 1.01


def test_weights_that_were_left_out_are_decided_as_well() -> None:
    cells = campaign(noise=0.01)
    apart = {(3072, 2048), (11_008, 4096), (1024, 8192), (14_336, 1024)}
    costs = cost_fit.fit_costs([c for c in cells if (c.N, c.K) not in apart], TILES)
    found = cost_judge.summary(true_regrets(costs, [c for c in cells if (c.N, c.K) in apart]))
    assert found["mispicked"] <= 1
    assert found["regret_geomean"] < 0.002
    assert cost_judge.summary(cost_judge.left_out(cells, TILES, 4))["regret_geomean"] < 0.01


def test_wrong_costs_are_noticed() -> None:
    """The measure itself: costs of other tiles have a regret."""
    cells = campaign(noise=0.0)
    mixed = {"small": TRUTH["wide"], "wide": TRUTH["small"], "large": TRUTH["split"], "split": TRUTH["large"]}
    assert cost_judge.summary(cost_judge.regrets(mixed, cells))["mispicked"] > len(cells) // 4


def test_same_times_same_costs() -> None:
    one, two = (cost_fit.fit_costs(campaign(noise=0.02), TILES) for _ in range(2))
    assert one == two


def test_a_tile_that_is_never_missed_is_left_out() -> None:
    cells = [Timed(c.M, c.N, c.K, {**c.times, "twin": 1.5 * c.times["small"]}) for c in campaign(noise=0.0)]
    costs = cost_fit.fit_costs(cells, {**TILES, "twin": TILES["small"]})
    assert "twin" in costs
    assert set(cost_judge.used(costs, cells)) == set(TILES)


def test_nonnegative_least_squares() -> None:
    generator = np.random.default_rng(3)
    A = generator.random((40, 6))
    x, distance = cost_fit.nonnegative(A, A @ np.array([1.0, 0, 2, 0, 0, 3]))
    assert x == pytest.approx([1, 0, 2, 0, 0, 3], abs=1e-8)
    assert distance == pytest.approx(0, abs=1e-8)
    # Against the best of every set of columns that gives no negative coefficient.
    y = generator.random(40) - 0.3
    best = float(np.linalg.norm(y))
    for mask in range(1, 64):
        columns = [i for i in range(6) if mask >> i & 1]
        part, *_ = np.linalg.lstsq(A[:, columns], y, rcond=None)
        if (part >= 0).all():
            best = min(best, float(np.linalg.norm(A[:, columns] @ part - y)))
    assert cost_fit.nonnegative(A, y)[1] == pytest.approx(best, abs=1e-8)


@pytest.fixture(scope="module")
def tree() -> SpecTree:
    return load_tree(ROOT / "specs")


def test_candidates_could_run_and_have_a_fitting_size(tree: SpecTree) -> None:
    family, arch = tree.families["gemm_4bit"], tree.archs["sm90"]
    cell = Cell(arch="sm90", num_sms=132, dtype="bf16", M=40, N=4096, K=4096, words={"quant_type": "nf4"})
    found = cost_choices(family, arch, ["wgmma", "decode"], cell)
    assert found is not None
    rows = [family.tile_by_id[n].fields.get("mt", 0) for n in found.challengers]
    assert rows
    assert all(isinstance(r, int) and 0 < r <= 82 for r in rows), "decode tiles take fewer rows, 128 would be empty"


def test_every_tile_of_hopper_has_a_geometry(tree: SpecTree) -> None:
    for family in ("gemm_4bit", "gemm_fp8"):
        for tile in tree.families[family].tiles:
            if tile.engine in ("decode", "wgmma", "mma_m16n8k32"):
                found = geometry(tile, 132)
                assert found is not None
                assert min(found.rows, found.columns, found.split, found.resident) >= 1, tile.id


def command(options: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "tilewright_codegen", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_measures_fits_and_writes(tmp_path: Path, tree: SpecTree) -> None:
    family = tree.families["gemm_fp8"]
    slow = [{"candidate": t.id, "factor": 1.5} for t in family.tiles if t.id.startswith("p128")]
    cell = Cell(arch="sm90", num_sms=132, dtype="bf16", M=96, N=4096, K=4096, words={"scaling": "row"})
    faulty = decide(family, "sm90", cell.problem()).tile(family)
    world = {
        "device": Device(arch="sm90", num_sms=132, product="H200").model_dump(),
        "effects": slow, "faults": {faulty: "early-exit"},
    }  # fmt: skip
    (tmp_path / "world.json").write_text(json.dumps(world))
    out = tmp_path / "out"
    options = [
        "calibrate", "gemm_fp8", "--specs", str(ROOT / "specs"), "--costs", "row", "--input", "scaling=row",
        "--engine", "wgmma", "--arch", "sm90", "--sms", "132", "--synthetic", str(tmp_path / "world.json"),
        "--rows", "64,96,128,256,384,512", "--shape", "4096x4096", "--shape", "8192x2048", "--rounds", "3", "--quick",
        "--out", str(out),
    ]  # fmt: skip
    command(options)
    text = (out / "costs.yaml").read_text()
    assert text.startswith("schema: costs/1\ntable: row\n")
    assert f"id: {faulty}," not in text, "a kernel that leaves early is never timed"
    assert "id: p128x128-128," not in text, "it is half again as slow everywhere"
    command([*options, "--analyse"])
    assert (out / "costs.yaml").read_text() == text
    cells, today = read_compact(json.loads((out / "times.json").read_text()))
    assert 6 <= len(cells) == len(today) < 12, "where the tile of today fails nothing is compared"
    stored = Store(out / "records.jsonl")
    assert stored.header is not None
    exact, _ = timed(stored.passes)
    assert [set(c.times) for c in cells] == [set(c.times) for c in exact]
    table = make_table(family, "row", stored.header, stored.passes, hold_out=False)
    assert document(table, "x").count("  - {id:") == text.count("  - {id:")


@pytest.mark.parametrize(("options", "layout"), [([], "packed"), (["--layout", "prepacked"], "prepacked")])
def test_a_table_is_of_one_layout(options: list[str], layout: str, tmp_path: Path, tree: SpecTree) -> None:
    """The word stands in every cell, in the reason of the table, and what runs today is decided by it."""
    world = {"device": Device(arch="sm90", num_sms=132, product="H200").model_dump()}
    (tmp_path / "world.json").write_text(json.dumps(world))
    out = tmp_path / "out"
    command([
        "calibrate", "gemm_4bit", "--specs", str(ROOT / "specs"), "--costs", "nf4", *options, "--engine", "decode",
        "--arch", "sm90", "--synthetic", str(tmp_path / "world.json"), "--rows", "1,2,4,6,8", "--rounds", "3",
        "--shape", "4096x4096", "--shape", "2048x2048", "--quick", "--out", str(out),
    ])  # fmt: skip
    passes = Store(out / "records.jsonl").passes
    assert {p.cell.words["layout"] for p in passes} == {layout}
    family = tree.families["gemm_4bit"]
    assert all(decide(family, "sm90", p.cell.problem()).tile(family) == p.incumbent for p in passes)
    why = f"why: picoseconds on H200, quant_type nf4, layout {layout}"
    assert why in (out / "costs.yaml").read_text().splitlines()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--layout", "packed", "--layout", "prepacked"], "error: one layout at a time"),
        (["--layout", "packed", "--input", "layout=prepacked"], "error: one layout at a time"),
        (["--layout", "plain"], "Invalid value for '--layout': 'plain' is not one of 'packed', 'prepacked'"),
    ],
)
def test_layouts_that_cannot_be_calibrated_together(options: list[str], text: str) -> None:
    whole = ["calibrate", "gemm_4bit", "--specs", str(ROOT / "specs"), "--costs", "nf4", "--arch", "sm90", "--plan"]
    done = subprocess.run(
        [sys.executable, "-m", "tilewright_codegen", *whole, *options], capture_output=True, text=True
    )
    assert done.returncode != 0 and text in done.stderr and "Traceback" not in done.stderr, done


def test_a_family_without_layouts_says_so() -> None:
    whole = ["calibrate", "gemm_fp8", "--specs", str(ROOT / "specs"), "--costs", "row", "--arch", "sm90", "--plan"]
    command_ = [sys.executable, "-m", "tilewright_codegen", *whole, "--layout", "prepacked"]
    done = subprocess.run(command_, capture_output=True, text=True)
    assert done.returncode == 1 and "error: there is no further input 'layout'" in done.stderr, done


def test_few_cells_give_no_table(tmp_path: Path) -> None:
    world = {"device": Device(arch="sm90", num_sms=132, product="H200").model_dump()}
    (tmp_path / "world.json").write_text(json.dumps(world))
    whole = [
        "calibrate", "gemm_fp8", "--specs", str(ROOT / "specs"), "--costs", "row", "--input", "scaling=row",
        "--engine", "wgmma", "--arch", "sm90", "--synthetic", str(tmp_path / "world.json"), "--rounds", "3",
    ]  # fmt: skip
    cases = {
        "64,128 4096x4096": "error: no tile was timed in 8 cells, so there is nothing to fit.",
        "64 4096x4095": "error: two tiles of wgmma compete nowhere on sm90 for these shapes and sizes.",
    }
    for case, text in cases.items():
        rows, shape = case.split()
        options = [*whole, "--rows", rows, "--shape", shape, "--out", str(tmp_path / rows)]
        done = subprocess.run([sys.executable, "-m", "tilewright_codegen", *options], capture_output=True, text=True)
        assert done.returncode == 1 and text in done.stderr and "Traceback" not in done.stderr, done
        assert not (tmp_path / rows / "costs.yaml").exists()


def test_what_has_no_cost_is_not_judged() -> None:
    cells = [Timed(M, 4096, 4096, {"a": 1.0, "b": 2.0}) for M in range(1, 11)]
    assert left_out(cells, {}) == []
    found = summary([*regrets({}, cells), 0.0, 0.21])
    assert (found["cells"], found["mispicked"]) == (2, 1)
    assert found["regret_geomean"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--costs", "../row"], "--costs '../row' is not a plain word"),
        (["--costs", "row", "--layer", "wgmma_tile"], "--layer and --costs exclude each other"),
        (["--layer", "wgmma_tile", "--engine", "wgmma"], "--engine is for a table of costs"),
        (["--layer", "wgmma_tile", "--quick"], "--quick is for a table of costs"),
    ],
)
def test_options_that_would_be_ignored_are_refused(options: list[str], text: str) -> None:
    whole = ["calibrate", "gemm_fp8", "--specs", str(ROOT / "specs"), "--arch", "sm90", "--plan", *options]
    done = subprocess.run([sys.executable, "-m", "tilewright_codegen", *whole], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert text in done.stderr and "Traceback" not in done.stderr


def test_the_document_keeps_the_costs(tmp_path: Path) -> None:
    header = Header(family="gemm_fp8", layer="x", device=Device(arch="sm90", num_sms=132), method=Method())
    costs = {"p64x64-128": TRUTH["split"], "p128x128-128": TRUTH["large"]}
    text = document(Table("probe", header, (), (), costs, ()), "a test")
    assert "clusters: 65" in text
    assert "outside_step: 5}" in text
    assert all(len(line) <= 120 for line in text.splitlines())
