"""What is measured: legal candidates, and cells on both sides of today's thresholds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright_codegen.calibrate.candidates import choices
from tilewright_codegen.calibrate.plan import Design, Seeds, plan
from tilewright_codegen.calibrate.shapes import ROWS, SHAPES
from tilewright_codegen.evaluate import decide
from tilewright_codegen.grid import Point
from tilewright_codegen.ir import Family, SpecTree
from tilewright_codegen.resources import is_legal

from .conftest import cell

DESIGN = Design(("bf16",), 48, points=(Point(4096, 4096), Point(14336, 4096)), rows=(16, 64, 256), seeded=16)
WIDE = Design(("bf16",), 48, rows=(16, 64, 256), seeded=16)


def test_the_incumbent_is_what_the_rules_launch(tree: SpecTree, family: Family) -> None:
    arch = tree.archs["sm121"]
    checked = 0
    for M in (1, 5, 16, 64, 256, 400):
        for N, K in ((4096, 4096), (14336, 4096), (1024, 8192)):
            decision = decide(family, "sm121", cell(M, N, K).problem())
            for layer in family.layers:
                found = None if layer.repairs else choices(family, arch, layer, cell(M, N, K))
                if found is not None:
                    assert found.outcome == decision.value(layer.name)
                    assert found.incumbent == (decision.tile(family) or "fallback")
                    checked += 1
    assert checked > 40


def test_candidates_of_a_tile_layer_are_legal_and_of_one_engine(tree: SpecTree, family: Family) -> None:
    found = choices(family, tree.archs["sm121"], family.layer_by_name["tile"], cell(64, 4096, 4160), through=True)
    assert found is not None
    tiles = [family.tile_by_id[str(o)] for o in found.launches]
    assert len(tiles) > 3
    assert {t.engine for t in tiles} == {"mma_m16n8k16"}
    launched = [family.tile_by_id[name] for name in found.launches.values()]
    assert all(is_legal(tree.archs["sm121"].profile, t) for t in tiles)
    assert all(t.fields["kc"] == 64 for t in launched), "K = 4160 is no multiple of 128"


def test_outcomes_of_the_path_are_a_kernel_and_the_fallback(tree: SpecTree, family: Family) -> None:
    found = choices(family, tree.archs["sm121"], family.layer_by_name["path"], cell(512, 4096, 4096))
    assert found is not None
    assert found.incumbent == "fallback"
    assert found.launches["custom"] in family.tile_by_id


def test_a_settled_cell_is_asked_only_through(tree: SpecTree, family: Family) -> None:
    arch, layer, at = tree.archs["sm121"], family.layer_by_name["tile"], cell(2048, 4096, 14336)
    assert choices(family, arch, layer, at) is None
    through = choices(family, arch, layer, at, through=True)
    assert through is not None
    assert through.incumbent == "128x128-64"


def test_seeded_cells_come_in_pairs_around_a_flip(tree: SpecTree, family: Family) -> None:
    arch, layer = tree.archs["sm121"], family.layer_by_name["path"]
    cells = Seeds(family, arch, layer, WIDE).cells()
    assert len(cells) == 16
    outcomes = [decide(family, "sm121", c.problem()).value("path") for c in cells]
    assert all(outcomes[i] != outcomes[i + 1] for i in range(0, len(cells), 2))


def test_a_plan_is_the_same_each_time_and_has_no_cell_twice(tree: SpecTree, family: Family) -> None:
    arch, layer = tree.archs["sm121"], family.layer_by_name["path"]
    first, second = plan(family, arch, layer, DESIGN), plan(family, arch, layer, DESIGN)
    keys = [c.cell.key() for c in first]
    assert keys == [c.cell.key() for c in second]
    assert len(set(keys)) == len(keys) > 6
    assert all(c.challengers and c.incumbent not in c.challengers for c in first)


def test_another_seed_takes_other_cells(tree: SpecTree, family: Family) -> None:
    arch, layer = tree.archs["sm121"], family.layer_by_name["path"]
    small = replace(WIDE, seeded=8)
    assert Seeds(family, arch, layer, small).cells() != Seeds(family, arch, layer, replace(small, seed=2)).cells()


def test_a_plan_is_cut_to_a_sample(tree: SpecTree, family: Family) -> None:
    arch, layer = tree.archs["sm121"], family.layer_by_name["path"]
    whole = {c.cell.key() for c in plan(family, arch, layer, DESIGN)}
    part = [c.cell.key() for c in plan(family, arch, layer, replace(DESIGN, max_cells=5))]
    assert len(part) == 5
    assert set(part) < whole


@pytest.mark.parametrize("point", SHAPES, ids=lambda p: p.name)
def test_shipped_shapes_are_named_and_fit_every_tile(point: Point) -> None:
    assert point.name
    assert point.K % 128 == 0


def test_shipped_shapes_and_rows_have_no_doubles() -> None:
    assert len({(p.N, p.K) for p in SHAPES}) == len({p.name for p in SHAPES}) == len(SHAPES)
    assert list(ROWS) == sorted(set(ROWS))
