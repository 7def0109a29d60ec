"""The support matrix says what the rules do, and committed copies follow it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tilewright_codegen.evaluate import decide
from tilewright_codegen.matrix import BEGIN, END, matrix
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
TREE = load_tree(ROOT / "specs")


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright_codegen", "matrix", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_every_arch_family_and_engine_has_one_cell() -> None:
    cells = matrix(TREE)
    keys = [(c.arch, c.family, c.engine) for c in cells]
    assert len(set(keys)) == len(keys)
    for family in TREE.families.values():
        engines = {t.engine for t in family.tiles}
        assert sum(c.family == family.name for c in cells) == len(TREE.archs) * len(engines)


def test_a_tile_that_is_decided_stands_in_its_cell() -> None:
    cells = {(c.arch, c.engine): c for c in matrix(TREE) if c.family == "gemm_4bit"}
    family = TREE.families["gemm_4bit"]
    for arch in TREE.archs:
        for M in (1, 3, 16, 64, 256):
            problem = {"M": M, "N": 14336, "K": 4096, "num_sms": 48, "dtype": "bf16", "blocksize": 64}
            tile = decide(family, arch, problem).tile(family)
            if tile is not None:
                assert tile in cells[arch, family.tile_by_id[tile].engine].tiles


def test_write_updates_between_markers_and_check_notices(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    stale = _run("--write", str(page), "--check")
    assert stale.returncode == 1 and "stale" in page.read_text() and "tilewright matrix --write" in stale.stderr
    assert _run("--write", str(page)).returncode == 0
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| `gemm_4bit`") and text.endswith(f"{END}\nafter\n")
    assert _run("--write", str(page), "--check").returncode == 0


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no markers\n")
    result = _run("--write", str(page))
    assert result.returncode == 1 and "matrix:begin" in result.stderr and "Traceback" not in result.stderr
