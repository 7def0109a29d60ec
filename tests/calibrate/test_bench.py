"""The loop that times, and the gate in front of it."""

from __future__ import annotations

import pytest

from tilewright_codegen.calibrate.bench import Check, Mode, fault, run_pass
from tilewright_codegen.calibrate.records import Cell, Device, Method, Pass, State
from tilewright_codegen.calibrate.synthetic import Effect, Fault, Synthetic, World

from .conftest import DEVICE, cell

CELL = cell(8, 4096, 4096)
METHOD = Method(warmup=1, rounds=4)


class Recorder:
    """A backend and its bench in one: notes what is asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refused: dict[str, str] = {}

    def device(self) -> Device:
        return DEVICE

    def open(self, cell: Cell, method: Method, mode: Mode) -> Recorder:
        return self

    def check(self, candidate: str) -> Check:
        self.calls.append(f"check {candidate}")
        if candidate in self.refused:
            raise RuntimeError(self.refused[candidate])
        return Check(0.001, 0)

    def time(self, candidate: str) -> float:
        self.calls.append(candidate)
        return 10.0

    def state(self) -> State:
        return State()

    def close(self) -> None:
        self.calls.append("close")


def timed(recorder: Recorder) -> list[str]:
    return [c for c in recorder.calls if " " not in c and c != "close"]


@pytest.mark.parametrize("index", [0, 1])
def test_rounds_interleave_and_turn_around(index: int) -> None:
    recorder = Recorder()
    run_pass(recorder, CELL, "a", ["b", "c"], METHOD, stage="recheck", index=index)
    rounds = [timed(recorder)[i : i + 4] for i in range(0, 20, 4)]
    forward, backward = ["a", "b", "c", "a"], ["a", "c", "b", "a"]
    assert rounds == [forward if (i + index) % 2 == 0 else backward for i in range(5)]


def test_everything_is_checked_before_anything_is_timed_and_again_after() -> None:
    recorder = Recorder()
    run_pass(recorder, CELL, "a", ["b"], METHOD, stage="screen", index=0)
    first, last = recorder.calls.index("a"), len(recorder.calls) - 1 - recorder.calls[::-1].index("a")
    assert recorder.calls[:first] == ["check a", "check b"]
    assert recorder.calls[last + 1 :] == ["check a", "check b", "close"]


def faulty(kind: Fault) -> Pass:
    """`new` is much faster and has the fault."""
    world = World(device=DEVICE, effects=(Effect(candidate="new", factor=0.2),), faults={"new": kind})
    return run_pass(Synthetic(world, 0), CELL, "old", ["new", "fair"], METHOD, stage="screen", index=0)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("early-exit", "32768 elements of the output were not written"),
        ("late-exit", "after timing: 32768 elements of the output were not written"),
        ("wrong", "NRMSE 0.5 against fp32, 0.02 is allowed"),
        ("zero", "4 of 4 times are zero, negative or not a number"),
        ("nan", "4 of 4 times are zero, negative or not a number"),
    ],
)
def test_a_fast_candidate_with_a_fault_is_named_and_does_not_count(kind: Fault, reason: str) -> None:
    found = faulty(kind)
    assert found.rejected == {"new": reason}
    assert set(found.ratios) == {"fair"}
    assert "new" not in found.times


def test_a_wrong_candidate_is_never_timed() -> None:
    recorder = Recorder()
    recorder.refused["b"] = "gemm_4bit: K=96 is no multiple of 64"
    found = run_pass(recorder, CELL, "a", ["b", "c"], METHOD, stage="screen", index=0)
    assert "b" not in timed(recorder)
    assert found.rejected == {"b": "gemm_4bit: K=96 is no multiple of 64"}
    assert set(found.ratios) == {"c"}


def test_a_wrong_incumbent_leaves_nothing_to_compare_with() -> None:
    world = World(device=DEVICE, faults={"old": "wrong"})
    found = run_pass(Synthetic(world, 0), CELL, "old", ["new"], METHOD, stage="screen", index=0)
    assert found.ratios == {}
    assert "old" in found.rejected


def test_a_cuda_error_ends_the_cell_and_closes_the_bench() -> None:
    recorder = Recorder()
    recorder.refused["b"] = "CUDA error: an illegal memory access was encountered"
    with pytest.raises(RuntimeError, match="illegal"):
        run_pass(recorder, CELL, "a", ["b"], METHOD, stage="screen", index=0)
    assert recorder.calls[-1] == "close"


def test_nrmse_that_is_not_a_number_is_a_fault() -> None:
    assert fault(Check(float("nan"), 0), 0.02) is not None
    assert fault(Check(0.02, 0), 0.02) is None


def test_times_of_a_pass_are_median_least_and_greatest() -> None:
    world = World(device=DEVICE, jitter=0.05)
    found = run_pass(Synthetic(world, 0), CELL, "old", ["new"], Method(warmup=0, rounds=9), stage="screen", index=0)
    times = found.times["new"]
    assert times.min < times.median < times.max
    assert found.null is not None
    assert found.null != 1.0
