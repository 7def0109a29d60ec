"""Read a specs folder: files to models to one resolved SpecTree, with every finding on the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .build import build_tree
from .diagnostics import Diagnostic, Location, Sink, SpecError, did_you_mean
from .ir import SpecTree
from .loader import Document, ValuePath, load_documents
from .model_errors import report_model_errors
from .models import (
    ArchProfile,
    BudgetFile,
    CostFile,
    EvidenceRecord,
    FamilyFile,
    GenericTile,
    GridFile,
    LayerFile,
    SpecModel,
    TileFile,
    WheelsFile,
    tile_models,
)
from .models.claims import ClaimsFile
from .sources import Sources

MODELS: dict[str, type[SpecModel]] = {
    "arch/1": ArchProfile,
    "family/1": FamilyFile,
    "tiles/1": TileFile,
    "layer/1": LayerFile,
    "costs/1": CostFile,
    "evidence/1": EvidenceRecord,
    "grid/1": GridFile,
    "claims/1": ClaimsFile,
    "wheels/1": WheelsFile,
    "budget/1": BudgetFile,
}


def read_tree(root: str | os.PathLike[str], sink: Sink | None = None) -> tuple[SpecTree | None, tuple[Diagnostic, ...]]:
    """Read and resolve a specs folder.

    Returns the tree, or None when something in it cannot be read or bound, and the findings so far. Rules of
    completeness and legality (E2xx, E31x, W4xx) are checked by `tilewright_codegen.validate`.
    """
    sink = Sink() if sink is None else sink
    sources = read_sources(root, sink)
    if sink.has_errors:
        return None, sink.diagnostics
    tree = build_tree(sources, sink)
    return (None if sink.has_errors else tree), sink.diagnostics


def read_sources(root: str | os.PathLike[str], sink: Sink) -> Sources:
    """Read every document below a folder into models, unresolved. What cannot be read is a finding and left out."""
    folder = Path(root)
    sources = Sources(str(root))
    if not folder.is_dir():
        sink.add("E100", Location(str(root)), "there is no such folder of specs.")
        return sources
    files = list(spec_files(folder))
    if not files:
        sink.add("E100", Location(str(root)), "the folder holds no .yaml file.")
    for file in files:
        shown = str(file) if file.is_absolute() else file.as_posix()
        for document in load_documents(file, shown, sink):
            _sort_document(document, file, sources, sink)
    return sources


def load_tree(root: str | os.PathLike[str]) -> SpecTree:
    """Read a specs folder that is expected to be sound. Raises SpecError with every finding otherwise."""
    tree, found = read_tree(root)
    if tree is None:
        raise SpecError(found)
    return tree


def spec_files(folder: Path) -> Iterator[Path]:
    """Every .yaml file of the tree in a fixed order; nested example trees are trees of their own."""
    for file in sorted(folder.rglob("*.yaml")):
        if "examples" not in file.relative_to(folder).parts[:-1]:
            yield file


def _sort_document(document: Document, file: Path, sources: Sources, sink: Sink) -> None:
    value = document.value
    if not isinstance(value, dict):
        if sink.mentions(document.locate()):
            return
        sink.add("E104", document.locate(), "a mapping with a `schema` key is expected.")
        return
    schema = value.get("schema")
    model = MODELS.get(schema) if isinstance(schema, str) else None
    if model is None:
        place = document.locate(("schema",))
        problem = "key 'schema' is missing" if "schema" not in value else f"schema '{schema}' is not known"
        hint = did_you_mean(str(schema), MODELS) or f"schemas: {', '.join(MODELS)}"
        sink.add("E104", place, f"{problem}.", hint)
        return
    parsed = parse_model(model, document, (), value, sink)
    if parsed is None:
        return
    if isinstance(parsed, TileFile):
        folder = file.parent.name
        sources.tiles.append((parsed, _parse_tiles(parsed, folder, document, sink), document, folder))
    elif isinstance(parsed, ClaimsFile):
        from .claims import parse_claims

        sources.claims.append((parsed, parse_claims(parsed, document, sink), document))
    else:
        sources.add(parsed, document, file.parent.name)


def _parse_tiles(file: TileFile, family: str, document: Document, sink: Sink) -> list[Any]:
    models = tile_models(family)
    model = models.get(file.engine, GenericTile)
    hint = None if file.engine in models else did_you_mean(file.engine, models)
    if hint and not any("smem_bytes" in tile for tile in file.tiles):
        place = document.locate(("engine",))
        sink.add("E301", place, f"engine '{file.engine}' is not known, and its tiles state no `smem_bytes`.", hint)
        return []
    return [parse_model(model, document, ("tiles", i), tile, sink) for i, tile in enumerate(file.tiles)]


def parse_model(model: type[SpecModel], document: Document, base: ValuePath, value: Any, sink: Sink) -> Any:
    """Validate one value; findings get the place of the key or value they are about. None when it does not fit."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        report_model_errors(model, document, base, error, sink)
        return None
