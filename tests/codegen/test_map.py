"""Decision maps: the runs they draw are the decisions, and the files do not depend on when or where they are made."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tilewright_codegen.evaluate import decide
from tilewright_codegen.grid import Point, pick_grid
from tilewright_codegen.ir import Family, SpecTree
from tilewright_codegen.mapping import BASES, Question, difference_panel, n_points, panel, shape_points
from tilewright_codegen.tree import load_tree

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
QUESTION = Question("bf16", (), 64, 300)
POINTS = (Point(1344, 1024), Point(4096, 4096), Point(14_336, 4096))


@cache
def example() -> SpecTree:
    return load_tree(EXAMPLE)


def family() -> Family:
    return example().families["gemm_4bit"]


def edited(tmp_path: Path, old: str, new: str) -> Family:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("claims.yaml"))
    path = copy / "families" / "gemm_4bit" / "1_path.yaml"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    return load_tree(copy).families["gemm_4bit"]


def problem(arch: str, point: Point, M: int) -> dict[str, int | str]:
    count = example().archs[arch].profile.sm_counts[0]
    return {"M": M, "N": point.N, "K": point.K, "num_sms": count, "dtype": "bf16", "blocksize": 64}


@pytest.mark.parametrize("arch", ["sm80", "sm121", "unknown"])
def test_runs_cover_every_m_and_are_the_decisions(arch: str) -> None:
    drawn = panel(family(), example().archs[arch], QUESTION, POINTS)
    for row in drawn.rows:
        assert [r.first for r in row.runs] == [1, *(r.last + 1 for r in row.runs[:-1])]
        assert row.runs[-1].last == 300
        for run in row.runs:
            for M in {run.first, run.last, (run.first + run.last) // 2}:
                decision = decide(family(), arch, problem(arch, row.point, M))
                rules = [r.rule for r in decision.results.values() if r.rule is not None]
                tile = decision.tile(family())
                expected = tile or ("fallback" if decision.value("path") == "fallback" else decision.value("engine"))
                assert run.label == expected
                assert run.basis == max((r.basis or "assumed" for r in rules), key=BASES.index)
                engine = family().tile_by_id[tile].engine if tile else expected
                assert run.group == engine


def test_a_difference_draws_what_moved_and_nothing_else(tmp_path: Path) -> None:
    base = edited(tmp_path, "when: [full_wave], m_cap: 256", "when: [full_wave], m_cap: 64")
    drawn = difference_panel(base, family(), example().archs["sm121"], QUESTION, POINTS)
    spans = {row.point: [(r.first, r.last) for r in row.runs] for row in drawn.rows}
    assert spans[POINTS[0]] == []
    for point in POINTS[1:]:
        assert (spans[point][0][0], spans[point][-1][1]) == (65, 256)
    assert {r.group for row in drawn.rows for r in row.runs} == {"fallback \u2192 custom"}
    assert all(r.label.startswith("fallback \u2192 ") for row in drawn.rows for r in row.runs)
    assert drawn.moved
    assert not difference_panel(base, family(), example().archs["sm120"], QUESTION, POINTS).moved


def test_points_are_the_shapes_or_a_spread_of_n() -> None:
    shapes = shape_points(pick_grid([example()], "gemm_4bit", None))
    assert [p.N * p.K for p in shapes] == sorted(p.N * p.K for p in shapes) and all(p.name for p in shapes)
    spread = n_points(family(), 4096)
    assert spread[0].N == 256 and spread[-1].N == 131_072
    assert all(p.N % 64 == 0 and p.K == 4096 for p in spread) and len({p.N for p in spread}) == len(spread)


def draw(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tilewright_codegen", "map", "--specs", str(EXAMPLE), *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **environment}
    )


def test_files_are_the_same_bytes_whenever_and_wherever_they_are_drawn(tmp_path: Path) -> None:
    words = ("--arch", "sm121", "--arch", "sm80", "--out", "m.svg", "--out", "m.png")
    first = draw(tmp_path / "a", *words, TZ="UTC", PYTHONHASHSEED="1", LC_ALL="C")
    second = draw(tmp_path / "b", *words, TZ="Asia/Tokyo", PYTHONHASHSEED="2", LC_ALL="C.UTF-8")
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    for name in ("m.svg", "m.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    svg = (tmp_path / "a" / "m.svg").read_text()
    assert not re.search(r"<dc:date>|20\d\d-\d\d-\d\dT", svg)


def texts(path: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_a_person_is_told_what_is_drawn(tmp_path: Path) -> None:
    plain = draw(tmp_path, "--arch", "sm121", "--out", "m.svg")
    assert plain.returncode == 0, plain.stderr
    shown = texts(tmp_path / "m.svg")
    for text in ("gemm_4bit: which kernel runs", "sm121 \u00b7 GB10 / DGX Spark \u00b7 48 SMs", "rows of activations M",
                 "simt", "mma", "no kernel", "reported by others"):  # fmt: skip
        assert text in shown
    assert any(t.startswith("bf16, blocksize 64") for t in shown)
    drawn = panel(
        family(),
        example().archs["sm121"],
        Question("bf16", (), 64, 2048),
        shape_points(pick_grid([example()], "gemm_4bit", None)),
    )
    assert {r.label for row in drawn.rows for r in row.runs} <= set(shown)
    by_n = draw(tmp_path, "--arch", "sm121", "--k", "4096", "--out", "n.svg")
    assert by_n.returncode == 0, by_n.stderr
    assert "output features N" in texts(tmp_path / "n.svg")


def test_a_map_of_differences_names_archs_that_do_not_move(tmp_path: Path) -> None:
    edited(tmp_path, "when: [full_wave], m_cap: 256", "when: [full_wave], m_cap: 64")
    result = draw(tmp_path, "--arch", "sm121", "--arch", "sm120", "--diff", "copy", "--out", "d.svg")
    assert result.returncode == 0, result.stderr
    shown = texts(tmp_path / "d.svg")
    assert "gemm_4bit: what moves against copy" in shown
    assert any("no change on sm120" in t for t in shown) and not any(t.startswith("sm120") for t in shown)
    same = draw(tmp_path, "--arch", "sm121", "--diff", str(EXAMPLE), "--out", "s.svg")
    assert same.returncode == 0 and "gemm_4bit: no decision moves" in texts(tmp_path / "s.svg")


def test_bad_words_are_errors(tmp_path: Path) -> None:
    for words, message in (
        (("--out", "m.pdf"), "neither .png nor .svg"),
        (("--arch", "sm12"), "there is no arch 'sm12'"),
        (("--grid", "nope"), "has no grid 'nope'"),
        (("--dtype", "f8"), "there is no dtype 'f8'"),
        (("--diff", "no-such-base"), "no-such-base"),
        (("--k", "2000000"), "K has values"),
    ):
        result = draw(tmp_path, *words)
        assert result.returncode == 1 and message in result.stderr and "Traceback" not in result.stderr, words
