"""Descriptors, swizzle and scale layouts of the tcgen05 engine against CuTe, evaluated on the host."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "csrc_templates" / "include"


def package_folder(name: str, *parts: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    for location in [] if spec is None else spec.submodule_search_locations or []:
        folder = Path(location, *parts)
        if folder.is_dir():
            return folder
    return None


def run_comparison(include: Path, program: Path) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("g++")
    cutlass = package_folder("cutlass_library", "source", "include")
    cuda = package_folder("nvidia", "cu13", "include")
    if compiler is None or cutlass is None or cuda is None:
        pytest.skip("needs g++, the nvidia-cutlass package and the CUDA headers of the nvidia-cuda-* packages")
    folders = [f"-I{folder}" for folder in (include, cutlass, cuda, cuda / "cccl")]
    source = HERE / "descriptors_check.cpp"
    subprocess.run([compiler, "-std=c++17", "-O1", "-w", *folders, source, "-o", program], check=True)
    return subprocess.run([program], capture_output=True, text=True)


def test_descriptors_and_layouts_are_those_of_cute(tmp_path: Path) -> None:
    result = run_comparison(INCLUDE, tmp_path / "check")
    assert result.returncode == 0, result.stdout
    compared = re.search(r"compared (\d+)", result.stdout)
    assert compared is not None
    assert int(compared[1]) > 500_000


def test_the_comparison_sees_every_kind_of_change(tmp_path: Path) -> None:
    """Each changed line of the headers is reported by the name of what it breaks."""
    changed = tmp_path / "include"
    shutil.copytree(INCLUDE, changed)
    edits = {
        "tcgen05/descriptors.h": [
            ("Swizzle::k128B, 16, 1024", "Swizzle::k128B, 16, 512"),
            ("Swizzle::kNone, 16, 128", "Swizzle::kNone, 16, 256"),
            ("static_cast<uint32_t>(m >> 4) << 24", "static_cast<uint32_t>(m >> 4) << 25"),
            ("static_cast<uint32_t>(m >> 7) << 27", "static_cast<uint32_t>(m >> 7) << 26"),
            ("uint64_t{1} << 52", "uint64_t{1} << 53"),
        ],
        "nvfp4/scale_layout.h": [("row % 32 * 16 + row / 32 * 4", "row % 32 * 4 + row / 32 * 128")],
    }
    for name, replacements in edits.items():
        header = changed / "tilewright" / name
        text = header.read_text()
        for old, new in replacements:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        header.write_text(text)
    result = run_comparison(changed, tmp_path / "check")
    assert result.returncode == 1
    reported = {line.split(" at ")[0] for line in result.stdout.splitlines() if " at " in line}
    assert reported == {
        "operand descriptor",
        "scale descriptor",
        "onward descriptor",
        "fp8 instruction",
        "nvfp4 instruction",
        "scale of A",
        "scale of B",
    }
