"""The tcgen05 kernels on the host: results equal the reference, no race, deadlock or misuse, under a few schedules.

Sums are exact in fp32 in these problems, so results are compared bit for bit.
"""

from __future__ import annotations

import shutil

import pytest

from tilewright_codegen.emulate.build import Target
from tilewright_codegen.emulate.cases import Problem
from tilewright_codegen.emulate.schedules import run_schedules

from .tcgen05_tiles import TILES, PairTile

BY_ID = {tile.id: tile for tile in TILES}
CAPABILITY = {"100f": (10, 0), "103a": (10, 3), "107a": (10, 7)}
SCHEDULES = 3

# Ragged in every direction; a ring deeper than K, then one that turns over; more tiles than the device holds clusters.
CASES = [
    ("nvfp4-1x1-c2-overlap", Problem(1100, 900, 320, values="exact")),
    ("nvfp4-1x1-c4-overlap", Problem(150, 1048, 1856, dtype="f16", values="exact", words={"pad_out": 1})),
    ("nvfp4-1x1-n128-c2", Problem(300, 280, 2112, dtype="f32", values="exact")),
    ("nvfp4-1x1-n64-c2", Problem(40, 500, 2880, values="exact")),
    ("nvfp4-1x1-k96-c2", Problem(300, 300, 1856, values="exact")),
    ("nvfp4-1x1-k128-c2", Problem(600, 300, 1088, values="exact")),
    ("nvfp4-2x1-k128-c4-early", Problem(600, 1048, 1856, values="exact")),
    ("fp8-1x1-c2", Problem(300, 536, 1040, values="exact", words={"scaling": "row", "a_type": "e5m2"})),
    (
        "fp8-1x1-n128-promote",
        Problem(300, 280, 1296, values="exact", words={"scaling": "block", "grouping": "contiguous", "groups": 3}),
    ),
    (
        "fp8-2x1-c2",
        Problem(300, 300, 784, values="exact", words={"scaling": "row", "grouping": "masked", "groups": 2}),
    ),
]


def target_of(tile: PairTile, dtype: str) -> Target:
    found = {name: value for name, value in tile.spec_fields().items() if isinstance(value, int | bool | str)}
    return Target(tile.family, "tcgen05", tile.id, found, CAPABILITY[tile.targets[0]], dtype)


@pytest.mark.slow
@pytest.mark.parametrize(("tile", "problem"), CASES, ids=[tile for tile, _ in CASES])
def test_results_under_random_schedules(tile: str, problem: Problem) -> None:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("needs a C++ compiler")
    outcome = run_schedules(target_of(BY_ID[tile], problem.dtype), problem, SCHEDULES)
    assert outcome.refused is None
    assert [failure.text for failure in outcome.failures] == []
    assert outcome.schedules == SCHEDULES
