"""Which family a command means when it is given none."""

from __future__ import annotations

import shutil
from pathlib import Path

from click.testing import CliRunner

from tilewright_codegen.cli import main

PORT = Path(__file__).parents[2] / "specs" / "examples" / "bitsandbytes-0.50"


def _two_families(folder: Path, default: tuple[str, ...]) -> Path:
    """The port with its family twice, under two names; `default` lists those that claim to be it."""
    specs = folder / "specs"
    shutil.copytree(PORT, specs, ignore=shutil.ignore_patterns("claims.yaml", "grid.yaml"))
    for name in ("one", "two"):
        shutil.copytree(PORT / "families" / "gemm_4bit", specs / "families" / name)
        for file in (specs / "families" / name).glob("*.yaml"):
            text = file.read_text()
            if "schema: family/1" in text:
                claim = "default: true\n" if name in default else ""
                file.write_text(text.replace("name: gemm_4bit\n", f"name: {name}\n{claim}"))
    shutil.rmtree(specs / "families" / "gemm_4bit")
    return specs


def _resources(specs: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["resources", *arguments, "--specs", str(specs)])
    return result.exit_code, result.output


def test_the_default_family_needs_no_name(tmp_path: Path) -> None:
    specs = _two_families(tmp_path, ("two",))
    unnamed, named = _resources(specs), _resources(specs, "two")
    assert unnamed[0] == 0, unnamed[1]
    assert unnamed == named


def test_without_a_default_the_name_is_asked_for(tmp_path: Path) -> None:
    status, text = _resources(_two_families(tmp_path, ()))
    assert (status, text.strip()) == (1, "error: which family? one of: one, two")


def test_two_defaults_are_none(tmp_path: Path) -> None:
    status, text = _resources(_two_families(tmp_path, ("one", "two")))
    assert (status, "which family?" in text) == (1, True)
