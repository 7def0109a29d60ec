"""Adding an arch or a tile by command gives a sound tree in which nothing else moved."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright_codegen.evaluate import decide
from tilewright_codegen.ir import SpecTree
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
PROBLEMS = [
    {"M": M, "N": N, "K": K, "num_sms": 48, "dtype": dtype, "blocksize": 64}
    for M in (1, 4, 6, 8, 17, 64, 200, 300)
    for N in (896, 4096, 14336)
    for K in (1536, 4096, 4160)
    for dtype in ("bf16", "f32")
]


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    return tmp_path / "specs"


def _run(*words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "tilewright_codegen", *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout + result.stderr


def _decisions(tree: SpecTree, arch: str) -> list[object]:
    family = tree.families["gemm_4bit"]
    found = []
    for problem in PROBLEMS:
        decision = decide(family, arch, problem)
        found.append([(r.value, r.rule and r.rule.id) for r in decision.results.values()])
    return found


@pytest.mark.parametrize("like", ["sm121", "sm80", "sm90", "sm107"])
def test_a_new_arch_decides_as_its_model_and_moves_no_other(specs: Path, like: str) -> None:
    before = load_tree(specs)
    text = _run("new-arch", "sm122", "--like", like, "--specs", str(specs))
    assert "status: assumed" in text
    after = load_tree(specs)
    assert after.archs["sm122"].profile.cc == (12, 2)
    assert after.archs["sm122"].profile.status == "assumed"
    assert _decisions(after, "sm122") == _decisions(before, like)
    for arch in before.archs:
        assert _decisions(after, arch) == _decisions(before, arch)
    _run("validate", "--specs", str(specs))


def test_a_new_arch_only_adds_words(specs: Path) -> None:
    _run("new-arch", "sm122", "--like", "sm121", "--sms", "60", "--sms", "20", "--specs", str(specs))
    assert load_tree(specs).archs["sm122"].profile.sm_counts == (60, 20)
    for file in sorted((ROOT / "specs" / "families").rglob("*.yaml")):
        new = (specs / file.relative_to(ROOT / "specs")).read_text().splitlines()
        added = ("sm122: ", 'omits: {sm89: "the section was sm121\'s alone until sm122 joined it"')
        new = [re.sub(r'sm122: "[^"]*", ', "", line) for line in new if not line.strip().startswith(added)]
        assert [line.replace(", sm122", "") for line in new] == file.read_text().splitlines()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("new-arch", "sm121", "--like", "sm120"), "exists already"),
        (("new-arch", "hopper", "--like", "sm90"), "no compute capability"),
        (("new-arch", "sm122", "--like", "sm12l"), "did you mean 'sm121'"),
        (("new-tile", "gemm_4bit", "64x64-64", "--like", "64x64-128"), "exists already"),
        (("new-tile", "gemm_4bit", "x", "--like", "64x64-12"), "did you mean"),
        (("new-tile", "gemm_4bit", "x", "--like", "64x64-128", "--set", "ntt=64"), "no field 'ntt'"),
        (("new-tile", "gemm_4bit", "x", "--like", "64x64-128", "--set", "nt"), "FIELD=VALUE"),
    ],
)
def test_senseless_requests_are_refused_and_change_nothing(specs: Path, words: tuple[str, ...], message: str) -> None:
    before = {p: p.read_bytes() for p in specs.rglob("*.yaml")}
    assert message in _run(*words, "--specs", str(specs), code=1)
    assert {p: p.read_bytes() for p in specs.rglob("*.yaml")} == before


def test_a_new_tile_says_where_it_fits(specs: Path) -> None:
    words = (
        "--like",
        "64x128-64",
        "--set",
        "nt=256",
        "--set",
        "stages=4",
        "--reserve",
        "next sweep",
        "--specs",
        str(specs),
    )
    text = _run("new-tile", "gemm_4bit", "64x256-64", *words)
    tile = load_tree(specs).families["gemm_4bit"].tile_by_id["64x256-64"]
    assert (tile.fields["nt"], tile.fields["stages"], tile.fields["mt"]) == (256, 4, 64)
    assert tile.model.reserve == "next sweep"
    assert "sm90: legal" in text
    _run("validate", "--specs", str(specs))
