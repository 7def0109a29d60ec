"""The held grid: what counts as a mispick, and whether the rules in the specs still choose as its results say."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from tilewright_codegen.calibrate.bench import Check
from tilewright_codegen.calibrate.records import Cell, Method

ROOT = Path(__file__).parents[2]
TRUE = {"a": 10.0, "b": 10.2, "c": 11.0, "d": 12.0, "e": 12.5, "f": 10.7, "far": 30.0, "wrong": 1.0, "refused": 1.0}
CELL = Cell(arch="sm90", num_sms=132, dtype="bf16", M=64, N=4096, K=2048, words={"scaling": "row"})


@pytest.fixture(scope="module")
def mispick() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mispick", ROOT / "benchmarks" / "mispick.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Bench:
    """Times as in TRUE, by a clock that falls as the bench goes on: only neighbours in time can be compared."""

    def __init__(self) -> None:
        self.timed: list[str] = []

    def check(self, name: str) -> Check:
        if name == "refused":
            raise RuntimeError("this tile needs K % 128 == 0")
        return Check(0.5 if name == "wrong" else 0.001, 0)

    def time(self, name: str) -> float:
        self.timed.append(name)
        return TRUE[name] * (1 + 1e-5 * len(self.timed))

    def close(self) -> None:
        self.timed.append("closed")


def judged(
    mispick: ModuleType, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str]
) -> tuple[dict[str, Any], Bench]:
    bench = Bench()
    monkeypatch.setattr(mispick, "choices", lambda *_: chosen)
    backend = SimpleNamespace(open=lambda *_: bench, family="gemm_fp8")
    return mispick.one_cell(backend, CELL, Method(), list(TRUE), {}), bench


def test_choices_are_compared_with_the_best_that_answers_rightly(
    mispick: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, bench = judged(mispick, monkeypatch, {"built": "c", "other": "a"})
    assert row["best"] == "a"
    assert row["regret"] == {"built": 0.1, "other": 0.0}
    assert list(row["wrong"]) == ["wrong"]
    assert row["tried"] == 7
    assert bench.timed.count("far") == 2, "what is far behind is timed no more than it must be"
    assert bench.timed[-1] == "closed"
    assert set(row["us"]) == {"c", "a", "b", "f", "d", "e"}, "the choices, and the four nearest beside them"


def test_every_near_launch_is_a_rival(mispick: ModuleType) -> None:
    near = {f"n{i}": 10 + i / 20 for i in range(12)}
    assert mispick.rivals(near | {"far": 12.0}, ["n3"]) == [f"n{i}" for i in (0, 1, 2, 4, 5, 6, 7, 8)]
    apart = {"a": 10.0, "b": 20.0, "c": 30.0, "d": 40.0, "e": 50.0, "f": 60.0}
    assert mispick.rivals(apart, ["a"]) == ["b", "c", "d", "e"]


def test_a_mispick_is_more_than_three_percent_slower(mispick: ModuleType) -> None:
    rows = [{"regret": {"built": r}} for r in (0.0, 0.03, 0.031, 0.21)]
    found = mispick.summary(rows, "built")
    assert (found["cells"], found["mispicked"], found["mispick_rate"]) == (4, 2, 0.5)
    assert found["regret_geomean"] == pytest.approx((1.03 * 1.031 * 1.21) ** 0.25 - 1, abs=1e-5)


@pytest.mark.parametrize("name", ["mispick-h200.json", "mispick-fp8-h200.json"])
def test_the_rules_choose_as_the_results_on_record_say(name: str, tmp_path: Path) -> None:
    """Judged again on the recorded times, the specs are as good as the result says that they are."""
    record, out = ROOT / "evidence" / name, tmp_path / "again.json"
    options = ["--times", str(record), "--specs", f"now={ROOT / 'specs'}", "--out", str(out)]
    done = subprocess.run([sys.executable, "benchmarks/mispick.py", *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    was, now = json.loads(record.read_text())["rules"]["costs"], json.loads(out.read_text())["rules"]["now"]
    assert now["cells"] == was["cells"]
    assert now["mispicked"] <= was["mispicked"] + 2
    assert now["regret_geomean"] == pytest.approx(was["regret_geomean"], abs=1e-3)
