"""Which engines read weights that the kernel ahead writes before it is done, and that none does when they are fresh."""

from __future__ import annotations

from importlib import import_module

import pytest

from tilewright_codegen.emulate.build import Target, build
from tilewright_codegen.emulate.cases import Problem
from tilewright_codegen.emulate.library import DEPENDENT, Library
from tilewright_codegen.emulate.schedules import READS_ANYTHING, device_for

from .recorded_cases import mma_fp8
from .tiles import SM90, decode_4bit, mma_nvfp4, rubin_nvfp4, tcgen05_fp8, tcgen05_nvfp4, wgmma_4bit, wgmma_fp8

STREAM = dict(mb=8, warps=8, warps_k=4, depth=3, occupancy=2, per_sm=1, a_kb=36, cluster=0)
BULK = dict(mb=16, warps=4, depth=3, occupancy=1, per_sm=1, a_kb=4, cluster=1)
CASES = {
    "4bit-wgmma": (wgmma_4bit(), Problem(20, 70, 256), "b"),
    "4bit-wgmma-scales": (wgmma_4bit(), Problem(20, 70, 256), "scales"),
    "4bit-decode": (decode_4bit(), Problem(5, 24, 256), "b"),
    "4bit-decode-scales": (decode_4bit(), Problem(5, 24, 256), "scales"),
    "fp8-decode": (Target("gemm_fp8", "decode", "stream", STREAM, SM90), Problem(5, 51, 512), "b"),
    "fp8-decode-scales": (Target("gemm_fp8", "decode", "stream", STREAM, SM90), Problem(5, 51, 512), "scale_b"),
    "fp8-bulk": (Target("gemm_fp8", "decode", "bulk1", BULK, SM90), Problem(13, 51, 512), "b"),
    "fp8-wgmma": (wgmma_fp8(), Problem(70, 140, 256), "b"),
    "fp8-mma": (mma_fp8(), Problem(20, 72, 400), "b"),
}

NEVER_EARLY = {
    "fp8-wgmma-promoted": (wgmma_fp8(promote=1), Problem(70, 140, 256)),
    "fp8-tcgen05": (tcgen05_fp8(), Problem(70, 140, 256)),
    "nvfp4-tcgen05": (tcgen05_nvfp4(), Problem(70, 140, 256)),
    "nvfp4-rubin": (rubin_nvfp4(), Problem(70, 140, 256)),
    "nvfp4-mma": (mma_nvfp4(), Problem(70, 140, 256)),
}
"""Where weights are brought into L2 alone, what is written later is what is read."""


def prepared(target: Target) -> Library:
    library = Library(build(target), device_for(target))
    for file in READS_ANYTHING.get((target.family, target.engine), ()):
        library.allow_uninitialised(file)
    return library


@pytest.mark.parametrize("name", NEVER_EARLY)
def test_other_engines_wait_for_weights(name: str) -> None:
    target, problem = NEVER_EARLY[name]
    library = prepared(target)
    case = import_module(f"tilewright_codegen.emulate.{target.family}").make_case(library, problem, 2)
    for written in [argument for argument in ("b", "scale_b", "global_b") if argument in case.arguments]:
        library.mark(case.arguments[written], 4, DEPENDENT, 0)
    case.reset()
    error, findings = library.run(case.arguments, 7)
    library.close()
    assert (error, list(findings)) == (0, [])


@pytest.mark.parametrize("name", CASES)
def test_fresh_weights_wait_for_the_kernel_ahead(name: str) -> None:
    target, problem, written = CASES[name]
    library = prepared(target)
    case = import_module(f"tilewright_codegen.emulate.{target.family}").make_case(library, problem, 2)
    library.mark(case.arguments[written], 4, DEPENDENT, 0)
    found = {}
    for fresh in (0, 1):
        case.reset()
        error, findings = library.run({**case.arguments, "fresh_weights": fresh}, 7)
        found[fresh] = (error == 0, {finding.detector for finding in findings})
    library.close()
    assert found == {0: (False, {"dependency"}), 1: (True, set())}
