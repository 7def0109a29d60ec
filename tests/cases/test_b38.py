"""B38: two tunes of a quiet card disagree on nearly half of the keys; a win of the first pass is noise.

The series are synthetic, with known right answers; tests/calibrate has many more.
"""

from __future__ import annotations

import math
import random

import pytest

from tilewright_codegen.calibrate.bench import Check, fault
from tilewright_codegen.calibrate.records import usable
from tilewright_codegen.calibrate.stats import judge


def drifting(ratio: float, drift: float, seed: int) -> list[float]:
    """Ratios of seven passes whose clock drifts: it cancels but for a rest."""
    generator = random.Random(seed)
    return [ratio * math.exp(generator.uniform(-drift, drift) * 0.02) for _ in range(7)]


@pytest.mark.parametrize("drift", [0.10, 0.25])
def test_within_one_per_cent_the_incumbent_stays(drift: float) -> None:
    for seed in range(20):
        assert judge(drifting(1.009, drift, seed), noise=0.01, compared=2).state != "win"


def test_a_win_of_the_first_pass_alone_is_no_evidence() -> None:
    found = judge([1.14, 0.999, 0.999, 1.0, 0.998, 0.999, 1.0], noise=0.005, compared=1)
    assert found.state == "no evidence"


def test_a_real_win_is_one_and_the_same_data_give_the_same_answer() -> None:
    series = drifting(1.08, 0.25, 3)
    assert judge(series, noise=0.01, compared=3) == judge(series, noise=0.01, compared=3)
    assert judge(series, noise=0.01, compared=3).state == "win"


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_do_not_count(time: float) -> None:
    assert not usable(time)


def test_a_kernel_that_wrote_nothing_or_the_wrong_thing_is_never_timed() -> None:
    assert "128 elements of the output were not written" in str(fault(Check(0.001, 128), 0.02))
    assert "NRMSE 0.5 against fp32" in str(fault(Check(0.5, 0), 0.02))
    assert fault(Check(math.nan, 0), 0.02) is not None
    assert fault(Check(0.001, 0), 0.02) is None
