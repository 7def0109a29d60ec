"""The emulator beside an H200: the same operands through the same launchers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright_codegen.emulate import gemm_4bit, gemm_fp8
from tilewright_codegen.emulate.build import build
from tilewright_codegen.emulate.cases import wide
from tilewright_codegen.emulate.library import Library
from tilewright_codegen.emulate.schedules import READS_ANYTHING, device_for

from .recorded_cases import RECORDED, Recorded

DATA = np.load(Path(__file__).with_name("h200.npz"))
FAMILIES = {"gemm_4bit": gemm_4bit, "gemm_fp8": gemm_fp8}


@pytest.mark.parametrize("case", RECORDED, ids=lambda c: c.name)
def test_as_on_the_device(case: Recorded) -> None:
    library = Library(build(case.target), device_for(case.target))
    try:
        for file in READS_ANYTHING.get((case.target.family, case.target.engine), ()):
            library.allow_uninitialised(file)
        made = FAMILIES[case.target.family].make_case(library, case.problem, 4)
        made.reset()
        assert library.run(made.arguments, 1) == (0, ())
        emulated = np.where(made.written, made.result(), 0.0)
    finally:
        library.close()
    recorded = wide(DATA[case.name], case.target.dtype)
    if case.same_bits:
        np.testing.assert_array_equal(emulated, recorded)
    else:
        # Both are within the bound of the exact result, so they are within twice that of each other. The fp8 products
        # of sm_90 add up with fewer bits than fp32 has.
        narrow_sums = case.target.family == "gemm_fp8" and case.target.engine == "wgmma"
        slack = 2.0**-12 * made.work if narrow_sums else 0.0
        assert np.all(np.abs(emulated - recorded) <= 2 * made.bound + slack)
