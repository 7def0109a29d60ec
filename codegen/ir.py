"""The resolved form of a spec tree: every name bound, every outcome an index, every entity located."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from .diagnostics import Location
from .expr import Compare, Cond, EnumWord, Expr, Name, names
from .models import ArchProfile, BudgetFile, EvidenceRecord, GridFile, TileBase, WheelVariant
from .models.claims import ClaimModel
from .models.tiles import tile_fields

CUSTOM = "custom"
FALLBACK = "fallback"
PATH_VALUES = (CUSTOM, FALLBACK)
UNCHANGED = "unchanged"
ALWAYS = "always"
NEVER = "never"

Value: TypeAlias = "str | int"


@dataclass(frozen=True)
class Input:
    """An input of every decision. Integers run from 1 to `limit`; enumerated inputs list their words."""

    name: str
    limit: int = 0
    words: tuple[str, ...] = ()

    @property
    def is_enum(self) -> bool:
        return bool(self.words)


@dataclass(frozen=True)
class Choice:
    """The rule yields this value of the layer."""

    value: Value


@dataclass(frozen=True)
class Cap:
    """The rule yields `custom` for M <= limit and `fallback` above. None means no limit; 0 means never."""

    limit: int | None


@dataclass(frozen=True)
class Keep:
    """The rule leaves the outcome of the repaired layer as it is."""

    layer: str


Outcome: TypeAlias = "Choice | Cap | Keep"


@dataclass(frozen=True)
class AnyCond:
    """At least one of the conjuncts holds. Occurs in predicates only."""

    conds: tuple[Cond, ...]


@dataclass(frozen=True)
class Fact:
    name: str
    expr: Expr
    location: Location


@dataclass(frozen=True)
class Predicate:
    """All terms must hold; a term is a conjunct or an AnyCond."""

    name: str
    terms: tuple[Cond | AnyCond, ...]
    location: Location


@dataclass(frozen=True)
class Rule:
    """One rule with its section's defaults filled in."""

    id: str
    section: str
    conds: tuple[Cond, ...]
    outcome: Outcome
    basis: str | None
    evidence: tuple[str, ...]
    issue: int | None
    why: str | None
    location: Location
    cost: tuple[str, str] | None = None
    """One of the rules that take the least of a table: its tile, and the fact with the tile's cost."""


@dataclass(frozen=True)
class Section:
    """Rules for named archs; `archs` is None for `for: all`."""

    name: str
    archs: tuple[str, ...] | None
    omits: Mapping[str, str]
    rules: tuple[Rule, ...]
    location: Location
    for_location: Location

    def covers(self, arch: str) -> bool:
        return self.archs is None or arch in self.archs


@dataclass(frozen=True)
class Layer:
    """One ordered decision. `values` lists every outcome in a fixed order."""

    name: str
    kind: Literal["m_cap", "choice", "tile"]
    site: Literal["python", "cpp"]
    values: tuple[Value, ...]
    gate: tuple[Cond, ...]
    repairs: str | None
    facts: tuple[Fact, ...]
    predicates: tuple[Predicate, ...]
    sections: tuple[Section, ...]
    location: Location
    _lists: dict[str, tuple[Rule, ...]] = field(default_factory=dict, compare=False, repr=False)

    def effective(self, arch: str) -> tuple[Rule, ...]:
        """The rules an arch sees, in order: its sections concatenated."""
        found = self._lists.get(arch)
        if found is None:
            found = tuple(r for s in self.sections if s.covers(arch) for r in s.rules)
            self._lists[arch] = found
        return found

    @cached_property
    def predicate_by_name(self) -> Mapping[str, Predicate]:
        return {p.name: p for p in self.predicates}

    def reads(self, arch: str) -> frozenset[str]:
        """Every name that the gate and the rules of an arch come down to: facts and predicates are looked through."""
        facts = {f.name: f.expr for f in self.facts}
        pending: list[Cond | AnyCond] = [*self.gate, *(c for r in self.effective(arch) for c in r.conds)]
        wanted: list[str] = []
        seen: set[str] = set()
        while pending or wanted:
            if wanted:
                name = wanted.pop()
                if name in seen:
                    continue
                seen.add(name)
                if name in facts:
                    wanted += names(facts[name])
                elif name in self.predicate_by_name:
                    pending += self.predicate_by_name[name].terms
            else:
                cond = pending.pop()
                wanted += [n for c in (cond.conds if isinstance(cond, AnyCond) else (cond,)) for n in names(c)]
        return frozenset(seen)


@dataclass(frozen=True)
class Tile:
    """One kernel configuration of one engine."""

    id: str
    engine: str
    model: TileBase
    requires: tuple[Cond, ...]
    location: Location

    @cached_property
    def fields(self) -> Mapping[str, int | bool | str]:
        return tile_fields(self.model)


@dataclass(frozen=True)
class Family:
    """A GEMM family, resolved."""

    name: str
    op: str
    dtypes: tuple[str, ...]
    inputs: tuple[Input, ...]
    tiles: tuple[Tile, ...]
    layers: tuple[Layer, ...]
    location: Location
    default: bool = False

    @cached_property
    def tile_by_id(self) -> Mapping[str, Tile]:
        return {t.id: t for t in self.tiles}

    @cached_property
    def layer_by_name(self) -> Mapping[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    def may_ask(self, layer: Layer, arch: str) -> bool:
        """Whether the layer's gate can hold on an arch: False when it wants a word that no rule there yields."""
        for cond in layer.gate:
            if isinstance(cond, Compare) and cond.op == "==" and isinstance(cond.left, Name):
                earlier = self.layer_by_name.get(cond.left.name)
                word = cond.right.word if isinstance(cond.right, EnumWord) else None
                if earlier is not None and word is not None and word not in _yielded(earlier, arch):
                    return False
        return True

    def enumerated(self, arch: str) -> tuple[Input, ...]:
        """The enumerated inputs besides dtype that some rule of the arch reads: others move nothing there."""
        read = {name for layer in self.layers for name in layer.reads(arch)}
        return tuple(i for i in self.inputs if i.is_enum and i.name != "dtype" and i.name in read)

    @cached_property
    def input_by_name(self) -> Mapping[str, Input]:
        return {i.name: i for i in self.inputs}

    @cached_property
    def rule_by_id(self) -> Mapping[str, Rule]:
        return {r.id: r for layer in self.layers for s in layer.sections for r in s.rules}


def _yielded(layer: Layer, arch: str) -> set[Value]:
    """Values that some rule of the arch yields; all of them where rules do not name what they yield."""
    if layer.kind == "tile":
        return set(layer.values)
    found: set[Value] = set()
    for rule in layer.effective(arch):
        if isinstance(rule.outcome, Choice):
            found.add(rule.outcome.value)
        elif isinstance(rule.outcome, Cap):
            found |= (
                {FALLBACK} if rule.outcome.limit == 0 else {CUSTOM} if rule.outcome.limit is None else set(PATH_VALUES)
            )
    return found


@dataclass(frozen=True)
class Arch:
    """An arch profile and where it stands."""

    profile: ArchProfile
    location: Location

    @property
    def name(self) -> str:
        return self.profile.name


@dataclass(frozen=True)
class Claim:
    """A statement that `tilewright prove` proves. `conds` holds its resolved `where`, `when` and `then`."""

    id: str
    family: str
    model: ClaimModel
    conds: Mapping[str, tuple[Cond, ...]]
    location: Location


@dataclass(frozen=True)
class SpecTree:
    """Everything below one specs folder. Mappings keep file order."""

    root: str
    archs: Mapping[str, Arch]
    families: Mapping[str, Family]
    evidence: Mapping[str, EvidenceRecord]
    grids: Mapping[str, GridFile]
    claims: tuple[Claim, ...]
    variants: tuple[WheelVariant, ...] = ()
    budget: BudgetFile | None = None

    def arch_for_cc(self, cc: tuple[int, int]) -> Arch:
        """The profile with exactly this compute capability, else `unknown`. KeyError if that is missing too."""
        for arch in self.archs.values():
            if arch.profile.cc == tuple(cc):
                return arch
        return self.archs["unknown"]
