"""Traces with known right answers."""

from __future__ import annotations

import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright_codegen.calibrate.bench import run_pass
from tilewright_codegen.calibrate.records import Cell, Method
from tilewright_codegen.calibrate.stats import judge, noise_band, sign_test
from tilewright_codegen.calibrate.synthetic import Effect, Synthetic, World

from .conftest import DEVICE, cell

CELL = cell(64, 4096, 4096)
METHOD = Method(warmup=2, rounds=25)


def ratios(world: World, at: Cell = CELL, passes: int = 7) -> tuple[list[float], list[float]]:
    """Ratios of `new` against `old`, and of `old` against itself."""
    found = [run_pass(Synthetic(world, i), at, "old", ["new"], METHOD, stage="recheck", index=i) for i in range(passes)]
    return [p.ratios["new"] for p in found], [p.null for p in found if p.null is not None]


def world(factor: float, **noise: object) -> World:
    return World.model_validate(
        {"device": DEVICE, "effects": [{"candidate": "new", "factor": factor}], "jitter": 0.01, **noise}
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("drift", [0.10, 0.25])
@pytest.mark.parametrize(
    ("factor", "state"), [(1.0, "no evidence"), (0.9, "win"), (1.1, "loss"), (0.995, "no evidence")]
)
def test_drift_of_10_to_25_percent_hides_nothing_and_invents_nothing(
    seed: int, drift: float, factor: float, state: str
) -> None:
    series, nulls = ratios(world(factor, drift=drift, seed=seed))
    found = judge(series, noise_band(nulls, METHOD.noise_floor))
    assert found.state == state, found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("factor", "state"), [(1.0, "no evidence"), (0.93, "win")])
def test_a_clock_of_two_states_25_percent_apart(seed: int, factor: float, state: str) -> None:
    series, nulls = ratios(world(factor, bimodal=0.25, seed=seed))
    assert judge(series, noise_band(nulls, METHOD.noise_floor)).state == state


def test_medians_of_separate_series_would_have_been_fooled_by_the_two_states() -> None:
    """The trace above is hard: timed one after the other, equals look far apart in some pass."""
    worst = 0.0
    for seed in range(8):
        bench = Synthetic(world(1.0, bimodal=0.25, seed=seed), 0).open(CELL, METHOD, "rotated")
        first = median(bench.time("old") for _ in range(25))
        second = median(bench.time("new") for _ in range(25))
        worst = max(worst, abs(math.log(first / second)))
    assert worst > 0.1


def test_a_win_of_14_percent_in_the_first_pass_only() -> None:
    once = World(
        device=DEVICE, jitter=0.004,
        effects=(Effect(candidate="new", factor=1.025), Effect(candidate="new", factor=1 / 1.14, pass_index=0)),
    )  # fmt: skip
    series, nulls = ratios(once)
    assert series[0] > 1.12
    found = judge(series, noise_band(nulls, 0.005))
    assert found.state == "no evidence"
    assert found.ratio == pytest.approx(0.992, abs=0.01)
    assert found.ahead == 1


def test_published_false_win_is_no_evidence() -> None:
    found = judge([1.012, 1.006, 0.998, 0.996, 0.995, 0.994, 0.992], 0.005)
    assert (found.state, found.ahead, found.passes) == ("no evidence", 2, 7)
    assert found.ratio == pytest.approx(0.999, abs=0.0005)


def test_a_steady_win_within_the_noise_is_no_evidence() -> None:
    assert judge([1.01] * 7, 0.02).state == "no evidence"
    assert judge([1.01] * 7, 0.005).state == "win"


def test_few_passes_are_never_evidence() -> None:
    assert judge([2.0] * 4, 0.005).state == "no evidence"
    assert judge([2.0] * 5, 0.005).state == "win"


def test_more_challengers_need_more_passes() -> None:
    assert judge([1.2] * 5, 0.005, compared=1).state == "win"
    assert judge([1.2] * 5, 0.005, compared=3).state == "no evidence"
    assert judge([1.2] * 7, 0.005, compared=3).state == "win"


def test_invalid_ratios_are_not_counted() -> None:
    found = judge([math.nan, 0.0, -1.0, math.inf, 1.5, 1.5], 0.005)
    assert (found.state, found.passes) == ("no evidence", 2)
    assert judge([], 0.005).state == "no evidence"


@pytest.mark.parametrize(("successes", "trials", "p"), [(7, 7, 1 / 128), (6, 7, 8 / 128), (0, 7, 1.0), (0, 0, 1.0)])
def test_sign_test(successes: int, trials: int, p: float) -> None:
    assert sign_test(successes, trials) == pytest.approx(p)


def test_noise_is_the_95th_percentile_of_equals_and_at_least_the_floor() -> None:
    assert noise_band([1.0] * 20, 0.005) == 0.005
    assert noise_band([1.0] * 90 + [1.1] * 10, 0.005) == pytest.approx(math.log(1.1))
    assert noise_band([], 0.01) == 0.01
    assert noise_band([math.nan, 0.0], 0.01) == 0.01


@given(st.lists(st.floats(0.5, 2.0), min_size=5, max_size=9), st.floats(0.001, 0.1))
def test_swapping_sides_swaps_the_verdict(series: list[float], noise: float) -> None:
    forth, back = judge(series, noise), judge([1 / r for r in series], noise)
    swapped = {"win": "loss", "loss": "win", "no evidence": "no evidence"}
    assert swapped[forth.state] == back.state
    assert forth.low <= forth.ratio <= forth.high


@given(st.lists(st.floats(0.8, 1.25), min_size=5, max_size=9), st.floats(0.005, 0.05))
def test_a_verdict_needs_both_tests(series: list[float], noise: float) -> None:
    found = judge(series, noise)
    if found.state == "win":
        assert math.log(found.low) > noise - 1e-3
        assert sign_test(found.ahead, found.passes) <= 0.05
