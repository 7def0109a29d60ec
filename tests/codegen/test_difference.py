"""What a diff of two spec trees reports, checked against deciding both sides problem by problem."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from tilewright_codegen.difference import Difference, compare
from tilewright_codegen.difference_report import RENDERERS
from tilewright_codegen.evaluate import decide
from tilewright_codegen.grid import GridError, expand
from tilewright_codegen.ir import SpecTree
from tilewright_codegen.models import GridFile
from tilewright_codegen.revision import RevisionError, base_specs
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
RULES = "families/gemm_4bit"


@cache
def example() -> SpecTree:
    return load_tree(EXAMPLE)


@cache
def story() -> ModuleType:
    path = ROOT / "examples" / "add_sm121_tier" / "run.py"
    spec = importlib.util.spec_from_file_location("add_sm121_tier", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copy(folder: Path, *edits: tuple[str, str, str]) -> Path:
    """A copy of the example tree with (file, old text, new text) edits; each must fit exactly once."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("claims.yaml"))
    for name, old, new in edits:
        path = folder / name
        text = path.read_text()
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new))
    return folder


def grid(**changes: object) -> GridFile:
    document = {
        "schema": "grid/1", "name": "test", "family": "gemm_4bit", "M": [1, 4, 5, 6, 8, 9, 16, 48, 64, 65, 256, 257],
        "N": [1344, 4096, 14_336], "K": [1024, 4096, 4160], **changes,
    }  # fmt: skip
    return GridFile.model_validate(document)


def brute_force(base: SpecTree, head: SpecTree, cells: GridFile) -> dict[tuple[object, ...], tuple[object, object]]:
    """Every changed problem with its values before and after, by the scalar interpreter."""
    found = {}
    for arch in (a for a in head.archs if a in base.archs and (cells.archs == "all" or a in cells.archs)):
        grid_of = expand(head.families["gemm_4bit"], head.archs[arch], cells)
        for index in product(*map(range, grid_of.shape)):
            problem = grid_of.problem(index)
            sides = [decide(t.families["gemm_4bit"], arch, problem) for t in (base, head)]
            values = [{name: r.value for name, r in d.results.items()} for d in sides]
            if values[0] != values[1]:
                key = (arch, problem["num_sms"], problem["dtype"], problem["N"], problem["K"], problem["M"])
                found[key] = (values[0], values[1])
    return found


def reported(found: Difference) -> dict[tuple[object, ...], tuple[object, object]]:
    return {
        (c.arch, c.num_sms, c.words[-1], c.N, c.K, m): (dict(c.before.values), dict(c.after.values))
        for c in found.changes
        for m in c.M
    }


EDITS = {
    "cap": (
        f"{RULES}/1_path.yaml",
        "p19-full-wave, when: [full_wave], m_cap: 256",
        "p19-full-wave, when: [full_wave], m_cap: 64",
    ),
    "engine": (f"{RULES}/2_engine.yaml", "s5c-wide-n, when: [M <= 6,", "s5c-wide-n, when: [M <= 5,"),
    "not monotone": (f"{RULES}/1_path.yaml", "not full_wave, M > 8, M <= 64]", "not full_wave, M > 5, M <= 48]"),
    "tile": (
        f"{RULES}/3_tile.yaml",
        "t6a-two-thirds-wave, when: [tile_m == 32, blocks_32x128 * 3 >= num_sms * 2]",
        "t6a-two-thirds-wave, when: [tile_m == 32, blocks_32x128 * 3 >= num_sms * 3]",
    ),
}


def test_a_changed_tile_is_told_with_the_rule_that_moved(tmp_path: Path) -> None:
    head = load_tree(copy(tmp_path / "head", EDITS["tile"]))
    found = compare(example(), head, "gemm_4bit", grid(archs=["sm89", "sm121"], num_sms="first"))
    assert found.changed
    for change in found.changes:
        assert change.direction == f"tile: {change.before.tile} -> {change.after.tile}"
        assert change.before.tile == "32x128-128" or change.before.tile == "32x128-64"
        assert change.rules[0] == "t6a-two-thirds-wave" != change.rules[1]


@pytest.mark.parametrize("edit", EDITS)
def test_agrees_with_deciding_every_problem_on_both_sides(edit: str, tmp_path: Path) -> None:
    head = load_tree(copy(tmp_path / "head", EDITS[edit]))
    cells = grid(archs=["sm75", "sm89", "sm121"], num_sms="first")
    expected = brute_force(example(), head, cells)
    found = compare(example(), head, "gemm_4bit", cells)
    assert reported(found) == expected
    assert expected and found.changed == len(expected)
    assert found.enumerated == 3 * 3 * 12 * 9
    assert sum(found.directions.values()) == sum(found.shapes.values()) == len(expected)
    assert found.m_range == (min(k[-1] for k in expected), max(k[-1] for k in expected))  # type: ignore[type-var]


def test_directions_name_the_first_layer_that_moves(tmp_path: Path) -> None:
    def directions(name: str) -> set[str]:
        head = load_tree(copy(tmp_path / name, EDITS[name]))
        return set(compare(example(), head, "gemm_4bit", grid()).directions)

    assert directions("cap") == {"path: custom -> fallback"}
    assert directions("engine") == {"engine: simt -> mma"}
    moved = directions("tile")
    assert moved and all(d.startswith("tile: 32x128-") and "-> 32x64-" in d for d in moved)


def test_a_change_that_goes_both_ways_is_reported_as_both(tmp_path: Path) -> None:
    head = load_tree(copy(tmp_path / "head", EDITS["not monotone"]))
    found = compare(example(), head, "gemm_4bit", grid(archs=["sm75"]))
    assert found.directions == {"path: fallback -> custom": 2, "path: custom -> fallback": 1}
    rows = {c.M for c in found.changes if (c.N, c.K) == (1344, 1024)}
    assert rows == {(6, 8), (64,)}


def test_same_trees_do_not_differ() -> None:
    found = compare(example(), load_tree(EXAMPLE), "gemm_4bit", grid())
    assert (found.changed, found.reattributed, found.m_range, found.notes) == (0, 0, None, ())
    assert found.enumerated > 0
    assert "0 changed" in RENDERERS["text"](found, "base") and "No decision changes" in RENDERERS["markdown"](
        found, "base"
    )


def test_a_renamed_rule_is_no_change_but_is_counted(tmp_path: Path) -> None:
    head = load_tree(copy(tmp_path / "head", (f"{RULES}/1_path.yaml", "id: p0-tiny-m,", "id: p0-small-m,")))
    found = compare(example(), head, "gemm_4bit", grid(M=[4, 5]))
    assert found.changed == 0
    assert found.reattributed == found.enumerated // 2


def test_archs_on_one_side_only_are_named_and_not_enumerated(tmp_path: Path) -> None:
    base = tmp_path / "base"
    copy(base)
    (base / "archs" / "sm121.yaml").write_text(
        (base / "archs" / "sm121.yaml").read_text().replace("name: sm121", "name: sm122")
    )
    for path in (base / "families").rglob("*.yaml"):
        path.write_text(path.read_text().replace("sm121", "sm122"))
    for path in (base / "evidence").rglob("*.yaml"):
        path.write_text(path.read_text().replace("arch: sm121", "arch: sm122"))
    (base / "grid.yaml").unlink()
    found = compare(load_tree(base), example(), "gemm_4bit", grid())
    assert (found.only_base, found.only_head, found.changed) == (("sm122",), ("sm121",), 0)
    text = RENDERERS["text"](found, "base")
    assert "sm122 is only in the base" in text and "sm121 is new" in text
    assert "sm121" not in {a.arch for a in found.archs}


def test_seeded_comparison_finds_what_the_grid_misses(tmp_path: Path) -> None:
    """A moved threshold lies between the values of a small grid, and on a seed."""
    edit = (f"{RULES}/1_path.yaml", "id: p7b-work-per-sm, when: [small_wide, n_blocks * K > num_sms * 320]",
            "id: p7b-work-per-sm, when: [small_wide, n_blocks * K > num_sms * 340]")  # fmt: skip
    base = load_tree(copy(tmp_path / "base"))
    head = load_tree(copy(tmp_path / "head", edit))
    for tree in (base, head):
        for name in list(tree.archs):
            if name not in ("sm121",):
                del tree.archs[name]  # type: ignore[attr-defined]
    assert compare(base, head, "gemm_4bit", grid(archs=["sm121"])).changed == 0
    found = compare(base, head, "gemm_4bit", None)
    assert found.changed and set(found.directions) == {"path: fallback -> custom"}


def test_the_published_case_holds(tmp_path: Path) -> None:
    patch = (ROOT / "examples" / "add_sm121_tier" / "tier.patch").read_text().splitlines()
    assert sum(line.startswith("+") and not line.startswith("+++") for line in patch) == 3
    found = story().retell(tmp_path)
    assert all(story().findings(found).values()), story().findings(found)
    assert (found.enumerated, found.changed, found.m_range) == (60_720, 216, (48, 256))
    assert {a.arch: a.changed for a in found.archs if a.changed} == {"sm121": 216}
    assert len(found.archs) == 10
    for file in sorted((EXAMPLE / "families").rglob("*.yaml")):
        patched = tmp_path / "patched" / file.relative_to(EXAMPLE)
        assert patched.read_text() == file.read_text(), "taking the patch back and applying it gives the tree again"


def test_the_story_notices_a_tier_that_reaches_too_far(tmp_path: Path) -> None:
    wide = load_tree(
        copy(
            tmp_path / "head",
            (f"{RULES}/1_path.yaml", "when: [full_wave], m_cap: 256", "when: [full_wave], m_cap: 512"),
        )
    )
    stock = load_tree(story().stock_tree(tmp_path))
    held = story().findings(compare(stock, wide, "gemm_4bit", wide.grids["sm121-case"]))
    assert held["every change is on sm121"] and not held["every change has M <= 256"]


def diff(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilewright_codegen", "diff", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_base_can_be_a_git_revision(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    specs = copy(repository / "specs")
    git(repository, "init", "-q")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "first")
    path = specs / RULES / "1_path.yaml"
    path.write_text(
        path.read_text().replace("when: [full_wave], m_cap: 256, basis", "when: [full_wave], m_cap: 128, basis")
    )
    for specs_word, cwd in (("specs", repository), (str(specs), ROOT)):
        result = diff("HEAD", "--specs", specs_word, "--grid", "sm121-case", "--format", "json", cwd=cwd)
        assert result.returncode == 0, result.stderr
        document = json.loads(result.stdout)
        assert set(document["directions"]) == {"path: custom -> fallback"}
        assert [a for a, row in document["archs"].items() if row["changed"]] == ["sm121"]
    with base_specs("HEAD", str(specs)) as folder:
        assert sorted(p.relative_to(folder) for p in folder.rglob("*.yaml")) == sorted(
            p.relative_to(specs) for p in specs.rglob("*.yaml")
        )
    assert not folder.exists()


def test_a_base_that_is_nothing_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(RevisionError, match="neither a folder nor a git revision"),
        base_specs("no-such-thing", str(ROOT / "specs")),
    ):
        pass
    with pytest.raises(RevisionError, match="not in git"), base_specs("HEAD", str(tmp_path)):
        pass
    result = diff("--", "--upload-pack=x", "--specs", "specs")
    assert result.returncode != 0 and "Traceback" not in result.stderr


def test_formats_agree_and_exit_code_follows_the_change(tmp_path: Path) -> None:
    stock = str(story().stock_tree(tmp_path))
    words = (stock, "--specs", str(EXAMPLE), "--grid", "sm121-case", "--exit-code")
    results = {fmt: diff(*words, "--format", fmt) for fmt in RENDERERS}
    assert [r.returncode for r in results.values()] == [1, 1, 1]
    document = json.loads(results["json"].stdout)
    assert (document["enumerated"], document["changed"], document["M"]) == (60_720, 216, [48, 256])
    assert sum(len(c["M"]) for c in document["changes"]) == 216
    assert "60,720 decisions enumerated, 216 changed" in results["text"].stdout
    assert "**216 of 60,720 decisions change**, on sm121 only" in results["markdown"].stdout
    rows = [line for line in results["markdown"].stdout.splitlines() if line.startswith("| sm121 | 48 ")]
    assert rows and {row.count("|") for row in rows} == {10}
    assert diff(str(EXAMPLE), "--specs", str(EXAMPLE), "--exit-code").returncode == 0


def test_unknown_family_or_grid_is_an_error() -> None:
    with pytest.raises(GridError, match="no family 'nope'"):
        compare(example(), example(), "nope", grid())
    result = diff(str(EXAMPLE), "--specs", str(EXAMPLE), "--grid", "nope")
    assert result.returncode == 1 and "has no grid 'nope'" in result.stderr and "sm121-case" in result.stderr
