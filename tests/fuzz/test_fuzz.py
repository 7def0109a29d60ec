"""A slice of the fuzzing in every run; `python tests/fuzz/run.py --count 1000000` is the whole of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EVIDENCE = HERE.parents[1] / "evidence" / "fuzz-codegen.json"


def test_a_slice_of_the_inputs_raises_nothing(tmp_path: Path) -> None:
    count = int(os.environ.get("TILEWRIGHT_FUZZ", "4000"))
    command = [sys.executable, str(HERE / "run.py"), "--count", str(count), "--out", str(tmp_path / "found.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())["targets"]
    for target in ("rules", "specs"):
        assert (found[target]["inputs"], found[target]["faults"]) == (count, 0)
        assert len(found[target]["outcomes"]) >= 2  # both sides are reached


def test_every_kept_input_is_answered(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "from targets import TARGETS\n"
        "from run import CORPUS\n"
        "for target, run in TARGETS.items():\n"
        "    for path in sorted((CORPUS / target).iterdir()):\n"
        "        print(target, path.name, run(path.read_bytes()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    kept = [p for p in (HERE / "corpus").rglob("*") if p.is_file()]
    assert len(done.stdout.splitlines()) == len(kept)
    assert not [p for p in kept if p.name.startswith("fault-")], "a fault that was found is not mended"
    assert sum(p.stat().st_size for p in kept) < 200_000


def test_a_fault_would_be_seen() -> None:
    """The harness itself: an exception, a hang, and an answer without a finding are faults."""
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        "import run, time\n"
        "run.SECONDS = 0.2\n"
        "def bad(data):\n"
        "    if len(data) % 3 == 0: raise ValueError('planted')\n"
        "    if len(data) % 3 == 1: time.sleep(5)\n"
        "    return 'fine'\n"
        "run.TARGETS['rules'] = bad\n"
        "found, faults, longest = run.slice_of(('rules', 0, 12))\n"
        "texts = ' '.join(text for _, text in faults)\n"
        "print(len(faults) + found['fine'], 'planted' in texts, 'HangError' in texts, longest < 2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["12", "True", "True", "True"], done.stderr


@pytest.mark.parametrize("target", ["rules", "specs"])
def test_the_million_was_run(target: str) -> None:
    found = json.loads(EVIDENCE.read_text())["targets"][target]
    assert found["inputs"] >= 1_000_000
    assert found["faults"] == 0
    assert sum(found["outcomes"].values()) == found["inputs"]
