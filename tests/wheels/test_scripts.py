"""Scripts around wheels, and what pip makes of the wheels' names."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
METADATA = """\
Metadata-Version: 2.4
Name: tilewright
Version: {version}
License-Expression: Apache-2.0
Requires-Dist: torch>=2.10
Requires-Dist: pytest; extra == "test"
"""


def _wheel(folder: Path, version: str, library: bool = True) -> Path:
    """A wheel with nothing but metadata, without requirements that pip would look for, and a library that is none."""
    info = f"tilewright-{version}.dist-info"
    wheel = folder / f"tilewright-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{info}/METADATA", METADATA.format(version=version))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
        if library:
            archive.writestr("tilewright/_native.so", "")
    return wheel


def _download(requirement: str, offered: Path, target: Path) -> list[str]:
    flags = ["--no-deps", "--no-index", "--disable-pip-version-check", "--find-links", offered, "--dest", target]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *map(str, flags), requirement]
    subprocess.run(command, check=True, capture_output=True)
    return [file.name for file in target.iterdir()]


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="needs pip")
@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("tilewright", "0.2.0"),
        ("tilewright==0.1.0", "0.1.0+spark"),
        ("tilewright<0.2", "0.1.0+spark"),
        ("tilewright==0.1.0+spark", "0.1.0+spark"),
    ],
)
def test_pip_takes_a_variant_over_the_plain_wheel_of_its_version_only(
    requirement: str, expected: str, tmp_path: Path
) -> None:
    offered = tmp_path / "offered"
    offered.mkdir()
    for version in ("0.1.0", "0.1.0+spark", "0.2.0"):
        _wheel(offered, version)
    assert _download(requirement, offered, tmp_path / "got") == [f"tilewright-{expected}-py3-none-any.whl"]


def test_build_requirements_are_those_of_the_package() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "build_requirements.py"], capture_output=True, text=True, check=True
    )
    printed = done.stdout.splitlines()
    text = (ROOT / "pyproject.toml").read_text()
    if sys.version_info >= (3, 11):
        import tomllib

        assert printed == tomllib.loads(text)["build-system"]["requires"]
    assert "nvidia-cuda-nvcc==13.5.*" in printed
    assert all(f'"{requirement}"' in text for requirement in printed)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomllib")
def test_tests_compile_with_the_compiler_of_builds() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = set(project["build-system"]["requires"]) - set(project["project"]["dependencies"])
    extras = project["project"]["optional-dependencies"]
    assert set(extras["compiler"]) == needed | {"nvidia-cuda-nvdisasm==13.5.*"}
    assert "tilewright[test,docs,workflows,compiler]" in extras["dev"]


def _sbom(wheel: Path, out: Path) -> dict[str, object]:
    pytest.importorskip("cyclonedx")
    subprocess.run([sys.executable, SCRIPTS / "make_sbom.py", wheel, "--out", out], check=True, capture_output=True)
    data: dict[str, object] = json.loads(out.read_text())
    return data


def test_bill_of_materials_names_the_wheel_cudart_and_requirements(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, "0.1.0")
    first = _sbom(wheel, tmp_path / "a.json")
    assert first == _sbom(wheel, tmp_path / "b.json")
    text = json.dumps(first)
    assert "timestamp" not in text
    names = {component["name"] for component in first["components"]}  # type: ignore[attr-defined]
    assert names == {"nvidia-cuda-runtime", "torch"}
    assert first["metadata"]["component"]["name"] == "tilewright"  # type: ignore[index]
    assert {dependency["ref"] for dependency in first["dependencies"]} >= {"nvidia-cuda-runtime"}  # type: ignore[attr-defined]


def test_bill_of_materials_of_a_wheel_without_machine_code_names_no_cudart(tmp_path: Path) -> None:
    data = _sbom(_wheel(tmp_path, "0.1.0", library=False), tmp_path / "a.json")
    assert {component["name"] for component in data["components"]} == {"torch"}  # type: ignore[attr-defined]
