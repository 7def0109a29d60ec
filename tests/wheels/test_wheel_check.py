"""wheel-check finds what is planted, and nothing in a sound wheel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from wheel_factory import (
    DIST_INFO,
    EXPORT,
    GENCODE,
    PLATFORM,
    Compiler,
    Fault,
    Recipe,
    cuda_root,
    empty_library,
    make_wheel,
)

from tilewright_codegen.wheelcheck import Options, Report, WheelError, check_wheel

pytestmark = pytest.mark.skipif(cuda_root() is None, reason="needs the CUDA compiler of the build requirements")
EVERY = Options(instructions="all")
QUICK = Options(instructions="none")
"""Disassembling takes longest."""


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    root = cuda_root()
    assert root is not None
    return Compiler(root, tmp_path_factory.mktemp("objects"))


def _check(compiler: Compiler, folder: Path, fault: Fault | None = None, options: Options = EVERY) -> Report:
    recipe = Recipe()
    if fault is not None:
        fault(recipe)
    return check_wheel(make_wheel(compiler, folder, recipe), options)


def test_a_sound_wheel_has_no_difference_and_nothing_unchecked(compiler: Compiler, tmp_path: Path) -> None:
    report = _check(compiler, tmp_path)
    assert report.problems == []
    assert [check.name for check in report.skipped] == []
    facts = {check.name: check.facts for check in report.checks}
    assert facts["images"]["images"] == ["sm_80", "sm_86"]
    assert facts["kernels"]["kernels"] == facts["instructions"]["kernels"] == 8
    sizes = facts["budget"]["bytes"]
    assert set(sizes) == {"gemm_4bit"}
    assert set(sizes["gemm_4bit"]) == {"sm_80", "sm_86"}


def _specs(name: str, old: str, new: str) -> Fault:
    def fault(recipe: Recipe) -> None:
        assert old in recipe.specs[name]
        recipe.specs[name] = recipe.specs[name].replace(old, new)

    return fault


def _metadata(old: str, new: str) -> Fault:
    def fault(recipe: Recipe) -> None:
        assert old in recipe.metadata
        recipe.metadata = recipe.metadata.replace(old, new)

    return fault


def _set(**changes: object) -> Fault:
    def fault(recipe: Recipe) -> None:
        for name, value in changes.items():
            setattr(recipe, name, value)

    return fault


def _other_tile(recipe: Recipe) -> None:
    _specs("families/gemm_4bit/tiles.yaml", "mb: 1, warps: 4}", "mb: 1, warps: 4}\n  - {id: simt-2, mb: 2, warps: 4}")(
        recipe
    )
    _specs("families/gemm_4bit/tile.yaml", "tile: 32x64-64", "tile: simt-2")(recipe)


PTX = ["-compress-mode=size", *GENCODE, "-gencode=arch=compute_86,code=compute_86"]


def _ptx_over_budget(recipe: Recipe) -> None:
    _specs("budget.yaml", "image_bytes: 50_000", "image_bytes: 50_000, images: {compute_86: 10}")(recipe)
    _set(nvcc=PTX, images=("sm_80", "sm_86", "compute_86"))(recipe)


LICENCE = f"{DIST_INFO}/licenses/NOTICE"
PLANTED = {
    "image that was not built": (
        _set(nvcc=["-compress-mode=size", GENCODE[0]]),
        ["images: sm_86: no machine code for it (gemm_4bit)"],
    ),
    "image that was not asked for": (
        _set(images=("sm_80",)),
        ["images: sm_86: there is machine code for it, but it was not asked for"],
    ),
    "PTX": (
        _set(nvcc=["-compress-mode=size", *GENCODE, "-gencode=arch=compute_86,code=compute_86"]),
        ["images: compute_86: there is PTX for it, but it was not asked for"],
    ),
    "PTX that was not built": (
        _set(images=("sm_80", "sm_86", "compute_86")),
        ["images: compute_86: no PTX for it (gemm_4bit)"],
    ),
    "PTX of another engine": (
        _set(mma="simt_kernel", nvcc=PTX, images=("sm_80", "sm_86", "compute_86")),
        [
            "instructions: gemm_4bit sm_80: Tile_32x64_64",
            "instructions: gemm_4bit compute_86: Tile_32x64_64 for f16 is of engine mma_m16n8k16, but holds no "
            "mma.sync.aligned.m16n8k16",
        ],
    ),
    "PTX over budget": (
        _ptx_over_budget,
        [r"budget: gemm_4bit compute_86: [\d,]+ bytes; the budget is 10"],
    ),
    "uncompressed code": (
        _set(nvcc=["-compress-mode=none", *GENCODE]),
        ["images: sm_80: 1 objects are not compressed", "images: sm_86: 1 objects are not compressed"],
    ),
    "tile without a kernel": (
        _other_tile,
        [
            "kernels: gemm_4bit sm_80: no kernel of Tile_simt_2 for bf16",
            "kernels: gemm_4bit sm_80: Tile_32x64_64 for f16 is there, but no rule needs it",
        ],
    ),
    "element type without a kernel": (
        _specs("families/gemm_4bit/family.yaml", "[f16, bf16]", "[f16, bf16, f32]"),
        ["kernels: gemm_4bit sm_80: no kernel of Tile_simt_1 for f32"],
    ),
    "kernel of another engine": (
        _set(mma="simt_kernel"),
        ["instructions: gemm_4bit sm_80: Tile_32x64_64 for f16 is of engine mma_m16n8k16, but holds no HMMA.16816"],
    ),
    "symbol of somebody else": (
        _set(glue=f"{EXPORT} int helper(void) {{ return 1; }}"),
        ["exports: exports helper"],
    ),
    "search path": (_set(link=["-Wl,-rpath,/opt/cuda"]), ["needed: has the search path /opt/cuda"]),
    "licence that is missing": (_set(drop=(LICENCE,)), ["licences: lacks the licence file NOTICE"]),
    "licence without text": (_set(files={LICENCE: b"\n"}), ["licences: NOTICE is empty"]),
    "licence that is not named": (
        _metadata("License-File: NOTICE\n", ""),
        ["licences: METADATA does not name NOTICE as a License-File"],
    ),
    "changed file": (
        _set(after_record={"tilewright/images.json": b'{"families": {"gemm_4bit": {"sm_80": [], "sm_86": []}}}'}),
        ["record: tilewright/images.json is not what RECORD says"],
    ),
    "unlisted file": (_set(after_record={"tilewright/extra.py": b""}), ["record: tilewright/extra.py is not listed"]),
    "bundled library": (
        _set(files={"tilewright/libcudart.so.13": b""}),
        ["members: bundles tilewright/libcudart.so.13; only tilewright/_native.so is expected"],
    ),
    "stray package": (_set(files={"tests/test_x.py": b""}), ["members: holds tests/"]),
    "no CMake modules": (
        _set(drop=("tilewright_codegen/_data/cmake/TilewrightFamilies.cmake",)),
        ["members: lacks tilewright_codegen/_data/cmake/TilewrightFamilies.cmake"],
    ),
    "bytecode": (
        _set(files={"tilewright/__pycache__/a.cpython-311.pyc": b""}),
        ["members: holds tilewright/__pycache__/a.cpython-311.pyc"],
    ),
    "upper bound on torch": (_metadata("torch>=2.10", "torch>=2.10,<2.14"), ["metadata: requires torch>=2.10,<2.14"]),
    "no torch": (_metadata("Requires-Dist: torch>=2.10\n", ""), ["metadata: does not require torch"]),
    "CUDA libraries": (
        _metadata("Requires-Dist: torch", "Requires-Dist: nvidia-cublas\nRequires-Dist: torch"),
        ["metadata: requires nvidia-cublas; CUDA libraries come with torch"],
    ),
    "another name": (_metadata("Name: tilewright", "Name: other"), ["metadata: Name is other; expected tilewright"]),
    "unrepaired platform": (_set(platform="linux_x86_64"), ["platform: platform tag linux_x86_64 promises no glibc"]),
    "too old a glibc": (
        _set(platform="manylinux_2_5_x86_64"),
        ["platform: the tag promises glibc 2.5, but the library"],
    ),
    "other machine": (
        _set(platform=f"{PLATFORM.rsplit('_x86_64', 1)[0]}_aarch64"),
        ["platform: the tag is for aarch64, the library for x86_64"],
    ),
    "other specs": (_set(digest="0" * 64), ["specs: the library was generated from other specs"]),
    "variant with too much": (
        _set(version="0.1.0+old"),
        ["declared images: 'old' does not ask for sm_86; the wheel was built for it"],
    ),
    "wheel over budget": (
        _specs("budget.yaml", "wheel_bytes: 5_000_000", "wheel_bytes: 1000"),
        [r"budget: the wheel: [\d,]+ bytes; the budget is 1,000"],
    ),
    "family over budget": (
        _specs("budget.yaml", "total_bytes: 100_000", "total_bytes: 100"),
        [r"budget: gemm_4bit: [\d,]+ bytes; the budget is 100"],
    ),
    "image over budget": (
        _specs("budget.yaml", "image_bytes: 50_000", "image_bytes: 50_000, images: {sm_86: 10}"),
        [r"budget: gemm_4bit sm_86: [\d,]+ bytes; the budget is 10"],
    ),
    "family without a budget": (
        _specs("budget.yaml", "families:\n  - {family: gemm_4bit, total_bytes: 100_000, image_bytes: 50_000}\n", ""),
        ["budget: gemm_4bit: the budget does not mention it"],
    ),
    "library that is none": (
        _set(after_record={"tilewright/_native.so": b"MZ"}),
        ["library: tilewright/_native.so is not a 64-bit little-endian ELF file"],
    ),
    "no library": (_set(drop=("tilewright/_native.so",)), ["library: there is no tilewright/_native.so"]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_found(name: str, compiler: Compiler, tmp_path: Path) -> None:
    fault, expected = PLANTED[name]
    every = "instructions: " in expected[0]
    report = _check(compiler, tmp_path, fault, EVERY if every else QUICK)
    for pattern in expected:
        assert any(_matches(pattern, text) for text in report.problems), report.problems


def _matches(pattern: str, text: str) -> bool:
    """Whether a text starts as expected; a pattern with a backslash is a regular expression."""
    return re.match(pattern if "\\" in pattern else re.escape(pattern), text) is not None


def test_ptx_is_read_like_machine_code(compiler: Compiler, tmp_path: Path) -> None:
    fault = _set(nvcc=PTX, images=("sm_80", "sm_86", "compute_86"))
    report = _check(compiler, tmp_path, fault, replace(EVERY, archs="80 86+PTX"))
    assert report.problems == []
    assert [check.name for check in report.skipped] == []
    facts = {check.name: check.facts for check in report.checks}
    assert facts["images"]["images"] == ["compute_86", "sm_80", "sm_86"]
    assert facts["kernels"]["kernels"] == facts["instructions"]["kernels"] == 12
    assert set(facts["budget"]["bytes"]["gemm_4bit"]) == {"sm_80", "sm_86", "compute_86"}
    without = check_wheel(tmp_path / report.wheel, replace(QUICK, archs="80 86"))
    assert without.problems == ["declared images: '80 86' does not ask for compute_86; the wheel was built for it"]


def test_a_library_of_somebody_else_is_found(compiler: Compiler, tmp_path: Path) -> None:
    other = empty_library(tmp_path, "other")

    def fault(recipe: Recipe) -> None:
        recipe.link = ["-Wl,--no-as-needed", str(other)]

    (problem,) = _check(compiler, tmp_path, fault, QUICK).problems
    assert "libother.so, which is no part of glibc" in problem


def test_asked_archs_are_compared(compiler: Compiler, tmp_path: Path) -> None:
    report = _check(compiler, tmp_path, _set(images=("sm_80",), nvcc=["-compress-mode=size", GENCODE[0]]), QUICK)
    assert report.problems == []
    wheel = tmp_path / report.wheel
    asked = check_wheel(wheel, replace(QUICK, archs="all"))
    assert asked.problems == ["declared images: 'all' asks for sm_86; the wheel was not built for it"]


def test_what_needs_cuobjdump_is_not_passed_silently(compiler: Compiler, tmp_path: Path) -> None:
    broken = tmp_path / "cuobjdump"
    broken.write_text("#!/bin/sh\necho no luck >&2\nexit 3\n")
    broken.chmod(0o755)
    report = _check(compiler, tmp_path, options=replace(QUICK, cuobjdump=broken))
    assert report.problems == []
    assert {check.name for check in report.skipped} == {"kernels", "instructions", "budget"}
    assert "no luck" in str(report.skipped[0].skipped)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("tilewright.whl", b"", "is not the name of a wheel"),
        ("tilewright-0.1.0-py3-none-any.whl", b"no zip", "File is not a zip file"),
        ("tilewright-0.1.0-py3-none-any.whl", None, "0 dist-info folders"),
    ],
)
def test_files_that_are_no_wheel_are_errors(name: str, data: bytes | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / name
    if data is None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("tilewright/a.py", "")
    else:
        file.write_bytes(data)
    with pytest.raises(WheelError, match=message):
        check_wheel(file)


def _command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "tilewright_codegen", "wheel-check", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_command_prints_a_table_and_json(compiler: Compiler, tmp_path: Path) -> None:
    wheel = make_wheel(compiler, tmp_path, Recipe())
    text = _command(wheel, "--complete")
    assert text.returncode == 0, text.stdout + text.stderr
    assert text.stdout.splitlines()[-1] == "no difference"
    assert "gemm_4bit" in text.stdout
    data = json.loads(_command(wheel, "--format", "json").stdout)
    assert data["ok"] is True
    assert {check["state"] for check in data["checks"]} == {"ok"}


def test_command_fails_on_a_difference_and_on_nonsense(compiler: Compiler, tmp_path: Path) -> None:
    recipe = Recipe()
    recipe.drop = (LICENCE,)
    bad = _command(make_wheel(compiler, tmp_path, recipe))
    assert bad.returncode == 1
    assert "differs: licences: lacks the licence file NOTICE" in bad.stdout
    nonsense = tmp_path / "tilewright-0.1.0-py3-none-any.whl"
    nonsense.write_bytes(b"PK")
    failed = _command(nonsense)
    assert (failed.returncode, "Traceback" in failed.stderr) == (1, False)
    assert failed.stderr.startswith("error: ")


def test_complete_fails_when_something_is_unchecked(compiler: Compiler, tmp_path: Path) -> None:
    wheel = make_wheel(compiler, tmp_path, Recipe())
    done = _command(wheel, "--instructions", "none", "--complete")
    assert done.returncode == 1
    assert "not checked: instructions: left out on request" in done.stdout
