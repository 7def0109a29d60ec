"""Whole campaigns on a synthetic card, by command: what comes out, and that it can be stopped and repeated."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tilewright_codegen.tree import load_tree
from tilewright_codegen.validate import validate

ROOT = Path(__file__).parents[2]
WORLD = {
    "device": {"arch": "sm121", "num_sms": 48, "product": "synthetic card"},
    "drift": 0.2,
    "effects": [
        {"candidate": "32x64-64", "factor": 1.3},
        {"candidate": "64x64-64", "factor": 1.3},
        {"candidate": "32x128-128", "factor": 1.2},
        {"candidate": "32x64-128", "factor": 0.9, "M": [1, 48]},
    ],
    "faults": {"64x128-64": "wrong"},
}
SHAPES = ("4096x4096", "11008x4096", "14336x4096")
OPTIONS = ["--rounds", "5", "--rows", "8,16,32,64", *(w for s in SHAPES for w in ("--shape", s)), "--seeded", "8"]


def calibrate(*words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "tilewright_codegen", "calibrate", *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


def run(world: Path, out: Path, *more: str, code: int = 0) -> str:
    return calibrate(
        "gemm_4bit", "--layer", "tile", "--synthetic", str(world), "--out", str(out), *OPTIONS, *more, code=code
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "world.json"
    path.write_text(json.dumps(WORLD))
    return path


@pytest.fixture(scope="module")
def campaign(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("campaign")
    run(world, out)
    return out


def test_the_patch_applies_validates_and_says_what_was_planted(campaign: Path, tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    shutil.copytree(ROOT / "specs", specs)
    patch = (campaign / "rules.patch").read_text()
    subprocess.run(["git", "apply", "--unsafe-paths", "-p1", f"--directory={tmp_path}"], input=patch, text=True,
                   check=True, cwd=tmp_path)  # fmt: skip
    assert validate(specs).ok
    family = load_tree(specs).families["gemm_4bit"]
    rule = family.rule_by_id["sm121-tile-calibrated-1"]
    assert str(rule.outcome) == "Choice(value='32x64-128')"
    assert (rule.basis, rule.section.split("-")[0]) == ("modelled", "calibrated")
    assert len(rule.evidence) == 1


def test_the_report_names_everything(campaign: Path) -> None:
    text = (campaign / "report.md").read_text()
    assert "1 rule can be defended." in text
    assert "synthetic times, no measurement" in text
    assert "NRMSE 0.5 against fp32" in text
    for heading in ("Rules", "Rejected candidates", "Undecided", "Leave one shape out"):
        assert f"## {heading}" in text


def test_the_summary_has_every_cell_and_no_serial_number(campaign: Path) -> None:
    text = (campaign / "summary.json").read_text()
    value = json.loads(text)
    assert len(value["cells"]) == len(text.splitlines()) - 2 > 10
    assert "uuid" not in text
    won = [row for cell in value["cells"] for row in cell["rechecked"] if row[1] == "win"]
    assert won
    assert all(len(row) == len(value["columns"]) for row in won)


def test_the_page_stands_alone(campaign: Path) -> None:
    text = (campaign / "report.html").read_text()
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(pictures) == 3
    for picture in pictures:
        ElementTree.fromstring(picture)
    assert not re.search(r"(?:src|href)=\"(?!#)", re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL))
    assert "<h1>Calibration of gemm_4bit, layer tile, on sm121</h1>" in text


def test_the_same_records_give_the_same_files(campaign: Path, tmp_path: Path) -> None:
    shutil.copy(campaign / "records.jsonl", tmp_path / "records.jsonl")
    calibrate("gemm_4bit", "--layer", "tile", "--arch", "sm121", "--analyse", "--out", str(tmp_path))
    for name in ("rules.patch", "report.md", "report.html", "summary.json"):
        assert (tmp_path / name).read_bytes() == (campaign / name).read_bytes()


def test_a_killed_campaign_goes_on_where_it_was(campaign: Path, world: Path, tmp_path: Path) -> None:
    whole = (campaign / "records.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    kept = lines[: len(lines) // 2]
    (tmp_path / "records.jsonl").write_bytes(b"".join(kept) + lines[len(kept)][:40])
    run(world, tmp_path)
    again = (tmp_path / "records.jsonl").read_bytes()
    assert again.startswith(b"".join(kept))
    assert sorted(again.splitlines()) == sorted(whole.splitlines())
    assert (tmp_path / "rules.patch").read_bytes() == (campaign / "rules.patch").read_bytes()


def test_another_method_needs_another_folder(campaign: Path, world: Path, tmp_path: Path) -> None:
    shutil.copy(campaign / "records.jsonl", tmp_path / "records.jsonl")
    assert "method.rounds differ" in run(world, tmp_path, "--rounds", "9", code=1)


def test_without_a_faster_choice_there_is_no_patch(tmp_path: Path) -> None:
    world = tmp_path / "world.json"
    world.write_text(json.dumps({"device": WORLD["device"], "drift": 0.25, "jitter": 0.02}))
    (tmp_path / "rules.patch").write_text("of an earlier run")
    text = run(world, tmp_path, "--rows", "16,64", "--seeded", "0")
    assert "No rule can be defended here: 0 of" in text
    assert not (tmp_path / "rules.patch").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layer", "repair", "--arch", "sm121"], "calibrate that one"),
        (["--layer", "til", "--arch", "sm121"], "did you mean 'tile'"),
        (["--layer", "tile", "--arch", "sm121", "--plan", "--shape", "4096"], "'4096' is no shape"),
        (["--layer", "tile", "--arch", "sm121", "--plan", "--rows", "1,x"], "'1,x' is no list of sizes"),
        (["--layer", "tile", "--arch", "sm121", "--plan", "--dtype", "f64"], "no dtype 'f64'"),
        (["--layer", "tile", "--arch", "sm121", "--analyse", "--out", "/nonexistent/x"], "holds no records"),
    ],
)
def test_wrong_words_give_one_line(words: list[str], message: str) -> None:
    assert message in calibrate("gemm_4bit", *words, code=1)


def test_without_a_card_it_says_so() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    text = calibrate("gemm_4bit", "--layer", "tile", code=1)
    assert "torch sees no CUDA device" in text
    assert "--plan or --analyse" in text


def test_the_plan_needs_no_card() -> None:
    words = ("--layer", "path", "--arch", "sm121", "--plan", "--shape", "4096x4096", "--seeded", "0")
    text = calibrate("gemm_4bit", *words)
    assert "M=1 4096x4096 bf16: simt-1 (four-rows) against fallback" in text
