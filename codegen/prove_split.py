"""From a claim to its goals: which archs, which layers, against which base."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .ir import Arch, Claim, Family, Layer, SpecTree
from .models.claims import ClaimModel, ComparingClaim
from .normal import ArchRules
from .prove_compare import DifferGoal, TransitionGoal
from .prove_goals import Goal, Region
from .prove_single import FiresGoal, ImpliesGoal, LaunchGoal, MonotoneGoal

UNKNOWN = "unknown"


class ProveError(ValueError):
    """A claim cannot be looked at: the base is missing or unsound, or a rule list does not end."""


@dataclass(frozen=True)
class Pair:
    """The tree under test and the base, for one family."""

    tree: SpecTree
    family: Family
    base_archs: frozenset[str]
    base_family: Family

    def archs(self) -> list[str]:
        return [*self.tree.archs, *sorted(self.base_archs - set(self.tree.archs))]

    def sides(self, arch: str) -> tuple[ArchRules, ArchRules]:
        """Head and base as this arch sees them; a tree without a profile for it decides as for `unknown`."""
        head = _side(self.family, arch, self.tree.archs)
        base = _side(self.base_family, arch, self.base_archs)
        return head, base


class Bases:
    """Finds and remembers what claims are compared with."""

    def __init__(self, specs: str, default: str | None = None) -> None:
        self.specs, self.default = specs, default
        self._trees: dict[str, SpecTree] = {}

    def pair(self, claim: Claim, tree: SpecTree) -> Pair | None:
        """The two sides of a comparing claim; None when there is no base to compare with."""
        model = claim.model
        assert isinstance(model, ComparingClaim)
        family = tree.families[claim.family]
        if model.without:
            return Pair(tree, family, frozenset(tree.archs), without_sections(family, model.without))
        text = self._seen_from(claim, model.base) if model.base else self.default
        if text is None:
            return None
        base = self._load(text)
        if claim.family not in base.families:
            raise ProveError(f"the base '{text}' has no family '{claim.family}'.")
        return Pair(tree, family, frozenset(base.archs), base.families[claim.family])

    def _seen_from(self, claim: Claim, text: str) -> str:
        beside = Path(claim.location.path).parent / text
        return str(beside) if beside.is_dir() else text

    def _load(self, text: str) -> SpecTree:
        from .revision import RevisionError, base_specs
        from .tree import load_tree

        if text not in self._trees:
            try:
                with base_specs(text, self.specs) as folder:
                    self._trees[text] = load_tree(folder)
            except RevisionError as error:
                raise ProveError(f"{error}.") from None
        return self._trees[text]


def without_sections(family: Family, dropped: Iterable[str]) -> Family:
    """The family as it would be without some sections, each named as layer/section."""
    gone = set(dropped)
    return replace(family, layers=tuple(_without(layer, gone) for layer in family.layers))


def _without(layer: Layer, gone: set[str]) -> Layer:
    sections = tuple(s for s in layer.sections if f"{layer.name}/{s.name}" not in gone)
    return layer if len(sections) == len(layer.sections) else replace(layer, sections=sections, _lists={})


def _side(family: Family, arch: str, known: Iterable[str]) -> ArchRules:
    known = set(known)
    name = arch if arch in known else UNKNOWN
    if name not in known:
        raise ProveError(f"one tree has no arch '{arch}' and no '{UNKNOWN}' to decide for it.")
    return _sound(ArchRules(family, name))


def _sound(side: ArchRules) -> ArchRules:
    """The rules without the layers that the arch never asks; what reads those is never asked either (E305)."""
    asked = tuple(layer for layer in side.family.layers if side.family.may_ask(layer, side.arch))
    if len(asked) < len(side.family.layers):
        side = ArchRules(replace(side.family, layers=asked), side.arch)
    for layer in side.family.layers:
        if not side.is_total(layer):
            raise ProveError(
                f"layer '{layer.name}' has no last rule without conditions for '{side.arch}'; "
                "`tilewright validate` says where (E201, E202)."
            )
    return side


def split_claim(claim: Claim, tree: SpecTree, bases: Bases) -> list[Goal] | None:
    """Goals whose condition must never hold (for rule-fires: must hold); None when a base is wanted and not given."""
    model: Any = claim.model
    if isinstance(model, ComparingClaim):
        pair = bases.pair(claim, tree)
        return None if pair is None else _compare(claim, pair)
    family = tree.families[claim.family]
    if model.claim == "same-as":
        one, two = (_sound(ArchRules(family, name)) for name in model.archs)
        return list(_differences(one, two, model.layers, Region(claim.conds["where"])))
    return [
        _plain_goal(claim, _sound(ArchRules(family, arch)), tree.archs[arch])
        for arch in _archs(model, family, list(tree.archs))
    ]


def _archs(model: Any, family: Family, known: list[str]) -> list[str]:
    if model.archs != "all":
        return list(model.archs)
    if not hasattr(model, "rule"):
        return known
    rule = family.rule_by_id[model.rule]
    return [a for a in known if any(rule in layer.effective(a) for layer in family.layers)]


def _plain_goal(claim: Claim, side: ArchRules, arch: Arch) -> Goal:
    model: Any = claim.model
    kind = model.claim
    if kind in ("rule-fires", "rule-never-fires"):
        return FiresGoal(side, rule=model.rule, region=Region(claim.conds["where"]))
    if kind == "implies":
        return ImpliesGoal(side, when=claim.conds["when"], then=claim.conds["then"])
    if kind == "monotone-in-m":
        return MonotoneGoal(side, layer=model.layer)
    assert kind == "complete-launch-table", kind
    return _launch_goal(claim, side, arch)


def _launch_goal(claim: Claim, side: ArchRules, arch: Arch) -> Goal:
    from .engines import engine_dtypes
    from .resources import shortfalls

    found = {tile.id: shortfalls(arch.profile, tile) for tile in side.family.tiles}
    faults = {tile: "; ".join(lacks) for tile, lacks in found.items() if lacks}
    family = side.family
    dtypes = {t.id: engine_dtypes(family.name, t.engine, family.dtypes) for t in family.tiles}
    region = Region(claim.conds["where"]) if claim.conds["where"] else None
    return LaunchGoal(side, region=region, faults=faults, dtypes=dtypes)


def _compare(claim: Claim, pair: Pair) -> list[Goal]:
    model: Any = claim.model
    goals: list[Goal] = []
    for arch in pair.archs():
        if not _concerns(model, arch):
            continue
        head, base = pair.sides(arch)
        if model.claim == "no-transition":
            goals.append(TransitionGoal(head, base, layer=model.layer, source=model.from_, target=model.to))
        else:
            region = Region(claim.conds["where"], inside=False) if model.claim == "changes-within" else Region()
            goals += _differences(head, base, getattr(model, "layers", ()), region)
    return goals


def _concerns(model: ClaimModel, arch: str) -> bool:
    archs: Any = getattr(model, "archs", "all")
    if model.claim == "only-archs-change":
        return arch not in archs
    return archs == "all" or arch in archs


def _differences(head: ArchRules, base: ArchRules, layers: tuple[str, ...], region: Region) -> Iterable[Goal]:
    """One goal per layer. Earlier layers may be taken to agree: where they do not, their own goal says so."""
    order = [layer.name for layer in head.family.layers]
    others = [layer.name for layer in base.family.layers]
    same_order = [n for n in order if n in others] == [n for n in others if n in order]
    agreed: list[str] = []
    for name in [*order, *(n for n in others if n not in order)]:
        goal = DifferGoal(
            head, base, layer=name, region=region, assume=frozenset(agreed) if same_order else frozenset()
        )
        common = name in order and name in others
        if not layers or name in layers:
            yield goal
        if common and (not layers or name in layers or goal.shortcut()):
            agreed.append(name)
