"""B36: generated files outlive the spec, objects outlive their flags, an editable install runs old code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .support import ROOT, render


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_smaller_spec_leaves_nothing_of_the_larger_one(tmp_path: Path) -> None:
    """(a), (b): what was made for another list of archs or tiles goes; files of other people stay."""
    render("80;90a;120f", tmp_path / "out")
    (tmp_path / "out/gemm_4bit/mine.cu").write_text("// by hand\n")
    render("80", tmp_path / "out")
    render("80", tmp_path / "fresh")
    left = contents(tmp_path / "out")
    assert left.pop("gemm_4bit/mine.cu") == b"// by hand\n"
    assert left == contents(tmp_path / "fresh")


def test_objects_depend_on_the_targets_and_on_the_specs() -> None:
    """(b): targets are properties of CMake targets, and the specs are inputs of the configuration."""
    text = "".join(p.read_text() for p in (ROOT / "CMakeLists.txt", *sorted((ROOT / "cmake").glob("*.cmake"))))
    assert "CUDA_ARCHITECTURES" in text
    assert "CMAKE_CONFIGURE_DEPENDS" in text and "*.yaml" in text
    assert "GLOB_RECURSE" not in (ROOT / "CMakeLists.txt").read_text()  # generated files are listed, not globbed


@pytest.mark.parametrize(
    "extra", [{"LC_ALL": "C", "TZ": "Asia/Kolkata", "PYTHONHASHSEED": "7"}, {"PYTHONHASHSEED": "1"}]
)
def test_the_same_bytes_whatever_the_surroundings(extra: dict[str, str], tmp_path: Path) -> None:
    """(e)"""
    render("80;90a", tmp_path / "here")
    shutil.copytree(ROOT / "specs", tmp_path / "another folder/specs")
    command = [sys.executable, "-m", "tilewright_codegen", "render", "--archs", "80;90a", "--out", "there"]
    words = [*command, "--specs", "another folder/specs"]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path, env={**os.environ, **extra})
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_a_hand_edit_fails_the_check_with_a_diff(tmp_path: Path) -> None:
    """(d)"""
    render("80", tmp_path)
    file = tmp_path / "gemm_4bit/launch.cpp"
    file.write_text(file.read_text() + "// edited\n")
    command = [sys.executable, "-m", "tilewright_codegen", "render", "--specs", str(ROOT / "specs"), "--archs", "80"]
    done = subprocess.run([*command, "--out", str(tmp_path), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "-// edited" in done.stdout


def test_names_of_generated_files_are_short(tmp_path: Path) -> None:
    """(f)"""
    assert max(map(len, contents(render("all", tmp_path)))) <= 100
