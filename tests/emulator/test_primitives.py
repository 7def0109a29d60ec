"""The emulator has every primitive that kernels have, and says what is wrong with a call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilewright_codegen.cli import main
from tilewright_codegen.emulate.build import BuildError, Patch, build, rewritten_headers
from tilewright_codegen.tree import load_tree

from .tiles import simt_4bit, wgmma_4bit

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT / "csrc_templates" / "include" / "tilewright" / "ptx"
EMULATED = ROOT / "csrc_templates" / "emulator" / "include" / "tilewright" / "ptx"
FUNCTION = re.compile(r"__forceinline__ [\w:]+ ?\*? ?(\w+)\(")


@pytest.mark.parametrize("header", sorted(p.name for p in REAL.glob("*.cuh")))
def test_every_primitive_is_emulated(header: str) -> None:
    wanted = set(FUNCTION.findall((REAL / header).read_text()))
    there = set(re.findall(r"(\w+)\(", (EMULATED / header).read_text()))
    assert wanted - there == set()


def test_instructions_stay_in_ptx() -> None:
    """No header that the emulator compiles has instruction text of its own."""
    assert [name for name, text in rewritten_headers().items() if re.search(r"\basm\b", text)] == []


def test_no_shared_array_is_left() -> None:
    """Every way in which kernels declare shared memory is one that the emulator knows."""
    assert [name for name, text in rewritten_headers().items() if "__shared__" in text] == []


def test_patch_that_does_not_fit() -> None:
    with pytest.raises(BuildError, match="occurs 0 times"):
        rewritten_headers([Patch("gemm_4bit/simt.cuh", "no such text", "")])


def test_compiler_errors_are_said() -> None:
    with pytest.raises(BuildError, match="error"):
        build(simt_4bit(mb=0))


def test_library_is_kept() -> None:
    assert build(wgmma_4bit()).stat().st_mtime_ns == build(wgmma_4bit()).stat().st_mtime_ns


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["emulate", "--specs", str(ROOT / "specs"), *arguments])
    return result.exit_code, result.output


def test_command() -> None:
    code, output = run(
        "gemm_4bit", "--tile", "simt-1", "--schedules", "3", "--problem", "2,8,64", "--word", "quant_type=fp4"
    )
    assert code == 0
    assert "2,8,64 bf16 quant_type=fp4" in output
    assert "3 schedules" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gemm_4bit", "--tile", "simt-1", "--problem", "2,8"), "'2,8' is no problem."),
        (("gemm_4bit", "--tile", "simt-1", "--word", "fp4"), "'fp4' is no word of a problem."),
        (("gemm_4bit", "--tile", "no-such"), "there is no tile 'no-such'."),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], message: str) -> None:
    code, output = run(*arguments)
    assert code == 1
    assert message in output
    assert "Traceback" not in output


def test_arch_without_the_engine() -> None:
    tile = next(t.id for t in load_tree(str(ROOT / "specs")).families["gemm_4bit"].tiles if t.engine == "wgmma")
    code, output = run("gemm_4bit", "--tile", tile, "--arch", "sm80")
    assert code == 1
    assert f"no arch asked for can run tile '{tile}' (engine wgmma)." in output
