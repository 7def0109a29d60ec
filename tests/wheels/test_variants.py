"""Named arch sets and budgets of the specs: bound, checked, and the same everywhere they are written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from tilewright_codegen.archs import ArchTokenError
from tilewright_codegen.diagnostics import Diagnostic, Sink
from tilewright_codegen.tree import load_tree, read_tree
from tilewright_codegen.variants import named_sets, parse_archs

ROOT = Path(__file__).parents[2]
TREE = load_tree(ROOT / "specs")


def test_variants_are_arch_lists() -> None:
    assert [a.image for a in parse_archs("spark", TREE)] == ["sm_121a"]
    assert [a.image for a in parse_archs("datacenter", TREE)] == ["sm_80", "sm_90a", "sm_100f", "sm_103a", "sm_107a"]
    both = parse_archs("consumer;spark,90a", TREE)
    assert [a.image for a in both] == ["sm_86", "sm_89", "sm_90a", "sm_120f", "sm_121a"]
    every = parse_archs("all", TREE)
    assert [a.profile.name for a in every] == [n for n, arch in TREE.archs.items() if arch.profile.gencode is not None]
    assert [a.image for a in every if a.ptx] == ["sm_89"]


@pytest.mark.parametrize(
    "token", ["8.0a", "12.10", "9.0f", "sm_90A", "107", "90", "10.1", "75", "90a+PTX", "datacentre"]
)
def test_impossible_tokens_are_quoted(token: str) -> None:
    with pytest.raises(ArchTokenError) as caught:
        parse_archs(f"80;{token};90a", TREE)
    assert f"'{token}'" in str(caught.value)


def test_every_bad_token_is_reported_at_once() -> None:
    with pytest.raises(ArchTokenError) as caught:
        parse_archs("8.0a,80,9.0f", TREE)
    assert len(str(caught.value).splitlines()) == 2


def test_a_repeated_arch_is_said_and_nothing_is_lost() -> None:
    notes: list[str] = []
    archs = parse_archs("80; sm_80 90a;", TREE, notes.append)
    assert [a.image for a in archs] == ["sm_80", "sm_90a"]
    assert notes == ["arch token 'sm_80' repeats '80'"]


def test_old_compilers_are_refused(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tilewright_codegen", "render", "--specs", ROOT / "specs", "--out", tmp_path]
    done = subprocess.run([*words, "--archs", "107a;80", "--cuda", "13.0"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: arch token '107a': sm_107a needs CUDA 13.4 or newer; the compiler is 13.0")
    assert not any(tmp_path.iterdir())


def test_the_package_knows_every_variant_by_name() -> None:
    """pyproject.toml gives a wheel its local version; the release workflow builds each variant."""
    beside = {v.name for v in TREE.variants if v.published == "release"}
    pyproject = (ROOT / "pyproject.toml").read_text()
    conditions = re.findall(r'^if\.env\.TILEWRIGHT_ARCHS = "\^(\w+)\$"$', pyproject, re.MULTILINE)
    labels = re.findall(r'result = "\{value\}\+(\w+)"', pyproject)
    assert conditions == labels
    assert set(labels) == beside
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert set(release["jobs"]["variants"]["strategy"]["matrix"]["archs"]) == beside


@pytest.mark.parametrize("variant", sorted(set(named_sets(TREE)) - {"small", "all"}))
def test_a_variant_sorts_above_the_plain_wheel_and_below_the_next_version(variant: str) -> None:
    assert Version("0.1.0") < Version(f"0.1.0+{variant}") < Version("0.1.1")


FAULTS = {
    "unknown arch": ("wheels.yaml", "archs: [sm80]", "archs: [sm81]", "E301", "there is no arch 'sm81'"),
    "arch without code": ("wheels.yaml", "archs: [sm80]", "archs: [unknown]", "E301", "no machine code"),
    "arch twice": ("wheels.yaml", "archs: [sm80]", "archs: [sm80, sm80]", "E206", "listed twice"),
    "name twice": (
        "wheels.yaml",
        "why: one arch}",
        "why: it}\n  - {name: old, archs: [sm86], why: too}",
        "E206",
        "twice",
    ),
    "two for the index": ("wheels.yaml", "archs: [sm80],", "archs: [sm80], published: index,", "E104", "all, old"),
    "PTX of no arch": ("wheels.yaml", "archs: [sm80],", "archs: [sm80], ptx: [sm81],", "E301", "no arch 'sm81'"),
    "PTX alone": ("wheels.yaml", "archs: [sm80],", "archs: [sm80], ptx: [sm86],", "E301", "without its machine code"),
    "PTX twice": ("wheels.yaml", "archs: [sm80],", "archs: [sm80], ptx: [sm80, sm80],", "E206", "listed twice"),
    "all that is not": ("wheels.yaml", "archs: all", "archs: [sm80]", "E104", "the one with all archs"),
    "family unknown": ("budget.yaml", "family: gemm_4bit", "family: gemm_5bit", "E301", "there is no family"),
    "image unknown": ("budget.yaml", "image_bytes: 50_000", "image_bytes: 1, images: {sm_99a: 1}", "E301", "sm_99a"),
    "no size": ("budget.yaml", "total_bytes: 100_000, ", "", "E104", "total_bytes"),
    "size as text": ("budget.yaml", "wheel_bytes: 5_000_000", 'wheel_bytes: "5 MB"', "E104", "wheel_bytes"),
}


def _faults(files: dict[str, str], folder: Path) -> list[Diagnostic]:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    tree, found = read_tree(folder, Sink())
    assert tree is None
    return list(found)


def test_ptx_of_a_target_for_some_devices_only_is_a_fault(tmp_path: Path) -> None:
    from wheel_factory import SPECS

    files = dict(SPECS)
    files["archs/sm86.yaml"] = files["archs/sm86.yaml"].replace("gencode: sm_86", "gencode: sm_86a")
    files["wheels.yaml"] = files["wheels.yaml"].replace("archs: all", "archs: all, ptx: [sm80, sm86]")
    (found,) = _faults(files, tmp_path)
    assert (found.code, found.message) == ("E301", "PTX of sm_86a runs on no later device.")
    assert found.location.path.endswith("wheels.yaml")


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found_with_their_place(name: str, tmp_path: Path) -> None:
    from wheel_factory import ARCH, SPECS

    file, old, new, code, message = FAULTS[name]
    unknown = ARCH.format(n=99, minor=9).replace("sm99", "unknown").replace("cc: [8, 9]", "cc: null")
    files = {**SPECS, "archs/unknown.yaml": unknown.replace("gencode: sm_99", "gencode: null")}
    assert old in files[file]
    files[file] = files[file].replace(old, new)
    found = _faults(files, tmp_path)
    assert [d.code for d in found] == [code], found
    assert message in found[0].message
    assert found[0].location.path.endswith(file)
    assert found[0].location.line > 1
