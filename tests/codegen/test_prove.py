"""Claims are proved only when they hold, and refuted by problems that the interpreter decides as stated."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright_codegen import prove as prove_module
from tilewright_codegen.claims import parse_claim_text
from tilewright_codegen.cli import main
from tilewright_codegen.evaluate import decide
from tilewright_codegen.ir import SpecTree
from tilewright_codegen.prove import Bases, ProveError, Prover, Verdict
from tilewright_codegen.prove_split import split_claim
from tilewright_codegen.smt import Encoder, RuleOutcomes
from tilewright_codegen.smt_problems import Problems
from tilewright_codegen.smt_space import Space, lemmas_at
from tilewright_codegen.tree import load_tree

z3 = pytest.importorskip("z3")

ROOT = Path(__file__).parents[2]
PORT = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
TREES = {"port": load_tree(PORT), "specs": load_tree(ROOT / "specs")}
PATH = "families/gemm_4bit/1_path.yaml"
ENGINE = "families/gemm_4bit/2_engine.yaml"
TILE = "families/gemm_4bit/3_tile.yaml"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The port without its claims: an edit here may well make them false."""
    return Path(shutil.copytree(PORT, tmp_path / "specs", ignore=shutil.ignore_patterns("claims.yaml")))


def edit(folder: Path, file: str, old: str, new: str) -> SpecTree:
    """The tree with one text replaced, which must occur exactly once."""
    text = (folder / file).read_text()
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    (folder / file).write_text(text.replace(old, new))
    return load_tree(folder)


def ask(tree: SpecTree, text: str, base: Path | str | None = PORT, timeout: float = 30.0) -> Verdict:
    claim = parse_claim_text(text, tree, tree.families["gemm_4bit"])
    return Prover(tree, Bases(tree.root, None if base is None else str(base)), timeout).prove(claim)


def values(tree: SpecTree, arch: str, problem: Any) -> dict[str, Any]:
    decision = decide(tree.families["gemm_4bit"], arch, problem)
    return {name: result.value for name, result in decision.results.items()}


# --- the encoding agrees with the interpreter ---

SIZES = st.one_of(
    st.integers(1, 1_048_576),
    st.integers(1, 2048),
    st.integers(1, 64).map(lambda k: 64 * k),
    st.sampled_from([1024, 1536, 2048, 4096, 4160, 8192, 11008, 14336]),
)
ROWS = st.one_of(st.integers(1, 40), st.integers(1, 1600), SIZES)
COUNTS = st.one_of(st.integers(1, 1024), st.sampled_from([16, 40, 48, 58, 72, 108, 132, 148, 188]))


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(TREES)),
    data=st.data(),
    M=ROWS,
    N=SIZES,
    K=SIZES,
    num_sms=COUNTS,
    blocksize=st.sampled_from([16, 32, 64, 128, 4096]),
    dtype=st.sampled_from(["f16", "bf16", "f32"]),
)
def test_formulas_have_the_value_that_the_interpreter_decides(name: str, data: Any, **problem: Any) -> None:
    tree = TREES[name]
    family = tree.families["gemm_4bit"]
    arch = data.draw(st.sampled_from(sorted(tree.archs)))
    space = Space(z3)
    inputs = Problems.of(space, [family])
    encoder = Encoder(inputs, family, arch)
    formulas = [(layer, encoder.outcomes(layer.name)) for layer in family.layers]
    expected = decide(family, arch, problem)
    flags = []
    for layer, outcomes in formulas:
        assert isinstance(outcomes, RuleOutcomes)
        flags += [(outcomes.is_value(v), expected.value(layer.name) == v) for v in outcomes.values]
        flags += [(outcomes.fires(r.id), expected.rule_id(layer.name) == r.id) for r in outcomes.rules]
        assert expected.value(layer.name) in (None, *outcomes.values)
    solver = z3.Solver()
    for key, value in problem.items():
        solver.add(inputs.terms[key].expr == (family.dtypes.index(value) if key == "dtype" else value))
    solver.add(*space.facts, *(p.value == p.x.expr * p.y.expr for p in space.products))
    assert solver.check() == z3.sat
    model = solver.model()
    for formula, truth in flags:
        assert z3.is_true(model.eval(formula, model_completion=True)) == truth


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=6, max_size=6), st.lists(st.integers(1, 60), min_size=3, max_size=3))
def test_lemmas_about_products_are_true_of_products(model_values: list[int], true_values: list[int]) -> None:
    """Lemmas are taken at a model that multiplies wrongly and must hold for real products anywhere."""
    space = Space(z3)
    a, b, c = (space.integer(n, 1, 60) for n in "abc")
    products = [space.multiply(a, b), space.multiply(b, c), space.multiply(space.multiply(a, b), c)]
    solver = z3.Solver()
    solver.add(*(t.expr == v for t, v in zip((a, b, c, *products), model_values, strict=True)))
    assert solver.check() == z3.sat
    lemmas = lemmas_at(space, solver.model())
    x, y, z = true_values
    real = [(a, x), (b, y), (c, z), (products[0], x * y), (products[1], y * z), (products[2], x * y * z)]
    replaced = [(t.expr, z3.IntVal(v)) for t, v in real]
    for statement in (*space.facts, *lemmas):
        assert z3.is_true(z3.simplify(z3.substitute(statement, *replaced)))


@given(st.integers(0, 5000), st.integers(1, 130), st.integers(0, 130))
@settings(max_examples=60, deadline=None)
def test_quotients_and_remainders_are_exact(value: int, divisor: int, offset: int) -> None:
    space = Space(z3)
    term = space.integer("x", 0, 5000)
    q, r = space.quotient(term, divisor, offset), space.remainder(term, divisor)
    solver = z3.Solver()
    solver.add(
        *space.facts, term.expr == value, z3.Or(q.expr != (value + offset) // divisor, r.expr != value % divisor)
    )
    assert solver.check() == z3.unsat


# --- planted edits are found, and shown by a problem ---

WORK = "when: [small_wide, n_blocks * K > num_sms * 320]"
TALL = "when: [K > N, M <= 17, mma_blocks * 3 < num_sms]"
DEAD = "      - {id: p20d-one-wave, when: [full_wave], m_cap: 64, why: dead upstream too; the rule above covers it}\n"

OFF_BY_ONE = [
    (PATH, "when: [full_wave], m_cap: 256, basis", "when: [full_wave], m_cap: 257, basis", {"sm121"}),
    (PATH, "small: [N * K < 4_194_304]", "small: [N * K <= 4_194_304]", None),
    (PATH, "full_wave: [n_blocks >= num_sms]", "full_wave: [n_blocks > num_sms]", None),
    (PATH, "when: [half_wave, not wide, n_blocks >= 128]", "when: [half_wave, not wide, n_blocks >= 129]", {"sm120"}),
    (PATH, WORK, WORK.replace("K >", "K >="), None),
    (PATH, "when: [M > 1536]", "when: [M > 1535]", None),
    (ENGINE, TALL, TALL.replace("17", "18"), None),
    (TILE, "when: [tile_m == 32, num_sms < 150, blocks_64x32 <= num_sms]",
     "when: [tile_m == 32, num_sms < 150, blocks_64x32 < num_sms]", {"sm120", "sm121"}),
    (TILE, "blocks_128x128 * 4 >= num_sms * 3]", "blocks_128x128 * 4 > num_sms * 3]", None),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "archs"), OFF_BY_ONE)
def test_an_edit_by_one_is_refuted(copy: Path, file: str, old: str, new: str, archs: set[str] | None) -> None:
    tree = edit(copy, file, old, new)
    verdict = ask(tree, "trees-equivalent")
    assert verdict.status == "counterexample"
    (witness,) = verdict.witnesses
    assert archs is None or witness.arch in archs
    (problem,) = witness.problems
    assert values(tree, witness.arch, problem) != values(TREES["port"], witness.arch, problem)
    if archs is not None:
        assert ask(tree, f"only-archs-change {' '.join(sorted(archs))}").status == "proved"
        assert ask(tree, f"only-archs-change {' '.join(sorted(archs)[1:]) or 'sm80'}").status == "counterexample"


SAME_MEANING = [
    (PATH, "small: [N * K < 4_194_304]", "small: [N * K <= 4_194_303]"),
    (PATH, "when: [M > 1536]", "when: [M >= 1537]"),
    (PATH, "fits_half_wave: [n_blocks * 2 <= num_sms]", "fits_half_wave: [n_blocks <= num_sms // 2]"),
    (PATH, DEAD, ""),
    (PATH, "very_tall: [K > N * 2]", "very_tall: [K >= N * 2 + 1]"),
    (TILE, "less_rows_by_32: [m32 * 32 < m64 * 64]", "less_rows_by_32: [m32 < m64 * 2]"),
    (TILE, "half_tail: [M % 128 >= 1, M % 128 <= 64]", "half_tail: [M % 128 > 0, M % 128 < 65]"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new"), SAME_MEANING)
def test_an_edit_without_effect_is_proved(copy: Path, file: str, old: str, new: str) -> None:
    verdict = ask(edit(copy, file, old, new), "trees-equivalent")
    assert verdict.status == "proved"
    assert "z3" in verdict.detail


def test_the_published_tier_moves_one_arch_within_its_cap() -> None:
    tree = TREES["port"]
    tier = "without=path/sm121"
    assert ask(tree, f"only-archs-change sm121 {tier}").status == "proved"
    assert ask(tree, f"no-transition custom fallback {tier}").status == "proved"
    assert ask(tree, f"changes-within 'M >= 33 and M <= 256' {tier}").status == "proved"


@pytest.mark.parametrize(
    ("text", "M"),
    [
        ("changes-within 'M >= 34'", {33}),
        ("changes-within 'M <= 255'", {256}),
        ("changes-within 'M >= 48'", set(range(33, 48))),
    ],
)  # fmt: skip
def test_a_tighter_region_than_the_tier_has_is_refuted_at_its_edge(text: str, M: set[int]) -> None:
    verdict = ask(TREES["port"], f"{text} without=path/sm121")
    assert verdict.status == "counterexample"
    assert verdict.witnesses[0].problems[0]["M"] in M


def test_the_transition_that_does_happen_is_shown() -> None:
    tree = TREES["port"]
    verdict = ask(tree, "no-transition fallback custom without=path/sm121")
    (witness,) = verdict.witnesses
    assert verdict.status == "counterexample" and witness.arch == "sm121"
    assert values(tree, "sm121", witness.problems[0])["path"] == "custom"


def test_a_narrower_floor_takes_custom_away(copy: Path) -> None:
    tree = edit(copy, PATH, "when: [M <= 4], m_cap: always", "when: [M <= 3], m_cap: always")
    verdict = ask(tree, "no-transition custom fallback")
    problem = verdict.witnesses[0].problems[0]
    assert verdict.status == "counterexample" and problem["M"] == 4


def test_a_rule_for_one_more_arch_moves_that_arch(copy: Path) -> None:
    tree = edit(copy, PATH, "  - section: sm121\n    for: [sm121]", "  - section: sm121\n    for: [sm120, sm121]")
    verdict = ask(tree, "only-archs-change sm121")
    assert verdict.status == "counterexample" and verdict.witnesses[0].arch == "sm120"
    assert ask(tree, "only-archs-change sm120").status == "proved"


def test_an_arch_without_a_profile_is_compared_as_unknown(copy: Path) -> None:
    for file in (PATH, ENGINE, TILE):
        text = (copy / file).read_text()
        text = re.sub(r"^ +sm121: .*\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"sm121: [^,}]*(, )?", "", text).replace("sm120, sm121", "sm120").replace(", sm121, ", ", ")
        (copy / file).write_text(text.replace("for: [sm121]", "for: [sm120]"))
    (copy / "archs" / "sm121.yaml").unlink()
    evidence = copy / "evidence" / "gb10-2026-08.yaml"
    evidence.write_text(evidence.read_text().replace("sm121", "sm120"))
    verdict = ask(TREES["port"], "only-archs-change sm120", base=copy)
    assert verdict.status == "counterexample" and verdict.witnesses[0].arch == "sm121"


# --- rules that fire, implications, crossovers, launch tables, siblings ---


def test_a_rule_that_fires_has_a_witness() -> None:
    tree = TREES["port"]
    verdict = ask(tree, "rule-fires p21i-tall")
    assert verdict.status == "proved" and {w.arch for w in verdict.witnesses} == {"sm89", "sm121", "unknown"}
    for witness in verdict.witnesses:
        decision = decide(tree.families["gemm_4bit"], witness.arch, witness.problems[0])
        assert decision.rule_id("path") == "p21i-tall"
    refuted = ask(tree, "rule-never-fires p21i-tall")
    assert refuted.status == "counterexample"


@pytest.mark.parametrize("rule", ["p20d-one-wave sm120", "p21a-three-waves sm121", "p19-full-wave sm80"])
def test_a_rule_that_cannot_fire_is_proved_dead(rule: str) -> None:
    assert ask(TREES["port"], f"rule-never-fires {rule}").status == "proved"
    refuted = ask(TREES["port"], f"rule-fires {rule}")
    assert refuted.status == "counterexample" and not refuted.witnesses


def test_a_rule_fires_only_inside_its_region() -> None:
    assert ask(TREES["port"], "rule-fires p19-full-wave where='N <= 64 and num_sms == 1'").status == "proved"
    assert ask(TREES["port"], "rule-fires p19-full-wave where='N <= 64 and num_sms == 2'").status == "counterexample"


def test_crossovers_come_back_where_upstream_says_so() -> None:
    tree = TREES["port"]
    assert ask(tree, "monotone-in-m sm86 sm89 sm90 sm100 sm121").status == "proved"
    for arch in ("sm75", "sm80"):
        verdict = ask(tree, f"monotone-in-m {arch}")
        assert verdict.status == "counterexample"
        low, high = verdict.witnesses[0].problems
        assert low["M"] < high["M"] and {**low, "M": 0} == {**high, "M": 0}
        assert [values(tree, arch, p)["path"] for p in (low, high)] == ["fallback", "custom"]


def test_launch_table_is_complete_until_a_rule_asks_for_too_much(copy: Path) -> None:
    assert ask(TREES["port"], "complete-launch-table").status == "proved"
    large = edit(
        copy,
        TILE,
        "blocks_64x128 < num_sms, K >= N], tile: 64x64-128",
        "blocks_64x128 < num_sms, K >= N], tile: 32x256-128",
    )
    verdict = ask(large, "complete-launch-table")
    assert verdict.status == "counterexample" and "shared memory" in verdict.detail


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (TILE, "id: r2-odd-k, when: [odd_k]", "id: r2-odd-k, when: [odd_k, M > 9]",
         "without 'K % 128 == 0'"),
        (ENGINE, "id: s9-k-tail\n        when: [K % 64 != 0]", "id: s9-k-tail\n        when: [K % 32 != 0]",
         "without 'K % 64 == 0'"),
    ],
)  # fmt: skip
def test_a_requirement_that_is_not_met_is_found(copy: Path, file: str, old: str, new: str, words: str) -> None:
    verdict = ask(edit(copy, file, old, new), "complete-launch-table")
    assert verdict.status == "counterexample" and words in verdict.detail


def test_a_path_without_a_kernel_is_found() -> None:
    verdict = ask(TREES["port"], "complete-launch-table where='path == custom'")
    assert verdict.status == "counterexample" and "no tile is emitted" in verdict.detail  # SIMT has no tile there
    assert ask(TREES["specs"], "complete-launch-table where='path == custom'").status == "proved"


def test_an_element_type_without_a_kernel_is_found(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ROOT / "specs", tmp_path / "specs"))
    tree = edit(folder, ENGINE, "when: [dtype == f32], engine: simt", "when: [dtype == f32, M != 7], engine: simt")
    verdict = ask(tree, "complete-launch-table")
    assert verdict.status == "counterexample" and "no kernel for" in verdict.detail
    assert verdict.witnesses[0].problems[0]["M"] == 7


def test_implications_over_inputs_and_outcomes() -> None:
    tree = TREES["port"]
    assert ask(tree, "implies 'M <= 1536' when='path == custom'").status == "proved"
    assert ask(tree, "implies 'engine == simt' when='path == custom and dtype == f32'").status == "proved"
    assert ask(tree, "implies 'repair.kc == 64' when='K % 128 != 0 and engine == mma'").status == "proved"
    verdict = ask(tree, "implies 'repair.kc == 64' when='engine == mma'")
    assert verdict.status == "counterexample"
    assert verdict.witnesses[0].problems[0]["K"] % 128 == 0
    absent = ask(tree, "implies 'engine != mma' when='M > 1536'")
    assert absent.status == "counterexample"  # no engine at all is no engine that differs


def test_siblings_decide_alike_or_not() -> None:
    tree = TREES["port"]
    assert ask(tree, "same-as sm100 sm107").status == "proved"
    assert ask(tree, "same-as sm89 unknown layers=path").status == "proved"
    verdict = ask(tree, "same-as sm89 unknown layers=engine")
    (problem,) = verdict.witnesses[0].problems
    assert values(tree, "sm89", problem)["engine"] != values(tree, "unknown", problem)["engine"]
    assert ask(tree, "same-as sm89 unknown layers=engine where='num_sms < 48'").status == "proved"
    assert ask(tree, "same-as sm89 unknown layers=engine where='num_sms <= 48'").status == "counterexample"


# --- when z3 gives no answer ---


def test_out_of_time_is_unknown_and_says_how_much_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove_module, "ENUMERATION_SECONDS", 0.3)
    verdict = ask(TREES["port"], "complete-launch-table sm121", timeout=1e-6)
    assert verdict.status == "unknown"
    found = re.search(r"no counterexample among ([0-9_]+) decisions .*; not a proof", verdict.detail)
    assert found and int(found[1]) > 1000


def test_enumeration_finds_what_z3_had_no_time_for() -> None:
    tree = TREES["port"]
    verdict = ask(tree, "same-as sm89 sm120 layers=path", timeout=1e-6)
    assert verdict.status == "counterexample"
    (problem,) = verdict.witnesses[0].problems
    assert values(tree, "sm89", problem)["path"] != values(tree, "sm120", problem)["path"]
    pair = ask(tree, "monotone-in-m sm75", timeout=1e-6)
    assert pair.status == "counterexample" and len(pair.witnesses[0].problems) == 2


GOALS = [
    "same-as sm89 sm120",
    "same-as sm80 sm90 where='M > 8'",
    "rule-fires p21j-large sm89",
    "rule-fires s7-quarter-wave sm80 where='K > N'",
    "implies 'repair.kc == 64' when='engine == mma' archs=sm86",
    "complete-launch-table sm90 where='path == custom'",
    "changes-within 'M <= 100' archs=sm121 without=path/sm121",
    "no-transition fallback custom archs=sm121 without=path/sm121",
]


@pytest.mark.parametrize("text", GOALS)
def test_arrays_and_interpreter_agree_on_every_kind_of_goal(text: str) -> None:
    import numpy as np

    from tilewright_codegen.prove_dense import mask

    tree = TREES["port"]
    family = tree.families["gemm_4bit"]
    goals = split_claim(parse_claim_text(text, tree, family), tree, Bases(tree.root))
    assert goals
    rng = np.random.default_rng(7)
    arrays = {
        "M": rng.choice([1, 4, 5, 8, 16, 33, 64, 200, 300, 2000], 300),
        "N": rng.choice([64, 192, 1024, 3008, 4096, 11008], 300),
        "K": rng.choice([64, 96, 192, 1024, 4096, 11008], 300),
        "num_sms": rng.choice([1, 16, 48, 60, 108, 188], 300),
        "blocksize": rng.choice([32, 64], 300),
        "dtype": rng.choice([0, 1, 2], 300),
    }
    hits = 0
    for goal in goals:
        flags = np.broadcast_to(mask(goal, arrays), (300,))
        for i in range(300):
            problem = {n: family.dtypes[a[i]] if n == "dtype" else int(a[i]) for n, a in arrays.items()}
            assert goal.check((problem,)) == flags[i]
        hits += int(flags.sum())
    assert hits > 0


# --- trees that cannot be compared ---


def test_a_claim_may_name_its_base_beside_the_file(copy: Path) -> None:
    (copy / "claims.yaml").write_text(
        "schema: claims/1\nfamily: gemm_4bit\nclaims:\n"
        "  - {id: moves-sm121, claim: only-archs-change, archs: [sm121], base: ../before}\n"
        "  - {id: moves-none, claim: trees-equivalent, base: ../before}\n"
    )
    shutil.copytree(PORT, copy.parent / "before")
    tree = edit(copy, PATH, "when: [full_wave], m_cap: 256, basis", "when: [full_wave], m_cap: 250, basis")
    prover = Prover(tree, Bases(tree.root))
    assert [prover.prove(claim).status for claim in tree.claims] == ["proved", "counterexample"]


def test_a_list_that_does_not_end_is_an_error(copy: Path) -> None:
    tree = edit(copy, PATH, "      - {id: p17c-large, m_cap: 16}\n", "")
    with pytest.raises(ProveError, match="layer 'path' has no last rule without conditions for 'sm86'"):
        ask(tree, "monotone-in-m")


def test_a_base_that_is_neither_folder_nor_revision_is_an_error() -> None:
    with pytest.raises(ProveError, match="no-such-thing"):
        ask(TREES["port"], "trees-equivalent", base="no-such-thing")


# --- the command ---


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["prove", *arguments])


def test_command_reports_what_explain_reproduces() -> None:
    result = run("--specs", str(PORT), "--claim", "implies 'path == custom' when='M == 8' archs=sm100")
    assert result.exit_code == 1
    line = next(line for line in result.output.splitlines() if "tilewright explain" in line)
    shown = CliRunner().invoke(main, line.split()[1:])
    assert shown.exit_code == 0 and "fallback" in shown.output


def test_command_takes_a_folder_or_a_revision_as_base(tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    shutil.copytree(PORT, specs)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "start"]):
        subprocess.run([*git, *words], check=True)
    edit(specs, PATH, "when: [full_wave], m_cap: 256, basis", "when: [full_wave], m_cap: 300, basis")
    for base in (str(PORT), "HEAD"):
        arguments = ("--specs", str(specs), "--base", base, "--format", "json")
        good = run(*arguments, "--claim", "only-archs-change sm121", "--claim", "changes-within 'M <= 300 and M > 256'")
        assert good.exit_code == 0, good.output
        assert [row["status"] for row in json.loads(good.output)] == ["proved", "proved"]
        bad = run(*arguments, "--claim", "changes-within 'M <= 256'")
        assert bad.exit_code == 1
        assert 256 < json.loads(bad.output)[0]["witnesses"][0]["problems"][0]["M"] <= 300


def test_command_without_a_base_skips_what_needs_one() -> None:
    result = run("--specs", str(PORT), "--claim", "trees-equivalent")
    assert result.exit_code == 2 and "skipped" in result.output and "--base" in result.output


def test_command_exits_2_on_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove_module, "ENUMERATION_SECONDS", 0.1)
    result = run("--specs", str(PORT), "--timeout", "0.01", "launch-table-complete")
    assert result.exit_code == 2 and "not a proof" in result.output


def test_command_names_the_extra_where_z3_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    result = run("--specs", str(PORT))
    assert result.exit_code == 1
    assert result.output.splitlines() == ["error: proving needs the z3 solver: pip install tilewright[prove]"]


def test_help_imports_neither_z3_nor_numpy() -> None:
    code = (
        "import sys; from tilewright_codegen.cli import main\n"
        "try: main(['prove', '--help'])\nexcept SystemExit: pass\n"
        "assert not {'z3', 'numpy', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_deadline_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A past deadline gives no answer at all rather than a wrong one."""
    tree = TREES["port"]
    family = tree.families["gemm_4bit"]
    goals = split_claim(parse_claim_text("same-as sm89 sm120", tree, family), tree, Bases(tree.root))
    assert goals
    query = goals[0].query(z3, local=False)
    assert query is not None
    assert query.solve(time.monotonic() - 1).status == "unknown"
