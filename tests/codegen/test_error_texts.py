"""Each folder under tests/golden/errors is one kind of mistake: what it changes in `base`, and the text it gets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilewright_codegen.cli import main
from tilewright_codegen.codes import CODES
from tilewright_codegen.diagnostics import render_text
from tilewright_codegen.validate import validate

ERRORS = Path(__file__).parents[1] / "golden" / "errors"
BASE = ERRORS / "base"
CASES = sorted(p.name for p in ERRORS.iterdir() if p.is_dir() and p.name != "base")


def _assemble(case: str, folder: Path) -> None:
    shutil.copytree(BASE, folder, dirs_exist_ok=True)
    shutil.copytree(ERRORS / case, folder, dirs_exist_ok=True)
    gone = folder / "delete.txt"
    for name in gone.read_text().split() if gone.exists() else ():
        (folder / name).unlink()


@pytest.mark.parametrize("case", CASES)
def test_text(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _assemble(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    report = validate("specs")
    assert render_text(report.diagnostics) + "\n" == (ERRORS / case / "expected.txt").read_text("utf-8")
    assert case.split("-")[0] in {d.code for d in report.diagnostics}
    assert report.ok == all(d.code.startswith("W") for d in report.diagnostics)


def test_base_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BASE)
    assert validate("specs").diagnostics == ()


def test_every_code_has_a_case() -> None:
    assert {case.split("-")[0] for case in CASES} == set(CODES)
    assert len(CASES) >= 60


@pytest.mark.parametrize("case", ["E100-tab", "E204-sibling-omitted", "E310-shared-memory", "W401-dead-rule"])
def test_command_exits_with_1_on_errors_alone(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _assemble(case, tmp_path)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["validate"])
    expected = (ERRORS / case / "expected.txt").read_text("utf-8")
    assert result.output.startswith(expected)
    assert result.exit_code == (1 if case.startswith("E") else 0)
    assert result.output.splitlines()[-1].startswith("specs: ")
