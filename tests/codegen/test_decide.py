"""`tilewright decide`: right answers in order, and located errors for lines that are no problems."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright_codegen import decide as batches
from tilewright_codegen.decide import BatchDecider
from tilewright_codegen.evaluate import decide
from tilewright_codegen.ir import SpecTree
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
PROBLEM = {"cc": "12.1", "num_sms": 48, "dtype": "bf16", "M": 64, "N": 4096, "K": 4096, "blocksize": 64}


@cache
def example() -> SpecTree:
    return load_tree(EXAMPLE)


def run(*lines: str | bytes, tree: SpecTree | None = None) -> list[dict[str, Any]]:
    chosen = tree or example()
    return [json.loads(t) for t in BatchDecider(chosen, chosen.families["gemm_4bit"]).run(lines)]


def line(**changes: object) -> str:
    return json.dumps({k: v for k, v in {**PROBLEM, **changes}.items() if v is not ...})


def error(text: str | bytes) -> str:
    (found,) = run(text)
    assert set(found) == {"error", "line"} and found["line"] == 1
    return str(found["error"])


def test_a_decision_names_every_layer_its_rules_and_the_launch() -> None:
    (found,) = run(line())
    decision = decide(example().families["gemm_4bit"], "sm121", {k: v for k, v in PROBLEM.items() if k != "cc"})
    layers = {name: r.value for name, r in decision.results.items()}
    rules = {name: decision.rule_id(name) for name in decision.results}
    launch = decision.tile(example().families["gemm_4bit"])
    assert found == {"arch": "sm121", **layers, "launch": launch, "rules": rules}
    (fallback,) = run(line(M=2000))
    assert fallback["path"] == "fallback" and fallback["engine"] is None and fallback["rules"]["engine"] is None


def test_agrees_with_the_interpreter_in_order_and_over_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH", 64)
    rng = random.Random(3)
    archs = {".".join(map(str, a.profile.cc)): a.name for a in example().archs.values() if a.profile.cc}
    dtypes = ["f16", "bf16", "f32"]
    problems = [
        {
            "cc": rng.choice([*archs, "13.0"]), "num_sms": rng.randint(1, 200), "dtype": rng.choice(dtypes),
            "M": rng.randint(1, 600), "N": rng.choice([512, 1344, 4096, 14_336]),
            "K": 64 * rng.randint(1, 200), "blocksize": 64,
        }
        for _ in range(400)
    ]  # fmt: skip
    lines = [json.dumps(p) for p in problems]
    lines.insert(100, "not a problem")
    found = run(*lines)
    assert found.pop(100)["line"] == 101
    family = example().families["gemm_4bit"]
    for problem, result in zip(problems, found, strict=True):
        arch = archs.get(str(problem["cc"]), "unknown")
        decision = decide(family, arch, {k: v for k, v in problem.items() if k != "cc"})
        assert result["arch"] == arch
        assert {n: result[n] for n in decision.results} == {n: r.value for n, r in decision.results.items()}
        assert result["rules"] == {n: decision.rule_id(n) for n in decision.results}


@pytest.mark.parametrize(
    ("cc", "arch"),
    [
        ("12.1", "sm121"),
        ([12, 1], "sm121"),
        ("8.0", "sm80"),
        ("12.10", "unknown"),
        ([8, 8], "unknown"),
        ("99.0", "unknown"),
        ("9999.9999", "unknown"),
    ],
)
def test_cc_is_exact_and_an_unknown_one_has_its_own_rules(cc: object, arch: str) -> None:
    assert run(line(cc=cc))[0]["arch"] == arch


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line(cc=12.1), 'cc is 12.1; write it as "12.1" or [12, 1]'),
        (line(cc="sm121"), 'cc is "sm121"'),
        (line(cc="12345.0"), 'cc is "12345.0"'),
        (line(cc="8.12345"), 'cc is "8.12345"'),
        (line(cc=[12]), "cc is [12]"),
        (line(cc=[12, True]), "cc is [12, true]"),
        (line(cc=...), "key 'cc' is missing"),
        (line(M=...), "key 'M' is missing"),
        (line(M=0), "M is 0; allowed: 1 to 1048576"),
        (line(M=1 << 21), "M is 2097152; allowed"),
        (line(M=True), "M is true; an integer is expected"),
        (line(M=4.0), "M is 4.0; an integer is expected"),
        (line(M="4"), 'M is "4"; an integer is expected'),
        (line(M=None), "M is null; an integer is expected"),
        (line(dtype="bf61"), "did you mean 'bf16'?"),
        (line(dtype=1), "dtype is 1; allowed: f16, bf16, f32"),
        ("[]", "a JSON object is expected"),
        ("{", "this is not JSON"),
        (line() + " {}", "this is not JSON: extra text"),
        ('{"cc": "12.1', "this is not JSON: Unterminated string at character 8"),
        (b"\xff{}", "byte 0xff is not UTF-8"),
        ("[" * 200_000, "the line is nested too deeply"),
        ('{"cc": %s}' % ("9" * 5000), "a number is too long"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_problem_gives_an_error(text: str | bytes, message: str) -> None:
    assert message in error(text)


def test_a_cc_that_no_arch_has_is_an_error_where_the_specs_have_no_unknown() -> None:
    tree = replace(example(), archs={name: arch for name, arch in example().archs.items() if name != "unknown"})
    found, known = run(line(cc="99.0"), line(), tree=tree)
    assert found == {"error": 'no arch has cc "99.0", and the specs have no `unknown`', "line": 1}
    assert known["arch"] == "sm121"


def test_an_input_that_is_left_out_is_the_first_of_its_words() -> None:
    tree = load_tree(ROOT / "specs")
    reader = batches.Reader.of(tree, tree.families["gemm_4bit"])
    optional = [i for i in tree.families["gemm_4bit"].inputs if i.is_enum and i.name != "dtype"]
    first, second = ({item.name: item.words[index] for item in optional} for index in (0, 1))
    assert reader.read(line()) == reader.read(line(**first)) != reader.read(line(**second))


@pytest.mark.parametrize("alias", ["float16", "fp16", "torch.float16", "half"])
def test_dtypes_have_the_names_callers_use(alias: str) -> None:
    assert run(line(dtype=alias)) == run(line(dtype="f16"))


def test_a_further_input_may_be_left_out_and_is_checked() -> None:
    tree = load_tree(ROOT / "specs")
    optional = [i for i in tree.families["gemm_4bit"].inputs if i.is_enum and i.name != "dtype"]
    assert optional, "the family has no optional input to test"
    for item in optional:
        given_first = run(line(**{item.name: item.words[0]}), tree=tree)
        assert run(line(), tree=tree) == given_first
        assert item.name in run(line(**{item.name: "nope"}), tree=tree)[0]["error"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(
    st.one_of(
        st.text(),
        st.binary(),
        st.dictionaries(st.sampled_from([*PROBLEM]), json_values).map(lambda d: json.dumps({**PROBLEM, **d})),
    )
)
def test_any_line_gives_one_object(text: str | bytes) -> None:
    found = run(text)
    blank = not text.strip()
    assert len(found) == (0 if blank else 1)
    assert blank or "path" in found[0] or set(found[0]) == {"error", "line"}


def test_command_reports_bad_lines_and_exits_with_1_at_the_end() -> None:
    command = [sys.executable, "-m", "tilewright_codegen", "decide", "gemm_4bit", "--specs", str(EXAMPLE)]
    text = "\n".join([line(), "", "nope", line(M=300)]) + "\n"
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    found = [json.loads(row) for row in result.stdout.splitlines()]
    assert result.returncode == 1 and result.stderr == ""
    assert [row.get("path", "error") for row in found] == ["custom", "error", "fallback"]
    assert found[1]["line"] == 3
    good = subprocess.run(command, input=line(), capture_output=True, text=True, check=False)
    assert good.returncode == 0 and json.loads(good.stdout)["arch"] == "sm121"
    wrong = subprocess.run(
        [*command[:4], "gemm_5bit", *command[5:]], input="", capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 1 and "did you mean 'gemm_4bit'?" in wrong.stderr
