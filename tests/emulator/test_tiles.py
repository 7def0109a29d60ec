"""Kernels under many schedules: every engine with a ring deeper and one shallower than the K loop, and ragged edges."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright_codegen.emulate.build import Target
from tilewright_codegen.emulate.cases import Problem
from tilewright_codegen.emulate.problems import small_problems
from tilewright_codegen.emulate.schedules import run_schedules
from tilewright_codegen.tree import load_tree

from .recorded_cases import mma_fp8
from .tiles import (
    SM100,
    SM103,
    SM107,
    decode_4bit,
    mma_4bit,
    mma_nvfp4,
    rubin_nvfp4,
    simt_4bit,
    tcgen05_fp8,
    tcgen05_nvfp4,
    wgmma_4bit,
    wgmma_fp8,
)

SCHEDULES = 200
LONG = int(os.environ.get("TILEWRIGHT_EMULATOR_SCHEDULES", "0"))
SPECS = Path(__file__).resolve().parents[2] / "specs"

DEEP = {
    "simt": (simt_4bit(), Problem(5, 12, 512, words={"quant_type": "fp4", "blocksize": 32})),
    "mma": (mma_4bit(), Problem(37, 72, 416, words={"nested": 1})),
    "decode": (decode_4bit(), Problem(7, 120, 512)),
    "decode-pair": (decode_4bit(cluster=2), Problem(5, 150, 768, words={"quant_type": "e2m1"})),
    "decode-wide": (
        decode_4bit(lut=5),
        Problem(3, 48, 320, words={"quant_type": "e2m1", "layout": "prepacked"}),
    ),
    "decode-staged": (decode_4bit(mb=16, kb=4, occupancy=1, ring_kb=24), Problem(11, 300, 1024)),
    "decode-staged-prepacked": (
        decode_4bit(mb=16, occupancy=1, lut=0, cluster=2),
        Problem(13, 144, 1472, words={"quant_type": "e2m1", "layout": "prepacked"}),
    ),
    "decode-staged-chunks": (
        decode_4bit(mb=16, kb=8, occupancy=1, ring_kb=80),
        Problem(16, 144, 2752, words={"nested": 1, "layout": "prepacked"}),
    ),
    "wgmma": (wgmma_4bit(), Problem(20, 70, 512)),
    "wgmma-shared-a": (wgmma_4bit(cluster_n=2, lut_parts=2), Problem(20, 140, 448, words={"quant_type": "e2m1"})),
    "wgmma-split-k": (wgmma_4bit(split_k=2, kc=128), Problem(20, 70, 1280, words={"nested": 1})),
    "wgmma-last-box": (wgmma_4bit(mt=128, occupancy=1), Problem(140, 70, 448)),
    "fp8": (wgmma_fp8(), Problem(70, 72, 656, words={"scaling": "row"})),
    "fp8-block": (wgmma_fp8(promote=1), Problem(70, 72, 640, words={"scaling": "block", "fast_accum": 0})),
    "fp8-block-along-m": (
        wgmma_fp8(promote=1),
        Problem(72, 72, 640, words={"scaling": "block", "fast_accum": 0, "scales_along_m": 1}),
    ),
    "fp8-shared-b": (wgmma_fp8(cluster_m=2), Problem(140, 72, 656, words={"pad_out": 3})),
    "fp8-swapped": (wgmma_fp8("f32", swap=1, mt=16, split_k=2), Problem(20, 72, 1024)),
    "fp8-split-warpgroups": (
        wgmma_fp8(mt=128, consumers=2, promote=1, split_k=2, occupancy=1),
        Problem(130, 72, 640, words={"scaling": "block", "fast_accum": 0}),
    ),
    "fp8-part-of-a-chunk": (
        wgmma_fp8("f32", mt=128, nt=112, consumers=2, split_k=2, occupancy=1),
        Problem(101, 184, 656, words={"scaling": "row"}),
    ),
    "fp8-pingpong": (wgmma_fp8(consumers=2, pingpong=1, occupancy=1), Problem(200, 72, 640)),
    "fp8-mma": (mma_fp8(), Problem(70, 72, 400, words={"scaling": "row"})),
    "geforce-nvfp4": (mma_nvfp4(), Problem(70, 61, 1184)),
    "blackwell-nvfp4": (tcgen05_nvfp4(), Problem(270, 120, 1088)),
    "blackwell-fp8": (tcgen05_fp8(), Problem(270, 120, 592, words={"scaling": "row"})),
    "blackwell-promoted": (
        tcgen05_fp8(promote=True),
        Problem(270, 120, 640, words={"scaling": "block", "fast_accum": 0}),
    ),
    "rubin-nvfp4": (rubin_nvfp4(), Problem(530, 250, 832)),
    "rubin-fp8": (
        tcgen05_fp8(SM107, pair="2x1", k_bytes=64, collector_b=True, accumulators=1),
        Problem(530, 120, 592),
    ),
}
SHALLOW = {
    "mma": (mma_4bit(), Problem(9, 61, 96, words={"quant_type": "e2m1", "bias": 0})),
    "decode": (decode_4bit(), Problem(3, 13, 64, words={"blocksize": 32, "nested": 1})),
    "decode-staged": (
        decode_4bit("f16", mb=16, occupancy=1, lut=0, cluster=2),
        Problem(15, 29, 64, words={"blocksize": 32, "nested": 1}),
    ),
    "wgmma": (wgmma_4bit("f16"), Problem(7, 61, 64, words={"quant_type": "fp4"})),
    "wgmma-split-k": (wgmma_4bit(split_k=2), Problem(16, 64, 192)),
    "fp8": (wgmma_fp8("f16"), Problem(61, 61, 144, words={"a_type": "e5m2", "pad_out": 3})),
    "blackwell-nvfp4": (tcgen05_nvfp4(nt=256, cluster=4, accumulators=1), Problem(130, 300, 64, words={"pad_out": 3})),
    "blackwell-ultra-nvfp4": (tcgen05_nvfp4(SM103, k_bytes=48, stages=4), Problem(130, 100, 832)),
    "rubin-nvfp4": (rubin_nvfp4(nt=256, multicast_32b=True), Problem(300, 300, 320)),
}
CASES = {f"{name}-deep": case for name, case in DEEP.items()} | {
    f"{name}-shallow": case for name, case in SHALLOW.items()
}


def check(target: Target, problem: Problem, schedules: int) -> None:
    outcome = run_schedules(target, problem, schedules)
    assert outcome.refused is None
    assert not outcome.failures, outcome.failures[0].text
    assert outcome.schedules == schedules


@pytest.mark.parametrize("name", CASES)
def test_schedules(name: str) -> None:
    target, problem = CASES[name]
    check(target, problem, SCHEDULES)


@pytest.mark.slow
@pytest.mark.skipif(
    not LONG, reason="a long job: TILEWRIGHT_EMULATOR_SCHEDULES says how many schedules a tile, e.g. 10000"
)
@pytest.mark.parametrize("name", CASES)
def test_many_schedules(name: str) -> None:
    check(*CASES[name], LONG)


@pytest.mark.slow
@pytest.mark.skipif(
    not LONG, reason="a long job: TILEWRIGHT_EMULATOR_SCHEDULES says how many schedules a tile, e.g. 10000"
)
def test_tiles_of_the_specs() -> None:
    """Every tile that the specs build, at its own small problems."""
    from tilewright_codegen.commands.emulate import _targets

    tree = load_tree(str(SPECS))
    for family in tree.families.values():
        for target in _targets(family, (), list(tree.archs.values()), "bf16"):
            for problem in small_problems(target):
                check(target, problem, max(1, LONG // 50))


def test_blackwell_tile_on_rubin() -> None:
    check(tcgen05_nvfp4(SM107), Problem(200, 136, 512), 20)


def test_same_seed_same_schedule() -> None:
    """A seed is all that a schedule depends on."""
    from tilewright_codegen.emulate.build import build
    from tilewright_codegen.emulate.gemm_4bit import make_case
    from tilewright_codegen.emulate.library import Library
    from tilewright_codegen.emulate.schedules import device_for

    target = wgmma_4bit()
    library = Library(build(target), device_for(target))
    case = make_case(library, Problem(20, 70, 256), 2)
    steps = {}
    for seed in (3, 4, 3):
        case.reset()
        assert library.run(case.arguments, seed) == (0, ())
        assert steps.setdefault(seed, library.steps()) == library.steps()
    assert steps[3] != steps[4]
    library.close()


def test_refusals_reach_the_caller() -> None:
    """What a launcher refuses is no finding: a K that the engine does not take."""
    outcome = run_schedules(tcgen05_nvfp4(SM100), Problem(16, 16, 48), 1)
    assert outcome.refused == "cudaErrorNotSupported"
