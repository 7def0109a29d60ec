"""E306 and E307: keys and lists stand in one order, so that a diff is always a change of meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from ..diagnostics import Sink
from ..loader import Document, ValuePath
from ..models import (
    ArchProfile,
    CostEntry,
    CostFile,
    EvidenceRecord,
    FamilyFile,
    GridFile,
    LayerFile,
    SectionModel,
    SpecModel,
    TileFile,
)
from ..models.layers import outcome_keys
from ..sources import Sources

FORM_CODES = frozenset({"E304", "E306", "E307"})
"""Errors of form alone: what they are about can still be understood and checked further."""
ORDERED: dict[str, type[SpecModel]] = {
    "arch/1": ArchProfile,
    "family/1": FamilyFile,
    "tiles/1": TileFile,
    "layer/1": LayerFile,
    "costs/1": CostFile,
    "evidence/1": EvidenceRecord,
    "grid/1": GridFile,
}


def check_form(sources: Sources, sink: Sink) -> None:
    for document in _documents(sources):
        for path, mapping, order in _mappings(document):
            check_e306(document, path, mapping, order, sink)
    ranks = {p.name: (p.cc is None, p.cc or (0, 0)) for p, _ in sources.archs}
    for file, document, _ in sources.layers:
        for index, section in enumerate(file.sections):
            if section.for_ != "all":
                _ascending_archs(document, ("sections", index, "for"), section.for_, ranks, sink)
    for _, models, document, _ in sources.tiles:
        _ascending_tiles(document, models, sink)


def check_e306(document: Document, path: ValuePath, mapping: dict[Any, Any], order: Sequence[str], sink: Sink) -> None:
    """A key stands before one that it should follow."""
    rank = {key: index for index, key in enumerate(order)}
    known = [k for k in mapping if k in rank]
    for before, key in pairwise(known):
        if rank[key] < rank[before]:
            shown = ", ".join(k for k in order if k in mapping)
            message = f"key '{key}' stands after '{before}'; the order is {shown}."
            sink.add("E306", document.locate_key((*path, key)), message, "reorder the keys")
            return


def _documents(sources: Sources) -> Iterator[Document]:
    for _, document in [*sources.archs, *sources.evidence, *sources.grids]:
        yield document
    for entry in [*sources.families, *sources.layers, *sources.costs]:
        yield entry[1]
    for _, _, document, _ in sources.tiles:
        yield document


def _mappings(document: Document) -> Iterator[tuple[ValuePath, dict[Any, Any], Sequence[str]]]:
    value = document.value
    yield (), value, _keys(ORDERED[value["schema"]])
    for index, tile in enumerate(value.get("tiles", ())):
        if isinstance(tile, dict):
            yield ("tiles", index), tile, ("id", *(k for k in tile if k != "id"))
    for index, cost in enumerate(value.get("costs", ())):
        yield ("costs", index), cost, _keys(CostEntry)
    outcomes = outcome_keys(value.get("layer"))
    rule_order = ("id", "when", *outcomes, "basis", "evidence", "issue", "why")
    for index, section in enumerate(value.get("sections", ())):
        yield ("sections", index), section, _keys(SectionModel)
        for number, rule in enumerate(section["rules"]):
            yield ("sections", index, "rules", number), rule, rule_order


def _keys(model: type[SpecModel]) -> list[str]:
    return [f.alias or name for name, f in model.model_fields.items()]


def _ascending_archs(
    document: Document, path: ValuePath, archs: Sequence[str], ranks: dict[str, Any], sink: Sink
) -> None:
    """E307 for a `for` list."""
    if all(a in ranks for a in archs):
        ordered = sorted(archs, key=lambda a: ranks[a])
        _first_out_of_place(document, path, archs, ordered, "archs", sink)


def _ascending_tiles(document: Document, models: Iterable[Any], sink: Sink) -> None:
    """E307 for a tile table, where tiles have kc, mt and nt."""
    tiles = [m for m in models if m is not None]
    if not all(isinstance(getattr(t, key, None), int) for t in tiles for key in ("kc", "mt", "nt")):
        return
    ordered = sorted(tiles, key=lambda t: (t.kc, t.mt, t.nt))
    _first_out_of_place(document, ("tiles",), [t.id for t in tiles], [t.id for t in ordered], "tiles", sink)


def _first_out_of_place(
    document: Document, path: ValuePath, found: Sequence[str], ordered: Sequence[str], kind: str, sink: Sink
) -> None:
    for index, (name, expected) in enumerate(zip(found, ordered, strict=True)):
        if name != expected:
            rule = "by (kc, mt, nt)" if kind == "tiles" else "ascending, unknown last"
            message = f"{kind} are not in order ({rule}): '{name}' stands where '{expected}' is expected."
            sink.add("E307", document.locate((*path, index)), message, f"order: {', '.join(ordered)}")
            return
