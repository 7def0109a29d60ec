"""Explanations are checked by deciding again: thresholds are exactly where they are said to be, rules fire in order."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tilewright_codegen.evaluate import ProblemError, decide
from tilewright_codegen.explain import Explanation, Nearest, explain
from tilewright_codegen.explain_report import RENDERERS
from tilewright_codegen.ir import SpecTree
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
TREES = {"main": ROOT / "specs", "example": ROOT / "specs" / "examples" / "bitsandbytes-0.50"}
PROBLEMS = [
    ("example", "sm121", {"M": 7, "N": 4096, "K": 4096, "num_sms": 48, "dtype": "bf16", "blocksize": 64}),
    ("example", "sm121", {"M": 300, "N": 4096, "K": 4096, "num_sms": 48, "dtype": "bf16", "blocksize": 64}),
    ("example", "sm75", {"M": 7, "N": 1344, "K": 1024, "num_sms": 40, "dtype": "f16", "blocksize": 64}),
    ("example", "sm80", {"M": 130, "N": 3456, "K": 4096, "num_sms": 108, "dtype": "f16", "blocksize": 64}),
    ("example", "sm90", {"M": 1, "N": 1, "K": 1, "num_sms": 1, "dtype": "f32", "blocksize": 1}),
    ("main", "sm120", {"M": 33, "N": 5120, "K": 13_824, "num_sms": 188, "dtype": "bf16", "blocksize": 64}),
    ("main", "unknown", {"M": 24, "N": 2048, "K": 2112, "num_sms": 77, "dtype": "f16", "blocksize": 64}),
]


@cache
def tree(name: str) -> SpecTree:
    return load_tree(TREES[name])


@cache
def explained(index: int) -> Explanation:
    name, arch, problem = PROBLEMS[index]
    return explain(tree(name), tree(name).families["gemm_4bit"], arch, problem)


def values(index: int, **changes: int) -> dict[str, object]:
    name, arch, problem = PROBLEMS[index]
    decision = decide(tree(name).families["gemm_4bit"], arch, {**problem, **changes})
    return {layer: result.value for layer, result in decision.results.items()}


def between(goal: Nearest, start: int, end: int) -> list[int]:
    """Values that are claimed to change nothing: all of them if few, else both ends and a spread."""
    span = list(range(start + goal.direction * goal.step, end, goal.direction * goal.step))
    return span if len(span) <= 600 else [*span[:200], *span[-200:], *span[:: len(span) // 200]]


@pytest.mark.parametrize("index", range(len(PROBLEMS)))
def test_thresholds_are_exactly_where_they_are_said_to_be(index: int) -> None:
    problem, here = PROBLEMS[index][2], values(index)
    found = explained(index)
    assert {(g.variable, g.direction) for g in found.nearest} == {
        (v, d) for v in ("M", "N", "K", "num_sms") for d in (1, -1)
    }
    for goal in found.nearest:
        start = int(problem[goal.variable])
        limit = found.family.input_by_name[goal.variable].limit
        if goal.value is None:
            end = limit + 1 if goal.direction > 0 else 0
        else:
            end = goal.value
            there = values(index, **{goal.variable: goal.value})
            assert (goal.value - start) % goal.step == 0 and (goal.value - start) * goal.direction > 0
            moved = {m.layer: (m.before, m.after) for m in goal.moved}
            assert moved == {n: (here[n], there[n]) for n in here if here[n] != there[n]} != {}
        for value in between(goal, start, end):
            assert values(index, **{goal.variable: value}) == here, (goal.variable, value)


def test_some_problem_has_a_threshold_and_some_has_none() -> None:
    goals = [g for i in range(len(PROBLEMS)) for g in explained(i).nearest]
    assert any(g.value is None for g in goals)
    assert any(g.value is not None and abs(g.value - int(explained(0).problem[g.variable])) > 100 for g in goals)
    for variable in ("M", "N", "K", "num_sms"):
        assert any(g.value is not None for g in goals if g.variable == variable)


def test_k_moves_in_steps_of_the_blocksize() -> None:
    steps = {g.variable: g.step for g in explained(0).nearest}
    assert steps == {"M": 1, "N": 1, "K": 64, "num_sms": 1}
    name, arch, problem = PROBLEMS[0]
    odd = explain(tree(name), tree(name).families["gemm_4bit"], arch, {**problem, "K": 4097})
    assert {g.step for g in odd.nearest if g.variable == "K"} == {1}


@pytest.mark.parametrize("index", range(len(PROBLEMS)))
def test_layers_tell_the_rule_that_fires_and_the_next_that_would(index: int) -> None:
    name, arch, problem = PROBLEMS[index]
    family = tree(name).families["gemm_4bit"]
    decision = decide(family, arch, problem)
    for told in explained(index).layers:
        assert (told.value, told.rule) == (decision.value(told.layer), decision.results[told.layer].rule)
        assert (told.rule is None) == bool(told.unmet)
        if told.rule is None or told.runner_up is None:
            continue
        layer = family.layer_by_name[told.layer]
        rules = layer.effective(arch)
        assert rules.index(told.runner_up) > rules.index(told.rule)
        text = Path(told.rule.location.path).read_text().splitlines()[told.rule.location.line - 1]
        assert told.rule.id in text or told.rule.id in Path(told.rule.location.path).read_text()


def test_the_runner_up_is_what_fires_without_the_rule(tmp_path: Path) -> None:
    """Takes the deciding rule out of a copy of the tree and decides again."""
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(TREES["example"], copy, ignore=shutil.ignore_patterns("claims.yaml"))
    path = copy / "families" / "gemm_4bit" / "1_path.yaml"
    lines = [row for row in path.read_text().splitlines() if "id: p14d-tiny-m" not in row]
    lines = [row for i, row in enumerate(lines) if not (row == "    rules:" and lines[i + 1] == "")]
    text = "\n".join(lines) + "\n"
    start = text.index("  - section: tiny-m\n")
    path.write_text(text[:start] + text[text.index("  - section: large-sm75") :])
    told = explained(0).layers[0]
    assert told.rule is not None and told.rule.id == "p14d-tiny-m" and told.runner_up is not None
    after = decide(load_tree(copy).families["gemm_4bit"], "sm121", PROBLEMS[0][2])
    assert (after.rule_id("path"), after.value("path")) == (told.runner_up.id, told.runner_up_value)


def test_evidence_says_whether_the_problem_lies_in_its_region() -> None:
    name, arch, problem = PROBLEMS[0]
    family = tree(name).families["gemm_4bit"]

    def inside(M: int) -> bool | None:
        told = explain(tree(name), family, arch, {**problem, "M": M}).layers[0]
        assert told.rule is not None and told.rule.id == "p19-full-wave"
        return next(c.inside for c in told.evidence if c.id == "gb10-2026-08")

    assert (inside(47), inside(48), inside(256), inside(257)) == (False, True, True, False)


def test_text_names_rule_place_threshold_and_evidence() -> None:
    text = RENDERERS["text"](explained(0))
    assert "rule p14d-tiny-m" in text and "1_path.yaml:" in text
    assert "M-1 (6) would switch engine mma -> simt (s5c-wide-n)" in text
    assert "N: nothing changes above, up to the limit of 1048576" in text
    fallback = RENDERERS["text"](explained(1))
    assert "yields: custom up to M = 256" in fallback and "OUTSIDE its region" in fallback
    assert "engine  not asked: needs path == custom" in fallback
    assert "M-44 (256) would switch path fallback -> custom (p19-full-wave)" in fallback


def test_json_holds_everything() -> None:
    document = json.loads(RENDERERS["json"](explained(0)))
    assert document["launch"] == "32x128-128" and document["problem"]["M"] == 7
    path = document["layers"][0]
    assert path["rule"]["id"] == "p14d-tiny-m" and path["rule"]["line"] > 1 and path["evidence"][0]["record"]["device"]
    goal = next(g for g in document["nearest"] if (g["input"], g["direction"]) == ("M", -1))
    assert (goal["offset"], goal["moved"][0]) == (
        -1,
        {"layer": "engine", "before": "mma", "after": "simt", "rule": "s5c-wide-n"},
    )


def test_bad_problems_are_errors() -> None:
    name, arch, problem = PROBLEMS[0]
    with pytest.raises(ProblemError):
        explain(tree(name), tree(name).families["gemm_4bit"], arch, {**problem, "M": 0})

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tilewright_codegen", "explain", *words, "--specs", str(TREES["main"])]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    good = run("16", "4096", "4096", "--arch", "sm121", "--dtype", "float16", "--set", "quant_type=e2m1")
    assert good.returncode == 0 and "dtype=f16" in good.stdout and "quant_type=e2m1" in good.stdout
    prepacked = run("16", "4096", "4096", "--arch", "sm90", "--input", "layout=prepacked")
    assert "layout=prepacked" in prepacked.stdout and "rule engine-nf4-prepacked-" in prepacked.stdout
    for words, message in (
        (("16", "4096", "4096", "--arch", "sm12"), "there is no arch 'sm12'"),
        (("0", "4096", "4096", "--arch", "sm121"), "M is 0"),
        (("16", "4096", "4096", "--arch", "sm121", "--set", "quant_typ=nf4"), "did you mean 'quant_type'?"),
    ):
        wrong = run(*words)
        assert wrong.returncode == 1 and message in wrong.stderr and "Traceback" not in wrong.stderr
