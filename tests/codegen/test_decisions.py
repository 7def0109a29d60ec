"""Bands of M are exact where decisions are not monotone, and golden files follow the specs."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tilewright_codegen.decisions import (
    DENSE_M,
    Table,
    arch_tables,
    digests,
    golden_files,
    m_values,
    render_tables,
    stale_goldens,
    write_goldens,
)
from tilewright_codegen.evaluate import decide
from tilewright_codegen.grid import GridError, expand, pick_grid
from tilewright_codegen.ir import SpecTree
from tilewright_codegen.models import GridFile
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
GOLDEN = ROOT / "tests" / "golden" / "decisions"


@cache
def example() -> SpecTree:
    return load_tree(EXAMPLE)


def grid(**changes: object) -> GridFile:
    document = {
        "schema": "grid/1",
        "name": "test",
        "family": "gemm_4bit",
        "M": [1],
        "N": [1344],
        "K": [1024],
        **changes,
    }
    return GridFile.model_validate(document)


def tables(arch: str, **changes: object) -> list[Table]:
    family = example().families["gemm_4bit"]
    return arch_tables(family, example().archs[arch], grid(**changes))


def test_bands_follow_a_decision_that_is_not_monotone_in_m() -> None:
    """A T4 falls back at M of 5 to 8 and uses its kernel again from 9 to 64."""
    table = next(t for t in tables("sm75") if ("f16",) in t.words)
    bands = [(b.first, b.last, b.label == "fallback") for b in table.rows[0][1]]
    falls = [(first, last) for first, last, fallback in bands if fallback]
    assert falls == [(5, 8), (65, None)]
    assert bands[0][0] == 1 and all(a[1] + 1 == b[0] for a, b in pairwise(bands) if a[1])


@pytest.mark.parametrize("arch", ["sm75", "sm80", "sm90", "sm121"])
def test_every_m_lies_in_the_band_the_interpreter_names(arch: str) -> None:
    family = example().families["gemm_4bit"]
    for table in tables(arch, N=[1344, 3456, 4096], K=[4096]):
        for point, bands in table.rows:
            for dtype in (w[-1] for w in table.words):
                for M in [*range(1, 140), 191, 192, 193, 256, 257, 512, 513, 1536, 1537, 9999, 1_048_576]:
                    problem = {
                        "M": M,
                        "N": point.N,
                        "K": point.K,
                        "num_sms": table.num_sms,
                        "dtype": dtype,
                        "blocksize": 64,
                    }
                    decision = decide(family, arch, problem)
                    label = decision.tile(family)
                    if label is None:
                        label = "fallback" if decision.value("path") == "fallback" else decision.value("engine")
                    band = next(b for b in bands if b.first <= M <= (b.last or M))
                    assert band.label == label, (M, point, dtype)


def test_tables_that_agree_for_several_words_are_given_once() -> None:
    found = tables("sm121")
    assert [t.words for t in found] == [(("f16",), ("bf16",)), (("f32",),)]
    assert all(t.rows for t in found)


def test_m_is_dense_and_reaches_the_limit() -> None:
    family = example().families["gemm_4bit"]
    values = m_values(family, grid())
    assert values[:DENSE_M] == tuple(range(1, DENSE_M + 1))
    assert values[-1] == 1_048_576
    assert max(b / a for a, b in pairwise(values[DENSE_M:])) < 1.1


def test_text_shows_an_open_right_end_and_aligned_columns() -> None:
    family = example().families["gemm_4bit"]
    lines = render_tables(family, tables("sm121", N=[4096, 14_336], K=[4096])).splitlines()
    assert lines[0] == "# gemm_4bit  sm121  num_sms=48  f16|bf16"
    assert lines[2].split()[:2] == ["4096", "4096"] and lines[2].endswith("257- fallback")
    assert lines[2].index("7-32 32x128-128") == lines[3].index("7-32 32x128-128")


def test_golden_files_of_the_specs_are_up_to_date() -> None:
    tree = load_tree(ROOT / "specs")
    for family in tree.families.values():
        files = golden_files(tree, family, pick_grid([tree], family.name, None))
        assert files
        assert not stale_goldens(GOLDEN, files), "run: tilewright decisions --write tests/golden/decisions"


def test_goldens_are_written_compared_and_cleared(tmp_path: Path) -> None:
    files = {"gemm_4bit/sm80.txt": "a\n", "gemm_4bit/sm90.txt": "b\n"}
    assert write_goldens(tmp_path, files) == sorted(files)
    assert write_goldens(tmp_path, files) == []
    (tmp_path / "gemm_4bit" / "sm80.txt").write_text("c\n")
    (tmp_path / "gemm_4bit" / "sm61.txt").write_text("gone\n")
    assert stale_goldens(tmp_path, files) == ["gemm_4bit/sm61.txt", "gemm_4bit/sm80.txt"]
    write_goldens(tmp_path, files)
    assert sorted(p.name for p in (tmp_path / "gemm_4bit").iterdir()) == ["sm80.txt", "sm90.txt"]


def test_digest_depends_on_decisions_only() -> None:
    family = example().families["gemm_4bit"]
    archs = example().archs
    cells = {a: expand(family, archs[a], grid(num_sms=[100], M=[1, 2, 8, 100])) for a in ("sm100", "sm103", "sm121")}
    found = {a: digests(family, c) for a, c in cells.items()}
    assert found["sm100"] == found["sm103"] != found["sm121"]
    assert set(found["sm100"]) == {layer.name for layer in family.layers}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtypes": ["f64"]}, "names dtype 'f64'"),
        ({"N": [], "K": []}, "has no shapes"),
        ({"M": [1 << 21]}, "the family's limit"),
    ],
)
def test_a_grid_outside_the_family_is_an_error(changes: dict[str, object], message: str) -> None:
    with pytest.raises(GridError, match=message):
        expand(example().families["gemm_4bit"], example().archs["sm121"], grid(**changes))


def test_command_prints_checks_and_names_what_is_unknown(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tilewright_codegen", "decisions", "--specs", str(EXAMPLE), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    shown = run("--arch", "sm121")
    assert shown.returncode == 0 and shown.stdout.startswith("# gemm_4bit  sm121  num_sms=48")
    stale = run("--check", str(tmp_path))
    assert stale.returncode == 1 and "gemm_4bit/sm121.txt" in stale.stderr and "--write" in stale.stderr
    for words in (("--arch", "sm12"), ("--grid", "nope"), ("nope",)):
        wrong = run(*words)
        assert wrong.returncode == 1 and wrong.stderr.startswith("error: ") and "Traceback" not in wrong.stderr


def test_only_inputs_that_the_rules_of_an_arch_read_are_enumerated() -> None:
    tree = load_tree(ROOT / "specs")
    family = tree.families["gemm_4bit"]
    cells = {name: expand(family, tree.archs[name], pick_grid([tree], "gemm_4bit", None)) for name in ("sm80", "sm90")}
    assert [name for name, _ in cells["sm80"].enums] == ["layout", "dtype"]
    assert [name for name, _ in cells["sm90"].enums] == ["quant_type", "layout", "dtype"]
    assert "quant_type" not in cells["sm80"].problem((0, 0, 0, 0, 0))
    heading = render_tables(family, arch_tables(family, tree.archs["sm80"], grid())).splitlines()[0]
    assert heading == "# gemm_4bit  sm80  num_sms=108  packed, f16|bf16"


def test_an_input_is_read_through_facts_and_predicates() -> None:
    family = load_tree(ROOT / "specs").families["gemm_4bit"]
    engine = family.layer_by_name["engine"]
    assert "quant_type" in engine.reads("sm90") and "quant_type" not in engine.reads("sm80")
    assert {"M", "N", "num_sms", "mma_blocks"} <= engine.reads("sm80")
    assert "path" in engine.reads("sm80"), "the gate reads it"
