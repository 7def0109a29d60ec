"""The numpy evaluator agrees with the interpreter, on any problem of any arch of both trees."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright_codegen.evaluate import Decision, ProblemError, decide
from tilewright_codegen.grid import seeded_grid
from tilewright_codegen.ir import Family, SpecTree
from tilewright_codegen.outcomes import Catalogue
from tilewright_codegen.tree import load_tree
from tilewright_codegen.vector import ABSENT, Evaluator, Outcomes, decide_arrays, launched_tiles

ROOT = Path(__file__).parents[2]
TREES = ("specs", "specs/examples/bitsandbytes-0.50")


@cache
def tree(name: str) -> SpecTree:
    return load_tree(ROOT / name)


def family(name: str) -> Family:
    return tree(name).families["gemm_4bit"]


ARCHS = [(name, arch) for name in TREES for arch in tree(name).archs]


def as_words(chosen: Family, problem: dict[str, int]) -> dict[str, int | str]:
    """The problem as `decide` takes it: enumerated inputs by word."""
    words = {i.name: i.words for i in chosen.inputs if i.is_enum}
    return {k: words[k][v] if k in words else v for k, v in problem.items()}


def assert_same(chosen: Family, arch: str, outcomes: Outcomes, at: Any, decision: Decision) -> None:
    for layer in chosen.layers:
        code, rule = int(outcomes[layer.name].codes[at]), int(outcomes[layer.name].rules[at])
        value = None if code == ABSENT else layer.values[code]
        rule_id = None if rule == ABSENT else layer.effective(arch)[rule].id
        assert (value, rule_id) == (decision.value(layer.name), decision.rule_id(layer.name)), layer.name
    tile = int(launched_tiles(chosen, outcomes)[at])
    assert (None if tile == ABSENT else chosen.tiles[tile].id) == decision.tile(chosen)


sizes = st.one_of(
    st.integers(1, 64),
    st.integers(1, 600),
    st.integers(1, 1 << 14),
    st.integers(1, 1 << 20),
    st.builds(
        lambda blocks, step, d: max(1, blocks * step + d),
        st.integers(1, 400),
        st.sampled_from([32, 64, 128, 256]),
        st.integers(-1, 1),
    ),
)


aligned = st.builds(lambda blocks, step: blocks * step, st.integers(1, 200), st.sampled_from([32, 64, 128, 256]))
by_name = {
    "M": st.one_of(st.integers(1, 64), st.integers(1, 600), sizes),
    "N": st.one_of(aligned, sizes),
    "K": st.one_of(aligned, aligned, sizes),
    "num_sms": st.integers(1, 260),
    "blocksize": st.sampled_from([64, 64, 16, 32, 128, 256, 1024, 4096]),
}


@st.composite
def problems(draw: st.DrawFn, chosen: Family) -> dict[str, int]:
    result = {}
    for item in chosen.inputs:
        if item.is_enum:
            result[item.name] = draw(st.integers(0, len(item.words) - 1))
        else:
            result[item.name] = draw(by_name[item.name])
    return result


@pytest.mark.parametrize(("name", "arch"), ARCHS)
def test_agrees_with_the_interpreter(name: str, arch: str) -> None:
    chosen = family(name)
    evaluator = Evaluator(chosen, arch)

    @settings(max_examples=15, deadline=None, database=None, derandomize=True)
    @given(st.lists(problems(chosen), min_size=1, max_size=24))
    def check(batch: list[dict[str, int]]) -> None:
        columns = {item.name: np.array([p[item.name] for p in batch]) for item in chosen.inputs}
        outcomes = evaluator.decide(columns)
        for index, problem in enumerate(batch):
            assert_same(chosen, arch, outcomes, index, decide(chosen, arch, as_words(chosen, problem)))

    check()


@pytest.mark.parametrize("name", TREES)
def test_agrees_on_the_thresholds_of_the_rules(name: str) -> None:
    chosen = family(name)
    rng = np.random.default_rng(7)
    for arch in ("sm75", "sm90", "sm121"):
        if arch not in tree(name).archs:
            continue
        for block in seeded_grid(chosen, tree(name).archs[arch], dense=False):
            shape = np.broadcast_shapes(*(a.shape for a in block.values()))
            picked = np.unravel_index(rng.integers(0, np.prod(shape), 150), shape)
            columns = {k: np.broadcast_to(v, shape)[picked] for k, v in block.items()}
            outcomes = decide_arrays(chosen, arch, columns)
            for at in range(len(picked[0])):
                problem = {k: int(v[at]) for k, v in columns.items()}
                assert_same(chosen, arch, outcomes, at, decide(chosen, arch, as_words(chosen, problem)))


def test_chunks_broadcasting_and_flat_arrays_agree() -> None:
    chosen = family(TREES[1])
    axes = {
        "M": np.arange(1, 400),
        "N": np.arange(64, 64 * 40, 64)[:, None],
        "K": np.array([64, 1024, 4096])[:, None, None],
        "num_sms": np.array(48),
        "blocksize": np.array(64),
        "dtype": np.array(1),
    }
    shape = np.broadcast_shapes(*(a.shape for a in axes.values()))
    assert np.prod(shape) > 1 << 15, "the grid must be larger than a chunk"
    together = decide_arrays(chosen, "sm121", axes)
    flat = decide_arrays(chosen, "sm121", {k: np.broadcast_to(v, shape).reshape(-1) for k, v in axes.items()})
    for layer in chosen.layers:
        assert together[layer.name].codes.shape == shape
        np.testing.assert_array_equal(together[layer.name].codes.reshape(-1), flat[layer.name].codes)
        np.testing.assert_array_equal(together[layer.name].rules.reshape(-1), flat[layer.name].rules)


def test_a_single_problem_has_no_axes() -> None:
    chosen = family(TREES[1])
    problem = {"M": 7, "N": 4096, "K": 4096, "num_sms": 48, "dtype": 1, "blocksize": 64}
    outcomes = decide_arrays(chosen, "sm121", problem)
    assert outcomes["path"].codes.shape == ()
    assert_same(chosen, "sm121", outcomes, (), decide(chosen, "sm121", as_words(chosen, problem)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"M": 0}, "M has values"),
        ({"N": 1 << 21}, "N has values"),
        ({"dtype": 3}, "dtype has values"),
        ({"K": None}, "'K' is missing"),
    ],
)
def test_inputs_are_checked(change: dict[str, int | None], message: str) -> None:
    problem: dict[str, Any] = {"M": 7, "N": 4096, "K": 4096, "num_sms": 48, "dtype": 1, "blocksize": 64, **change}
    with pytest.raises(ProblemError, match=message):
        decide_arrays(family(TREES[1]), "sm121", {k: v for k, v in problem.items() if v is not None})


def test_an_arch_without_rules_is_an_error_and_not_a_decision() -> None:
    problem = {"M": 7, "N": 4096, "K": 4096, "num_sms": 48, "dtype": 1, "blocksize": 64}
    with pytest.raises(KeyError, match="no rule"):
        decide_arrays(
            family(TREES[1]),
            "sm999",
            {**problem, "M": 2000, "K": 4096 + 32, "blocksize": 32, "N": 64, "dtype": 0} | {"M": 9},
        )


def test_catalogue_numbers_whole_decisions() -> None:
    chosen = family(TREES[1])
    m = np.array([1, 5, 7, 64, 300, 7])
    outcomes = decide_arrays(
        chosen, "sm121", {"M": m, "N": 4096, "K": 4096, "num_sms": 48, "dtype": 1, "blocksize": 64}
    )
    catalogue = Catalogue([layer.name for layer in chosen.layers])
    numbers = catalogue.encode(chosen, outcomes)
    assert numbers[2] == numbers[5] and numbers[0] == numbers[1] and len(set(numbers.tolist())) == 4
    for value, number in zip(m.tolist(), numbers.tolist(), strict=True):
        decision = decide(
            chosen, "sm121", {"M": value, "N": 4096, "K": 4096, "num_sms": 48, "dtype": "bf16", "blocksize": 64}
        )
        named = catalogue.named[number]
        assert dict(named.values) == {layer.name: decision.value(layer.name) for layer in chosen.layers}
        assert named.tile == decision.tile(chosen)


def test_more_rules_than_a_byte_counts(tmp_path: Path) -> None:
    """Indices of rules are kept in bytes where they fit; here they do not."""
    shutil.copytree(ROOT / "tests/golden/errors/base/specs", tmp_path, dirs_exist_ok=True)
    layer = tmp_path / "families/toy/2_engine.yaml"
    many = "\n".join(f"      - {{id: row-{m}, when: [M == {m}], engine: simt}}" for m in range(1, 300))
    layer.write_text(layer.read_text().replace("    rules:", f"    rules:\n{many}"))
    toy = load_tree(tmp_path).families["toy"]
    fixed = {"N": 4096, "K": 4096, "num_sms": 108}
    found = decide_arrays(toy, "sm80", {**fixed, "dtype": 0, "M": np.arange(1, 320)})
    for m in range(1, 320):
        assert_same(toy, "sm80", found, m - 1, decide(toy, "sm80", {**fixed, "dtype": "f16", "M": m}))


def test_true_is_no_size() -> None:
    problem = {"M": True, "N": 4096, "K": 4096, "num_sms": 108, "dtype": "bf16", "blocksize": 64}
    with pytest.raises(ProblemError, match="M is True; an integer is expected"):
        decide(family("specs"), "sm80", problem)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "f64"}, "dtype is 'f64'; allowed: f16, bf16, f32"),
        ({"M": 0}, "M is 0; allowed: 1 to 1048576"),
        ({"M": (1 << 20) + 1}, "M is 1048577; allowed: 1 to 1048576"),
        ({"M": 4.0}, "M is 4.0; an integer is expected"),
        ({"M": None}, "input 'M' is missing"),
    ],
)
def test_inputs_of_one_decision_are_checked(change: dict[str, Any], message: str) -> None:
    problem = {"M": 7, "N": 4096, "K": 4096, "num_sms": 108, "dtype": "bf16", "blocksize": 64, **change}
    with pytest.raises(ProblemError, match=message):
        decide(family("specs"), "sm80", {key: value for key, value in problem.items() if value is not None})


def test_the_largest_size_is_one_of_the_family() -> None:
    problem = {"M": 1 << 20, "N": 1 << 20, "K": 1 << 20, "num_sms": 108, "dtype": "bf16", "blocksize": 64}
    assert decide(family("specs"), "sm80", problem).results
