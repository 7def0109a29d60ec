"""The transcription of bitsandbytes 0.50.2 decides what the released wheel decided, rule by rule."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright_codegen.evaluate import Decision, decide
from tilewright_codegen.expr import names
from tilewright_codegen.ir import AnyCond, Family, Layer, SpecTree
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).resolve().parents[2]
PORT = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
DATA: dict[str, Any] = json.loads((ROOT / "tests" / "data" / "bitsandbytes_cases.json").read_text())
CASES = [dict(zip(DATA["columns"], row, strict=True)) for row in DATA["records"]]

# Archs whose rules in the real tree still are those of the port. One that gets rules of its own leaves this list.
SHARED = (
    "sm80", "sm86", "sm87", "sm89", "sm100", "sm103", "sm107", "sm110", "sm120", "sm121", "unknown",
)  # fmt: skip


@pytest.fixture(scope="module")
def port() -> SpecTree:
    return load_tree(PORT)


@pytest.fixture(scope="module")
def real() -> SpecTree:
    return load_tree(ROOT / "specs")


def ungated(family: Family) -> Family:
    """The family with its C++ layers deciding whatever the path, as the recorded C++ library does."""

    def open_gate(layer: Layer) -> Layer:
        gate = tuple(c for c in layer.gate if isinstance(c, AnyCond) or "path" not in names(c))
        return replace(layer, gate=gate)

    return replace(family, layers=tuple(open_gate(layer) for layer in family.layers))


def solve(family: Family, case: dict[str, Any], **changes: Any) -> Decision:
    profile = DATA["profiles"][case["profile"]]
    problem = {key: case[key] for key in ("M", "N", "K", "blocksize", "dtype")}
    return decide(family, profile["arch"], {**problem, "num_sms": profile["num_sms"], **changes})


def case_name(case: dict[str, Any]) -> str:
    return f"{case['id']}-{case['profile']}-{case['dtype']}-{case['M']}x{case['N']}x{case['K']}"


def test_the_record_is_whole() -> None:
    assert len(CASES) == 280
    assert sum(case["custom"] for case in CASES) == 121
    assert sum(case["tile"] is not None for case in CASES) > 200
    assert {DATA["profiles"][case["profile"]]["arch"] for case in CASES} >= {"sm70", "sm75", "sm107", "unknown"}


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_path(port: SpecTree, case: dict[str, Any]) -> None:
    decision = solve(port.families["gemm_4bit"], case)
    expected = case["gate"] or case["path_rule"]
    assert str(decision.rule_id("path")).startswith(expected.lower() + "-")
    assert decision.value("path") == ("custom" if case["custom"] else "fallback")


@pytest.mark.parametrize("case", [c for c in CASES if c["gate"] == "G2" and c["K"] % 32 == 0], ids=case_name)
def test_path_behind_the_blocksize_gate(port: SpecTree, case: dict[str, Any]) -> None:
    decision = solve(port.families["gemm_4bit"], case, blocksize=32)
    assert str(decision.rule_id("path")).startswith(case["path_rule"].lower() + "-")
    assert decision.value("path") == ("custom" if case["heuristic"] else "fallback")


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_engine_and_tile(port: SpecTree, case: dict[str, Any]) -> None:
    decision = solve(ungated(port.families["gemm_4bit"]), case)
    rules = [rule.lower().replace(":", "-") for rule in case["cpp_rules"]]
    assert str(decision.rule_id("engine")).startswith(rules[0] + "-")
    assert decision.value("engine") == {"m1": "mma", "m2": "mma_sm75"}.get(rules[0], "simt")
    if decision.value("engine") == "simt":
        assert case["tile"] is None
        assert decision.value("repair") is None
        return
    prefix = "k8-" if rules[0] == "m2" else ""
    assert decision.value("tile") == prefix + case["tile_before_repair"]
    assert decision.value("repair") == prefix + case["tile"]
    check_tile_rules(decision, rules[1:])


def check_tile_rules(decision: Decision, rules: list[str]) -> None:
    """The rule ids of the three tile layers against the upstream steps that fired."""
    height = [r for r in rules if r.startswith("t0") or (r.startswith("t1") and r != "t1e")]
    repair = [r for r in rules if r.startswith("r")]
    tile = [r for r in rules if r not in height and r not in repair]
    if height:  # not recorded for Turing
        assert f"{decision.rule_id('tile_m')}-".startswith(height[-1] + "-")
    assert str(decision.rule_id("tile")).startswith("-".join(tile) + "-")
    assert str(decision.rule_id("repair")).startswith(repair[0] + "-" if repair else "unchanged")


def test_path_is_not_monotone_in_m(port: SpecTree) -> None:
    family = port.families["gemm_4bit"]

    def custom(arch: str, num_sms: int, N: int, K: int) -> list[int]:
        base = {"N": N, "K": K, "num_sms": num_sms, "blocksize": 64, "dtype": "f16"}
        return [m for m in range(1, 80) if decide(family, arch, {**base, "M": m}).value("path") == "custom"]

    assert custom("sm75", 40, 1344, 1024) == [*range(1, 5), *range(9, 65)]
    assert custom("sm80", 108, 3456, 4096) == [*range(1, 6), *range(8, 17)]


def test_the_sm121_tier_changes_216_decisions(port: SpecTree) -> None:
    family = port.families["gemm_4bit"]
    grid = port.grids["sm121-case"]
    assert len(grid.archs) * len(family.dtypes) * len(grid.M) * len(grid.N) * len(grid.K) == 60_720
    path = family.layer_by_name["path"]
    tier = [section for section in path.sections if section.name == "sm121"]
    assert [(section.archs, len(section.rules)) for section in tier] == [(("sm121",), 1)]
    stock_path = replace(path, sections=tuple(s for s in path.sections if s not in tier), _lists={})
    stock = replace(family, layers=(stock_path, *family.layers[1:]))

    changed = []
    for dtype, M, N, K in itertools.product(family.dtypes, grid.M, grid.N, grid.K):
        problem = {"M": M, "N": N, "K": K, "num_sms": 48, "blocksize": 64, "dtype": dtype}
        before, after = (decide(f, "sm121", problem).value("path") for f in (stock, family))
        if before != after:
            changed.append((M, before, after))
    assert len(changed) == 216
    assert {(before, after) for _, before, after in changed} == {("fallback", "custom")}
    assert {M for M, _, _ in changed} == {48, 64, 96, 128, 192, 256}


@pytest.mark.parametrize("arch", SHARED)
def test_real_tree_agrees(port: SpecTree, real: SpecTree, arch: str) -> None:
    """Sampled with a fixed seed: every shape class of the rules, all SM counts of the profile."""
    old, new = port.families["gemm_4bit"], real.families["gemm_4bit"]
    rng = random.Random(f"agree-{arch}")
    seen = set()
    for _ in range(1500):
        problem = sample_problem(rng, real.archs[arch].profile.sm_counts)
        ours, theirs = decide(new, arch, problem), decide(old, arch, problem)
        assert ours.value("path") == theirs.value("path"), problem
        engine = {"mma": "mma_m16n8k16"}.get(str(theirs.value("engine")), theirs.value("engine"))
        assert ours.value("engine") == engine, problem
        assert ours.value("repair") == theirs.value("repair"), problem
        seen.add(ours.tile(new))
    assert None in seen and len(seen) > 4


def sample_problem(rng: random.Random, sm_counts: tuple[int, ...]) -> dict[str, Any]:
    M = rng.choice([*range(1, 34), 47, 48, 63, 64, 65, 96, 97, 128, 129, 192, 256, 257, 320, 384, 512, 513, 1536])
    N = rng.choice([64 * rng.randint(1, 90), 1024, 2048, 3072, 4096, 8192, 14_336, 28_672, rng.randint(1, 40_000)])
    K = rng.choice([32 * rng.randint(1, 200), 896, 1536, 4096, 8192, 14_336, N])
    return {
        "M": M,
        "N": N,
        "K": K,
        "num_sms": rng.choice(sm_counts),
        "blocksize": rng.choice([32, 64, 64, 128]),
        "dtype": rng.choice(["f16", "bf16", "bf16", "f32"]),
    }
