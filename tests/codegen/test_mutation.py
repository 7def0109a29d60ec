"""Whatever is done to one line of the real specs is rejected, shown as a difference, or known to mean the same."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tilewright_codegen.difference import compare
from tilewright_codegen.ir import Family, Layer, Rule, SpecTree
from tilewright_codegen.models import GridFile
from tilewright_codegen.probes import seed_problems, thresholds
from tilewright_codegen.reachability import Survey
from tilewright_codegen.tree import load_tree, read_tree
from tilewright_codegen.validate import validate

from .mutants import Mutant, mutants

SPECS = Path(__file__).parents[2] / "specs"
LISTED = Path(__file__).parent / "equivalent_mutants.yaml"
FAMILY = "gemm_4bit"
ONE_IN = int(os.environ.get("TILEWRIGHT_MUTANTS_ONE_IN", "64"))
"""Which part of all mutants is tried; the weekly workflow tries four times as many."""


class Judge:
    """Decides what becomes of a mutant."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(SPECS, folder, ignore=shutil.ignore_patterns("examples"))
        self.base = load_tree(folder)
        self.family = self.base.families[FAMILY]
        self.warnings = {d.message for d in validate(folder).diagnostics}
        self.coarse = self._problems(self.family, 250, 16)
        self.expected = {a: _decide(self.base, self.family, a, self.coarse) for a in self.base.archs}
        self.witness: tuple[str, Any, SpecTree] | None = None

    def _problems(self, family: Family, columns: int, rows: int, aim: Aim | None = None) -> dict[str, Any]:
        """Seeded from all rules, or from those of `aim` and the rule before that decides otherwise."""
        counts = sorted({s for a in self.base.archs.values() for s in a.profile.sm_counts})
        found = thresholds(family, aim or [(layer, None) for layer in family.layers])
        return seed_problems(family, counts, found, columns, rows)

    def verdict(self, mutant: Mutant) -> str:
        """`rejected: CODE`, `shown: ...`, `same: ...`, or `survived`."""
        file = self.folder / mutant.file
        before = file.read_text("utf-8")
        try:
            file.write_text(mutant.text, "utf-8")
            return self._verdict()
        finally:
            file.write_text(before, "utf-8")

    def _verdict(self) -> str:
        tree, found = read_tree(self.folder)
        if tree is None:
            return f"rejected: {next(d.code for d in found if d.is_error)}"
        if tree.families.keys() != self.base.families.keys() or tree.archs.keys() != self.base.archs.keys():
            return self._rejected("shown: families or archs come or go")
        if noted := _noted(self.base, tree):
            return f"shown: {noted}"
        if self._moves(tree, self.coarse, self.expected):
            return "shown: decisions"
        if _meaning(self.base) == _meaning(tree):
            return "same: no decision reads what was changed"
        report = validate(self.folder)
        if not report.ok:
            return f"rejected: {next(d.code for d in report.diagnostics if d.is_error)}"
        family = tree.families[FAMILY]
        for side, other in ((self.family, family), (family, self.family)):
            if self._moves(tree, self._problems(side, 3000, 24, _changed(side, other)), None):
                return "shown: decisions"
        return "survived"

    def _rejected(self, otherwise: str) -> str:
        errors = [d.code for d in validate(self.folder).diagnostics if d.is_error]
        return f"rejected: {errors[0]}" if errors else otherwise

    def _moves(self, tree: SpecTree, problems: dict[str, Any], expected: dict[str, Any] | None) -> bool:
        family = tree.families[FAMILY]
        for arch in self.base.archs:
            before = _decide(self.base, self.family, arch, problems) if expected is None else expected[arch]
            after = _decide(tree, family, arch, problems)
            if before.keys() != after.keys():
                return True
            for layer, outcome in before.items():
                if (outcome != after[layer]).any():
                    at = np.argwhere(outcome != after[layer])[0]
                    self.witness = arch, {n: v[at[0], min(at[1], v.shape[1] - 1)] for n, v in problems.items()}, tree
                    return True
        return False


def _decide(tree: SpecTree, family: Family, arch: str, problems: dict[str, Any]) -> dict[str, Any]:
    """Outcome and rule of every layer, as words, since another tree may number them otherwise."""
    found = {}
    for name, part in Survey(tree, family, problems).run(arch).layers.items():
        values = np.array([*map(str, part.layer.values), "-"])
        ids = np.array([*(r.id for r in part.effective), "-"])
        found[name] = np.char.add(values[part.codes], np.char.add(" by ", ids[part.rules]))
    return found


Aim = list[tuple[Layer, list[Rule] | None]]


def _changed(family: Family, other: Family) -> Aim:
    """Rules of `family` that `other` has not in the same place with the same meaning; a layer whose facts or
    predicates differ counts as a whole."""
    aim: Aim = []
    for layer in family.layers:
        twin = other.layer_by_name.get(layer.name)
        if twin is None or _definitions(layer) != _definitions(twin):
            aim.append((layer, None))
            continue
        here, there = _listed(layer), _listed(twin)
        aim.append((layer, [r for key, r in here.items() if key not in there]))
    return aim


def _definitions(layer: Layer) -> object:
    return [(f.name, f.expr) for f in layer.facts], [(p.name, p.terms) for p in layer.predicates]


def _listed(layer: Layer) -> dict[object, Rule]:
    found: dict[object, Rule] = {}
    for section in layer.sections:
        for index, rule in enumerate(section.rules):
            found[section.name, section.archs, index, rule.id, rule.conds, rule.outcome] = rule
    return found


def _noted(base: SpecTree, tree: SpecTree) -> str | None:
    """What `tilewright diff` notes beside decisions: profiles, tiles and limits that differ."""
    for name, arch in base.archs.items():
        if arch.profile != tree.archs[name].profile:
            return f"profile of {name}"
    here, there = (s.families[FAMILY] for s in (base, tree))
    before, after = ({t.id: (t.engine, t.fields, t.requires) for t in f.tiles} for f in (here, there))
    if before != after:
        return "tiles"
    return "limits" if [i.limit for i in here.inputs] != [i.limit for i in there.inputs] else None


def _meaning(tree: SpecTree) -> object:
    """All that decisions are made from; ids, but neither prose nor provenance nor places."""
    family = tree.families[FAMILY]
    layers = [
        (
            layer.name,
            layer.site,
            layer.values,
            layer.gate,
            {f.name: f.expr for f in layer.facts},
            {p.name: p.terms for p in layer.predicates},
            [[(r.id, r.conds, r.outcome) for r in layer.effective(a)] for a in tree.archs],
        )
        for layer in family.layers
    ]
    return family.inputs, family.dtypes, layers, [(t.id, t.fields, t.requires) for t in family.tiles]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(tmp_path_factory.mktemp("mutants") / "specs")


@pytest.mark.slow
def test_every_mutant_is_noticed_or_known_to_be_equivalent(judge: Judge) -> None:
    chosen = mutants(SPECS, ONE_IN)
    assert len(chosen) * ONE_IN >= 10_000
    verdicts = {m.name: judge.verdict(m) for m in chosen}
    print(Counter(v.split(":")[0] for v in verdicts.values()))
    listed = yaml.safe_load(LISTED.read_text("utf-8"))
    survived = {name for name, verdict in verdicts.items() if verdict == "survived"}
    assert survived - set(listed) == set(), "neither rejected nor shown; mend the checks or list the reason"
    stale = {name for name in listed if name in verdicts} - survived
    assert stale == set(), "listed as equivalent, yet noticed"


DANGEROUS = {
    "E204": ("1_path.yaml", "for: [sm86, sm89, sm120, sm121, unknown]", "for: [sm86, sm89, sm120, unknown]"),
    "E310": ("tiles.yaml", "nt: 256, kc: 128, stages: 3", "nt: 256, kc: 128, stages: 7"),
    "E311": ("3_tile.yaml", "K % 128 != 0]", "K % 64 != 0]"),
    "E314": ("2_engine.yaml", "when: [dtype == f32], engine: simt", "when: [dtype == f16], engine: simt"),
}


@pytest.mark.parametrize("code", DANGEROUS)
def test_dangerous_edits_are_rejected(judge: Judge, code: str) -> None:
    file, old, new = DANGEROUS[code]
    path = judge.folder / "families" / FAMILY / file
    before = path.read_text("utf-8")
    assert old in before
    try:
        path.write_text(before.replace(old, new, 1), "utf-8")
        assert code in {d.code for d in validate(judge.folder).diagnostics}
    finally:
        path.write_text(before, "utf-8")


def test_the_difference_engine_shows_what_the_judge_calls_shown(judge: Judge) -> None:
    shown = 0
    for mutant in [m for m in mutants(SPECS, ONE_IN) if "_path" in m.file or "_tile" in m.file]:
        judge.witness = None
        if judge.verdict(mutant) == "shown: decisions" and judge.witness is not None:
            arch, values, tree = judge.witness
            found = compare(judge.base, tree, FAMILY, _single(arch, values, judge.family))
            assert found.changed + found.reattributed > 0, mutant.name
            shown += 1
        if shown == 12:
            return
    pytest.fail("too few mutants are shown by their decisions")


def _single(arch: str, values: dict[str, Any], family: Family) -> GridFile:
    """A grid of one problem (and of all words of inputs that a grid does not choose)."""
    numbers = {n: int(values[n]) for n in ("M", "N", "K", "num_sms", "blocksize")}
    return GridFile(
        kind="grid/1",
        name="one",
        family=FAMILY,
        archs=(arch,),
        num_sms=(numbers["num_sms"],),
        dtypes=(family.dtypes[int(values["dtype"])],),
        blocksize=numbers["blocksize"],
        M=(numbers["M"],),
        N=(numbers["N"],),
        K=(numbers["K"],),
    )
