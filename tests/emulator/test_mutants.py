"""Every planted bug is caught, by a check that names it."""

from __future__ import annotations

import pytest

from tilewright_codegen.emulate.schedules import run_schedules

from . import mutants_4bit, mutants_fp8_decode, mutants_fp8_nvfp4
from .mutant import Mutant

MUTANTS = (*mutants_4bit.MUTANTS, *mutants_fp8_decode.MUTANTS, *mutants_fp8_nvfp4.MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_caught(mutant: Mutant) -> None:
    outcome = run_schedules(mutant.built(), mutant.problem, 40)
    assert outcome.failures, f"{mutant.name} goes unnoticed"
    assert outcome.failures[0].detector in mutant.detectors, outcome.failures[0].text


def test_every_detector_has_a_bug() -> None:
    seen = {detector for mutant in MUTANTS for detector in mutant.detectors}
    wanted = "deadlock race in-flight uninitialised proxy-fence barrier bounds alignment descriptor exited registers"
    assert seen >= {*wanted.split(), "tensor-memory", "collector", "dependency", "padding", "result"}
