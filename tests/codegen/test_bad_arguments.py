"""Arguments and files that nothing can be done with: one line on stderr, exit status 1 or 2, never a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "golden" / "errors" / "base" / "specs"


def _run(*words: str, cwd: Path, code: int) -> str:
    command = [sys.executable, "-m", "tilewright_codegen", *words]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in result.stderr
    assert result.returncode == code, result.stdout + result.stderr
    return result.stderr + result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(TOY, tmp_path / "specs")
    (tmp_path / "file").write_text("not a folder\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("render --out file/below", 1, "error: file/below: Not a directory."),
        ("decisions --write file/below", 1, "error: file/below"),
        ("reference --write none/README.md", 1, "error: none/README.md: No such file or directory."),
        ("render --cuda latest", 1, "'latest' is no CUDA version"),
        ("diff .", 1, "folder '.' is no folder of specs"),
        ("prove --timeout nan", 2, "a number of seconds is expected"),
        ("prove --timeout inf", 2, "is not in the range"),
        ("new-arch sm9999999 --like sm80", 1, "states no compute capability"),
        ("new-arch sm010 --like sm80", 1, "states no compute capability"),
        ("new-arch sm95 --like sm90 --sms 99999", 1, "99999 SMs are more than the families' limit of 1024"),
        ("new-tile toy 64x256-64 --like 64x64-64 --set nt=256.5", 1, "E104: tiles.2.nt: an integer is expected"),
        ("new-tile toy }{ --like 64x64-64", 1, "nothing was changed"),
    ],
)
def test_one_error_and_nothing_changed(folder: Path, words: str, code: int, text: str) -> None:
    assert text in _run(*words.split(), cwd=folder, code=code)
    left = {p.relative_to(folder / "specs"): p.read_bytes() for p in (folder / "specs").rglob("*.yaml")}
    assert left == {p.relative_to(TOY): p.read_bytes() for p in TOY.rglob("*.yaml")}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("emulate gemm_fp8 --problem 0,0,0", "M, N and K are 1 to 16384"),
        ("emulate gemm_fp8 --problem 9999999,1,1", "M, N and K are 1 to 16384"),
        ("emulate gemm_fp8 --problem \u00b2,1,1", "is no problem"),
        ("emulate gemm_fp8 --word scaling=nope", "there is no scaling 'nope'"),
        ("emulate gemm_fp8 --word nope=3", "there is no word 'nope'"),
        ("emulate gemm_fp8 --word bias=--3", "bias=--3: a number from 0 to 9999 is expected"),
        ("emulate gemm_fp8 --arch sm80", "no tile of gemm_fp8 runs on sm80"),
        ("model gemm_fp8 --arch sm100 --problem 99999999,1,1", "M, N and K are at most 131072"),
        (f"model gemm_fp8 --arch sm100 --problem {'9' * 5000},1,1", "three positive numbers M,N,K are expected"),
    ],
)
def test_problems_that_cannot_be_run(words: str, text: str) -> None:
    assert text in _run(*words.split(), "--specs", str(ROOT / "specs"), cwd=ROOT, code=1)


def test_a_claim_asked_for_by_name_is_not_passed_over_in_silence(folder: Path) -> None:
    pytest.importorskip("z3")
    assert "skipped" in _run("prove", "--claim", "only-archs-change sm80", cwd=folder, code=2)


def test_an_empty_base_is_not_the_current_folder(folder: Path) -> None:
    assert "''" in _run("diff", "", cwd=folder, code=1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_among_the_specs_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "specs" / "pipe.yaml")
    assert "specs/pipe.yaml:1:1: E100: this is no regular file." in _run("validate", cwd=folder, code=1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tilewright_codegen", "explain-code", "E204"]
        result = subprocess.run(command, cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 1
    assert "No space left on device" in result.stderr and "Traceback" not in result.stderr
