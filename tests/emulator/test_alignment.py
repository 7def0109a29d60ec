"""Pointers that a kernel cannot read are refused before the launch."""

from __future__ import annotations

from importlib import import_module

import pytest

from tilewright_codegen.emulate.build import build
from tilewright_codegen.emulate.cases import Problem
from tilewright_codegen.emulate.library import Library
from tilewright_codegen.emulate.schedules import device_for

from .recorded_cases import mma_fp8
from .tiles import decode_4bit, wgmma_4bit

MISALIGNED = 716  # cudaErrorMisalignedAddress
CASES = {
    "4bit-wgmma": (wgmma_4bit(), Problem(20, 70, 256, words={"quant_type": "e2m1"}), {"a": 8, "b": 8, "scales": 2}),
    "4bit-decode": (decode_4bit(), Problem(5, 24, 256), {"a": 8, "b": 8, "scales": 8}),
    "fp8-mma": (mma_fp8(), Problem(20, 72, 400), {"a": 8, "b": 8, "scale_a": 2, "scale_b": 2, "bias": 1, "out": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_misaligned_pointers_are_refused(name: str) -> None:
    target, problem, offsets = CASES[name]
    library = Library(build(target), device_for(target))
    case = import_module(f"tilewright_codegen.emulate.{target.family}").make_case(library, problem, 2)
    case.reset()
    found = {
        pointer: library.run({**case.arguments, pointer: case.arguments[pointer] + offset}, 7)
        for pointer, offset in offsets.items()
    }
    library.close()
    assert found == dict.fromkeys(offsets, (MISALIGNED, ()))
