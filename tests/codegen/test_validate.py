"""The validator on the real specs, its report formats, and the registry of codes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilewright_codegen.cli import main
from tilewright_codegen.codes import CODES, explain
from tilewright_codegen.evaluate import decide
from tilewright_codegen.probes import seed_problems, thresholds
from tilewright_codegen.reachability import ABSENT, Survey, surveys
from tilewright_codegen.tree import load_tree
from tilewright_codegen.validate import Report, validate

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
PORT = SPECS / "examples" / "bitsandbytes-0.50"
ERRORS = ROOT / "tests" / "golden" / "errors"


@pytest.fixture(scope="module")
def report() -> Report:
    return validate(SPECS)


@pytest.mark.parametrize("root", [SPECS, PORT], ids=["specs", "port"])
def test_real_specs_have_no_errors(root: Path) -> None:
    report = validate(root)
    assert [d for d in report.diagnostics if d.is_error] == []
    assert report.tree is not None


def test_port_has_the_rules_that_upstream_never_reaches() -> None:
    dead = [d.message.split("'")[1] for d in validate(PORT).diagnostics if d.code == "W401"]
    assert dead == ["p20d-one-wave", "t7a-t8a-sm100"]


def test_full_wave_tier_reaches_beyond_its_evidence(report: Report) -> None:
    """The tier was measured from M = 48 on; below, it moves problems with 33 <= M < 48."""
    found = [d for d in report.diagnostics if d.code == "W402" and "gb10-full-wave" in d.message]
    assert len(found) == 1
    M = int(re.search(r"M=(\d+)", found[0].message)[1])  # type: ignore[index]
    assert M < 48


@pytest.mark.parametrize("root", [SPECS, PORT], ids=["specs", "port"])
def test_survey_agrees_with_the_interpreter(root: Path) -> None:
    tree = load_tree(root)
    family = tree.families["gemm_4bit"]
    found = thresholds(family, [(layer, None) for layer in family.layers])
    survey = Survey(tree, family, seed_problems(family, (48, 108), found, columns=40, rows=8))
    for arch in tree.archs:
        run = survey.run(arch)
        for at in [(c, r) for c in range(0, 40, 3) for r in range(8)]:
            decision = decide(family, arch, run.problem(at))
            for name, part in run.layers.items():
                expected = decision.results[name]
                index, code = int(part.rules[at]), int(part.codes[at])
                assert (None if index == ABSENT else part.effective[index].id) == decision.rule_id(name)
                assert (None if code == ABSENT else part.layer.values[code]) == expected.value


def test_seeded_problems_do_not_depend_on_the_run() -> None:
    family = load_tree(SPECS).families["gemm_4bit"]
    found = thresholds(family, [(layer, None) for layer in family.layers])
    first, second = (seed_problems(family, (48,), found, columns=200, rows=5) for _ in range(2))
    assert all((first[name] == second[name]).all() for name in first)
    for item in family.inputs:
        low, high = (0, len(item.words) - 1) if item.is_enum else (1, item.limit)
        assert low <= first[item.name].min() <= first[item.name].max() <= high


def test_witness_of_a_fired_rule_is_real() -> None:
    tree = load_tree(PORT)
    family = tree.families["gemm_4bit"]
    run = next(surveys(tree, family))
    part = run.layers["path"]
    for rule in run.fired("path"):
        at = run.place(part.rules == part.effective.index(rule))
        assert decide(family, run.arch, run.problem(at)).rule_id("path") == rule.id


@pytest.mark.parametrize("fmt", ["json", "github"])
def test_machine_formats(fmt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ERRORS / "base", tmp_path, dirs_exist_ok=True)
    shutil.copytree(ERRORS / "E204-sibling-omitted", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    output = CliRunner().invoke(main, ["validate", "--format", fmt]).output
    if fmt == "json":
        row = json.loads(output)[0]
        assert (row["code"], row["severity"], row["line"]) == ("E204", "error", 17)
        assert row["path"] == "specs/families/toy/1_path.yaml"
    else:
        assert output.startswith("::error file=specs/families/toy/1_path.yaml,line=17,col=5,title=E204::")
        assert "%0Ahint: " in output.splitlines()[0]


def test_missing_folder_is_a_finding(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["validate", "--specs", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "E100: there is no such folder of specs." in result.output


def test_registry_and_sources_name_the_same_codes() -> None:
    sources = [p for p in (ROOT / "codegen").rglob("*.py") if "codes" not in p.parts]
    used = {code for p in sources for code in re.findall(r'"([EW][0-9]{3})"', p.read_text("utf-8"))}
    assert used == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_explain_code(code: str) -> None:
    result = CliRunner().invoke(main, ["explain-code", code.lower()])
    assert result.exit_code == 0
    assert result.output == explain(code)
    entry = CODES[code]
    assert all((entry.title, entry.text, entry.example, entry.mend))


def test_explain_code_unknown_and_list() -> None:
    result = CliRunner().invoke(main, ["explain-code", "E24"])
    assert result.exit_code == 1
    assert "did you mean 'E2" in result.output
    assert len(CliRunner().invoke(main, ["explain-code"]).output.splitlines()) == len(CODES)
