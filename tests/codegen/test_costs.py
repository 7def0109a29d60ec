"""Cost tables: every evaluator takes the tile with the least cost, as computed here by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright_codegen.costs import cost_name
from tilewright_codegen.diagnostics import Sink
from tilewright_codegen.emit_costs import blocks, shared
from tilewright_codegen.evaluate import decide, encode_problem, facts_env
from tilewright_codegen.explain import explain
from tilewright_codegen.explain_report import render_text
from tilewright_codegen.expr import Name, format_node, names
from tilewright_codegen.ir import Family
from tilewright_codegen.prove import Prover
from tilewright_codegen.prove_split import Bases
from tilewright_codegen.tree import load_tree, read_tree
from tilewright_codegen.validate import validate
from tilewright_codegen.vector import decide_arrays

from .test_crosscheck import Evaluators

ROOT = Path(__file__).parents[2]
RULE = """  - section: probe
    for: [sm90]
    basis: assumed
    issue: 1
    rules:
      - {id: probe, when: [num_sms == 132, M >= 3], cheapest: probe}

"""
# Tiles whose costs cross; three run only up to some K, where the last of them would be cheap.
TABLE = """schema: costs/1
table: probe
costs:
  - {id: d8-k4-c1, rows: 8, columns: 128, blocks: 132, start: 4_000, step: 90, round_step: 50, weight: 3, input: 1}
  - {id: d8-k8-c2, rows: 8, columns: 64, blocks: 120, clusters: 30, start: 9_000, each: 7, each_step: 2, round: 60,
     whole: 500, whole_step: 40, share: 30, share_step: 9, output: 2, outside_step: 1}
  - {id: d8-k14-c4, rows: 8, columns: 192, blocks: 264, start: 2_000, step: 300, each: 1}
  - {id: d8-k4-c2, rows: 8, columns: 128, blocks: 132, start: 8_000, step: 60}
  - {id: w64x128-128-s2, rows: 64, columns: 128, blocks: 132, start: 1}
"""
PROBLEMS = [
    {"M": M, "N": N, "K": K}
    for M in (1, 2, 3, 4, 5, 7, 8)
    for N in (64, 129, 1000, 4096, 8448, 16_897, 60_000)
    for K in (64, 1024, 2048, 2112, 4096, 8192, 8256, 14_336)
]


def tree_with(folder: Path, table: str = TABLE, rule: str = RULE, layer: str = "decode_tile") -> Path:
    """A copy of the specs in which a rule of one of gemm_4bit's layers stands first and takes the least of a table."""
    specs = folder / "specs"
    shutil.copytree(ROOT / "specs", specs)
    (specs / "families" / "gemm_4bit" / "probe.yaml").write_text(table)
    start = f"\nlayer: {layer}\n"
    (layers,) = (p for p in (specs / "families" / "gemm_4bit").iterdir() if start in p.read_text())
    head, _, rest = layers.read_text().partition(start)
    layers.write_text(head + start + rest.replace("sections:\n", "sections:\n" + rule, 1))
    return specs


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Evaluators:
    folder = tmp_path_factory.mktemp("costs")
    (folder / "build").mkdir()
    return Evaluators(tree_with(folder), folder / "build")


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def by_hand(M: int, N: int, K: int) -> dict[str, int]:
    """The costs of TABLE's decode tiles that can run, in its order."""
    steps = ceil(K, 64)
    first = ceil(M, 8) * ceil(N, 128)
    costs = {"d8-k4-c1": 4_000 + 90 * steps + 50 * steps * (ceil(first, 132) - 1) + 3 * (N * K // 1024) + M * K // 1024}
    second = ceil(M, 8) * ceil(N, 64)
    left = second % 120
    whole = second // 120 + (left > 30) if left else second // 120
    empty = (8 - M % 8) % 8 * ceil(N, 64)
    costs["d8-k8-c2"] = (
        9_000 + 7 * second + 2 * second * steps + 60 * (ceil(second, 120) - 1) + (500 + 40 * steps) * whole
        + (30 + 9 * steps) * (ceil(second, 30) - 1) + 2 * (M * N // 1024) + empty * steps
    )  # fmt: skip
    third = ceil(M, 8) * ceil(N, 192)
    costs["d8-k14-c4"] = 2_000 + 300 * steps + third
    costs["d8-k4-c2"] = 8_000 + 60 * steps
    most = {"d8-k4-c1": 2048, "d8-k8-c2": 8192, "d8-k14-c4": 28_672, "d8-k4-c2": 4096}
    return {name: cost for name, cost in costs.items() if most[name] >= K}


def expected(problem: dict[str, int]) -> str:
    costs = by_hand(**problem)
    return min(costs, key=costs.__getitem__)


def full(problem: dict[str, int]) -> dict[str, Any]:
    return {**problem, "num_sms": 132, "blocksize": 64, "dtype": "bf16", "quant_type": "nf4", "layout": "packed"}


def test_every_evaluator_takes_the_least(probe: Evaluators) -> None:
    asked = [full(p) for p in PROBLEMS]
    compiled = probe.generated_cpp("sm90", asked)
    seen = set()
    for problem, cpp in zip(asked, compiled, strict=True):
        one = probe.interpreted("sm90", problem)
        assert one == probe.generated_python("sm90", problem) == cpp, problem
        tile, rule = one["decode_tile"]
        if one["engine"][0] != "decode" or problem["M"] < 3:
            assert rule is None or not rule.startswith("probe"), problem
            continue
        assert tile == expected({k: problem[k] for k in ("M", "N", "K")}), problem
        assert rule == f"probe-{tile}"
        seen.add(tile)
    assert seen == {"d8-k4-c1", "d8-k8-c2", "d8-k14-c4", "d8-k4-c2"}


def test_arrays_take_the_least(probe: Evaluators) -> None:
    columns = {k: np.array([p[k] for p in PROBLEMS]) for k in ("M", "N", "K")}
    family: Family = probe.family
    found = decide_arrays(family, "sm90", {**columns, "num_sms": 132, "blocksize": 64, "dtype": 1})
    layer = family.layer_by_name["decode_tile"]
    codes = found["decode_tile"].codes
    for problem, code in zip(PROBLEMS, codes.tolist(), strict=True):
        if code >= 0 and problem["M"] >= 3:
            assert layer.values[code] == expected(problem), problem


@pytest.mark.parametrize("tiles", [1, 30, 31, 120, 121, 150, 151, 240, 241, 271])
def test_rounds_and_shares_turn_where_they_should(probe: Evaluators, tiles: int) -> None:
    for M, K in ((1, 64), (8, 2112), (5, 2048)):
        env = encode_problem(probe.family, full({"M": M, "N": tiles * 64, "K": K}))
        facts = facts_env(probe.family.layer_by_name["decode_tile"], env)
        for tile, cost in by_hand(M, tiles * 64, K).items():
            assert facts[cost_name("probe", tile)] == cost, (tile, M, K)


def test_explain_shows_the_costs(probe: Evaluators) -> None:
    problem = full({"M": 5, "N": 8448, "K": 2048})
    found = explain(probe.tree, probe.family, "sm90", problem)
    layer = next(x for x in found.layers if x.layer == "decode_tile")
    costs = by_hand(5, 8448, 2048)
    assert layer.costs == tuple(sorted(costs.items(), key=lambda pair: pair[1]))
    assert layer.runner_up_value == layer.costs[1][0]
    text = render_text(found)
    assert f"costs, us: {layer.costs[0][0]} {layer.costs[0][1] / 1e6:.2f}, {layer.costs[1][0]}" in text
    assert "<= cost_" not in text


def test_other_sm_counts_are_not_asked(probe: Evaluators) -> None:
    found = probe.interpreted("sm90", {**full({"M": 4, "N": 4096, "K": 2048}), "num_sms": 78})
    rule = found["decode_tile"][1]
    assert rule is not None and not rule.startswith("probe")


def test_the_first_of_equals_is_taken(tmp_path: Path) -> None:
    table = TABLE[: TABLE.index("  - {id")] + "".join(
        f"  - {{id: {tile}, rows: 8, columns: 64, blocks: 132, start: 5}}\n"
        for tile in ("d8-k8-c1", "d8-k4-c2", "d8-k4-c1")
    )
    family = load_tree(tree_with(tmp_path, table)).families["gemm_4bit"]
    found = decide_arrays(
        family, "sm90", {"M": 4, "N": 4096, "K": np.array([2048, 4096]), "num_sms": 132, "blocksize": 64, "dtype": 1}
    )
    assert [family.layer_by_name["decode_tile"].values[c] for c in found["decode_tile"].codes] == ["d8-k8-c1"] * 2


def test_the_launch_table_is_proved_over_costs(tmp_path: Path) -> None:
    tree = load_tree(tree_with(tmp_path))
    claim = next(c for c in tree.claims if c.model.id == "launch-table-complete")
    verdict = Prover(tree, Bases(str(tmp_path / "specs")), 60).prove(claim)
    assert verdict.status == "proved", verdict.detail


def test_a_tile_that_cannot_run_is_refused(tmp_path: Path) -> None:
    rule = RULE.replace("[num_sms == 132, M >= 3]", "[num_sms == 132, M >= 9]")
    table = TABLE.replace("d8-k4-c1", "d8-k14-c4", 1)
    table = table[: table.index("  - {id: d8-k8-c2")]
    tree = load_tree(tree_with(tmp_path, table, rule))
    family = tree.families["gemm_4bit"]
    # Nine rows are too many for the only tile of the table, so the rules behind it decide.
    found = decide_arrays(family, "sm90", {"M": 9, "N": 4096, "K": 2048, "num_sms": 132, "blocksize": 64, "dtype": 1})
    rules = family.layer_by_name["decode_tile"].effective("sm90")
    assert not rules[int(found["decode_tile"].rules)].id.startswith("probe")


def test_a_negated_predicate_is_no_promise(tmp_path: Path) -> None:
    rule = RULE.replace("M >= 3]", "M >= 3, not short_k]")
    specs = tree_with(tmp_path, TABLE.replace("start: 4_000", "start: 1"), rule)
    layers = specs / "families" / "gemm_4bit" / "4_hopper.yaml"
    layers.write_text(layers.read_text().replace("predicates:\n", "predicates:\n  short_k: [K <= 2048]\n", 1))
    family = load_tree(specs).families["gemm_4bit"]
    found = decide_arrays(
        family, "sm90", {"M": 4, "N": 64, "K": np.array([2112, 8192]), "num_sms": 132, "blocksize": 64, "dtype": 1}
    )
    values = [family.layer_by_name["decode_tile"].values[c] for c in found["decode_tile"].codes]
    assert values == [expected({"M": 4, "N": 64, "K": K}) for K in (2112, 8192)]


def test_facts_read_earlier_facts_only(probe: Evaluators) -> None:
    layer = probe.family.layer_by_name["decode_tile"]
    known = set(probe.family.input_by_name)
    for fact in layer.facts:
        assert set(names(fact.expr)) <= known, fact.name
        known.add(Name(fact.name).name)


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (lambda t, r: (t.replace("d8-k4-c1", "d8-k4-c9", 1), r), "E301", "there is no tile 'd8-k4-c9'"),
        (lambda t, r: (t.replace("d8-k8-c2", "d8-k4-c1", 1), r), "E206", "cost of tile 'd8-k4-c1' is defined twice"),
        (lambda t, r: (t, r.replace("cheapest: probe", "cheapest: prob")), "E301", "there is no table of costs 'prob'"),
        (lambda t, r: (t[: t.index("  - {id")] + "  - {id: simt-1, rows: 1, columns: 1, blocks: 1}\n", r), "E301",
         "no tile of table 'probe' is an outcome of layer 'decode_tile'"),
        (lambda t, r: (t.replace("start: 4_000", "start: 9_223_372_036_854_775_807"), r), "E303", "63 bits hold"),
        (lambda t, r: (t.replace("step: 90", "stepp: 90"), r), "E101", "'stepp'"),
        (lambda t, r: (t.replace("rows: 8, columns: 128", "columns: 128, rows: 8"), r), "E306", "reorder"),
        (lambda t, r: (t + t.replace("schema", "---\nschema").replace("table: probe", "table: spare"), r), "W406",
         "table of costs 'spare' is never used"),
        (lambda t, r: (t, r.replace("cheapest: probe", "tile: d8-k4-c1, cheapest: probe")), "E101",
         "'cheapest' is a second outcome of the rule; it has one"),
        (lambda t, r: (t, r.replace("M >= 3", "cost_steps >= 3")), "E301", "'cost_steps' is not known here"),
    ],
)  # fmt: skip
def test_bad_tables_are_told(tmp_path: Path, change: Any, code: str, text: str) -> None:
    table, rule = change(TABLE, RULE)
    specs = tree_with(tmp_path, table, rule)
    sink = Sink()
    tree, _ = read_tree(specs, sink)
    found = [*sink.diagnostics, *(validate(specs).diagnostics if tree is not None else ())]
    assert any(d.code == code and text in str(d) for d in found), [str(d) for d in found]


@pytest.mark.parametrize("kind", ["facts", "predicates"])
def test_names_of_costs_are_taken(tmp_path: Path, kind: str) -> None:
    specs = tree_with(tmp_path)
    layers = specs / "families" / "gemm_4bit" / "4_hopper.yaml"
    value = {"facts": "K + 1", "predicates": "[K >= 64]"}[kind]
    layers.write_text(layers.read_text().replace(f"{kind}:\n", f"{kind}:\n  cost_steps: {value}\n", 1))
    sink = Sink()
    read_tree(specs, sink)
    found = [d for d in sink.diagnostics if d.code == "E206"]
    assert ["names that begin with cost_ are those of cost tables" in str(d) for d in found] == [True]
    assert str(found[0].location).endswith(f"4_hopper.yaml:{found[0].location.line}:3")


def test_two_costs_of_one_name_are_told(tmp_path: Path) -> None:
    # The rounds of a tile of 32x64, 64 at a time, and the cost of tile 32x64-64 in a table called rounds.
    entry = "  - {id: 32x64-64, rows: 32, columns: 64, blocks: 64, round: 5}\n"
    table = "schema: costs/1\ntable: rounds\ncosts:\n" + entry
    sink = Sink()
    read_tree(tree_with(tmp_path, table, RULE.replace("cheapest: probe", "cheapest: rounds"), "tile"), sink)
    (found,) = sink.diagnostics
    assert found.code == "E206" and "cost_rounds_32x64_64 stands for another cost" in str(found)


def test_costs_are_computed_only_where_their_table_is_asked(probe: Evaluators) -> None:
    layer = probe.family.layer_by_name["decode_tile"]
    asked = [b for s in layer.sections for b in blocks(layer, s.rules) if b.guard is not None]
    assert [format_node(c) for c in asked[0].guard or ()][:2] == ["num_sms == 132", "M >= 3"]
    assert {f.name for f in asked[0].facts} >= {"cost_probe_d8_k4_c1", "cost_steps", "cost_weight"}
    assert not {f.name for b in asked[1:] for f in b.facts} & {"cost_probe_d8_k4_c1", "cost_weight"}
    facts, predicates = shared(layer)
    assert not [item.name for item in (*facts, *predicates) if item.name.startswith("cost_")]
    rules = [r for s in layer.sections for b in blocks(layer, s.rules) for r, _ in b.rules]
    assert rules == [r for s in layer.sections for r in s.rules]


PREPACKED = """schema: costs/1
table: nf4_prepacked
costs:
  - {id: d8-k8-c2, rows: 8, columns: 16, blocks: 66, start: 1}
  - {id: w128x128-128, rows: 128, columns: 128, blocks: 132, start: 2}
"""


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> Evaluators:
    """The specs, with another table for prepacked weights."""
    folder = tmp_path_factory.mktemp("layouts")
    (folder / "build").mkdir()
    shutil.copytree(ROOT / "specs", folder / "specs")
    tables = folder / "specs" / "families" / "gemm_4bit" / "costs.yaml"
    packed, _, prepacked = tables.read_text().partition("---\n")
    assert "table: nf4\n" in packed and "table: nf4_prepacked\n" in prepacked
    tables.write_text(packed + "---\n" + PREPACKED)
    return Evaluators(folder / "specs", folder / "build")


def test_each_layout_is_decided_by_its_own_table(layouts: Evaluators) -> None:
    ours = load_tree(ROOT / "specs").families["gemm_4bit"]
    sizes = [{"M": M, "N": N, "K": K} for M in (1, 8, 9, 200) for N in (1024, 4096) for K in (1024, 8192, 14_336)]
    asked = [full(size) for size in sizes]
    asked += [{**problem, "layout": "prepacked"} for problem in asked]
    for problem, cpp in zip(asked, layouts.generated_cpp("sm90", asked), strict=True):
        one = layouts.interpreted("sm90", problem)
        assert one == layouts.generated_python("sm90", problem) == cpp, problem
        tile = one["decode_tile"][0] or one["wgmma_tile"][0]
        if problem["layout"] == "packed":
            assert tile == decide(ours, "sm90", problem).tile(ours), problem
        else:
            assert tile == ("d8-k8-c2" if problem["M"] <= 8 and problem["K"] <= 8192 else "w128x128-128"), problem


@pytest.mark.parametrize("name", ["engine", "decode_tile", "wgmma_tile"])
def test_no_problem_pays_for_both_tables(name: str) -> None:
    layer = load_tree(ROOT / "specs").families["gemm_4bit"].layer_by_name[name]
    packed, prepacked = (b for s in layer.sections for b in blocks(layer, s.rules) if b.guard is not None)
    assert "layout == packed" in [format_node(c) for c in packed.guard or ()]
    of_prepacked = {f.name for f in prepacked.facts if "nf4_prepacked" in f.name}
    assert of_prepacked and not {f.name for f in packed.facts} & of_prepacked
    assert not [f.name for f in prepacked.facts if "_nf4_" in f.name and f.name not in of_prepacked]
