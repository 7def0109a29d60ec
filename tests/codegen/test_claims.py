"""Claims are typed by kind and bound to the tree: whatever they name wrongly is a located finding."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilewright_codegen.claims import parse_claim_text
from tilewright_codegen.diagnostics import SpecError
from tilewright_codegen.models.claims import CLAIM_MODELS, OnlyArchsChange
from tilewright_codegen.tree import load_tree, read_tree

ROOT = Path(__file__).parents[2]
PORT = ROOT / "specs" / "examples" / "bitsandbytes-0.50"
HEAD = "schema: claims/1\nfamily: gemm_4bit\nclaims:\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("claims") / "specs"
    return Path(shutil.copytree(PORT, place, ignore=shutil.ignore_patterns("claims.yaml")))


BAD = {
    "unknown kind": (
        "  - {id: a, claim: only-arch-change, archs: [sm121]}",
        ("E301", 4, 20, "there is no kind of claim 'only-arch-change'.", "did you mean 'only-archs-change'?"),
    ),
    "no kind": ("  - {id: a, archs: [sm121]}", ("E104", 4, 5, "key 'claim' is missing.", "kinds: only-archs-change")),
    "unknown key": (
        "  - {id: a, claim: only-archs-change, archs: [sm121], witout: [path/sm121]}",
        ("E101", 4, 55, "key 'witout' is not known here.", "did you mean 'without'?"),
    ),
    "key of another kind": (
        "  - {id: a, claim: same-as, archs: [sm80, sm90], rule: x}",
        ("E101", 4, 50, "key 'rule' is not known here.", None),
    ),
    "missing key": ("  - {id: a, claim: rule-fires}", ("E104", 4, 5, "key 'rule' is missing.", None)),
    "unknown arch": (
        "  - id: a\n    claim: only-archs-change\n    archs:\n      - sm121\n      - sm21",
        ("E301", 8, 9, "there is no arch 'sm21'.", "did you mean 'sm121'?"),
    ),
    "unknown rule": (
        "  - {id: a, claim: rule-fires, rule: p19-full-waves}",
        ("E301", 4, 38, "there is no rule 'p19-full-waves'.", "did you mean 'p19-full-wave'?"),
    ),
    "unknown layer": (
        "  - {id: a, claim: trees-equivalent, layers: [path, tile_n]}",
        ("E301", 4, 53, "there is no layer 'tile_n'.", "did you mean 'tile_m'?"),
    ),
    "unknown outcome": (
        "  - {id: a, claim: no-transition, from: custom, to: fall-back}",
        ("E301", 4, 53, "there is no outcome 'fall-back'.", "did you mean 'fallback'?"),
    ),
    "same outcome": (
        "  - {id: a, claim: no-transition, from: custom, to: custom}",
        ("E104", 4, 53, "`from` and `to` are the same outcome; two are expected.", None),
    ),
    "unknown section": (
        "  - {id: a, claim: trees-equivalent, without: [path/sm12]}",
        ("E301", 4, 48, "there is no section 'path/sm12'.", "did you mean 'path/sm121'?"),
    ),
    "two bases": (
        "  - {id: a, claim: trees-equivalent, base: HEAD, without: [path/sm121]}",
        ("E104", 4, 50, "a claim has either `base` or `without`, not both.", None),
    ),
    "layer without a crossover": (
        "  - {id: a, claim: monotone-in-m, layer: engine}",
        ("E301", 4, 42, "layer 'engine' does not choose between custom and fallback.", None),
    ),
    "syntax of a condition": (
        "  - {id: a, claim: changes-within, where: [M <= 256, M - 1 > 4]}",
        ("E300", 4, 56, "'-' is not part of the rule grammar.", "`tilewright explain-code E300` shows the grammar"),
    ),
    "form of a condition": (
        "  - {id: a, claim: changes-within, where: [N*K < 8]}",
        ("E304", 4, 44, "'N*K < 8' is not in canonical form.", "write it as: N * K < 8"),
    ),
    "name in a condition": (
        "  - {id: a, claim: implies, then: [engin == mma]}",
        ("E301", 4, 36, "'engin' is not known here.", "did you mean 'engine'?"),
    ),
    "fact of a layer": (
        "  - {id: a, claim: implies, then: [n_blocks > 1]}",
        ("E301", 4, 36, "'n_blocks' is not known here", None),
    ),
    "word in a condition": (
        "  - {id: a, claim: implies, then: [engine == mna]}",
        ("E301", 4, 36, "'mna' is not a word of 'engine'", "did you mean 'mma'?"),
    ),
    "id used twice": (
        "  - {id: a, claim: trees-equivalent}\n  - {id: a, claim: trees-equivalent}",
        ("E206", 5, 10, "claim 'a' is defined twice; first at {file}:4:10.", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_claim_is_one_located_finding(folder: Path, name: str) -> None:
    text, (code, line, column, message, hint) = BAD[name]
    file = folder / "claims.yaml"
    file.write_text(HEAD + text + "\n")
    tree, found = read_tree(folder)
    assert tree is None
    assert [(d.code, d.location.line, d.location.column) for d in found] == [(code, line, column)]
    assert found[0].location.path == str(file)
    assert message.replace("{file}", str(file)) in found[0].message
    assert hint is None or hint in str(found[0].hint)


def test_an_unknown_family_is_a_finding(folder: Path) -> None:
    (folder / "claims.yaml").write_text(
        HEAD.replace("gemm_4bit", "gemm_4bits") + "  - {id: a, claim: trees-equivalent}\n"
    )
    tree, found = read_tree(folder)
    assert tree is None
    assert [(d.code, d.location.line, d.location.column) for d in found] == [("E301", 2, 9)]
    assert found[0].hint == "did you mean 'gemm_4bit'?"


def test_conditions_and_arguments_are_bound(folder: Path) -> None:
    (folder / "claims.yaml").write_text(
        HEAD + "  - {id: a, claim: only-archs-change, archs: [sm120, sm121]}\n"
        "  - {id: b, claim: implies, when: [repair.kc == 128, dtype != f32], then: [K % 128 == 0]}\n"
    )
    first, second = load_tree(folder).claims
    assert isinstance(first.model, OnlyArchsChange) and first.model.archs == ("sm120", "sm121")
    assert first.location.line == 4 and second.location.line == 5
    assert {name: len(conds) for name, conds in second.conds.items()} == {"when": 2, "then": 1}


def test_every_kind_has_an_example_in_one_of_the_trees_or_needs_a_base() -> None:
    used = {claim.model.claim for tree in (PORT, ROOT / "specs") for claim in load_tree(tree).claims}
    assert set(CLAIM_MODELS) - used == {"trees-equivalent"}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("only-archs-change sm120 sm121", {"archs": ("sm120", "sm121")}),
        ("only-archs-change sm120,sm121", {"archs": ("sm120", "sm121")}),
        ("only-archs-change archs=sm121 without=path/sm121", {"archs": ("sm121",), "without": ("path/sm121",)}),
        ("rule-fires p19-full-wave sm121", {"rule": "p19-full-wave", "archs": ("sm121",)}),
        ("rule-fires p19-full-wave", {"archs": "all"}),
        ("no-transition custom fallback sm80", {"from_": "custom", "to": "fallback", "archs": ("sm80",)}),
        ("no-transition layer=tile_m from=32 to=64", {"layer": "tile_m", "from_": 32, "to": 64}),
        ("changes-within 'M >= 5 and M <= 256'", {"where": ("M >= 5", "M <= 256")}),
        ("implies 'path == custom' when='M <= 4' archs=all", {"then": ("path == custom",), "when": ("M <= 4",)}),
    ],
)
def test_claims_on_the_command_line(text: str, keys: dict[str, object]) -> None:
    tree = load_tree(PORT)
    model = parse_claim_text(text, tree, tree.families["gemm_4bit"]).model
    assert {key: getattr(model, key) for key in keys} == keys


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", "E301", "no kind of claim"),
        ("rule-firs p19-full-wave", "E301", "rule-firs"),
        ("implies 'M <= 4' 'M <= 5' archs", "E301", "archs"),
        ("no-transition custom fallback sm80 sm999", "E301", "sm999"),
        ("monotone-in-m colour=red", "E101", "colour"),
        ("rule-fires 'p19", "E104", "cannot be read"),
        ("changes-within 'M <='", "E300", "expected"),
    ],
)
def test_bad_claims_on_the_command_line(text: str, code: str, words: str) -> None:
    tree = load_tree(PORT)
    with pytest.raises(SpecError) as caught:
        parse_claim_text(text, tree, tree.families["gemm_4bit"])
    assert code in {d.code for d in caught.value.diagnostics}
    assert words in str(caught.value)
