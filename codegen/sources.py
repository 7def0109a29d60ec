"""The parsed documents of a spec tree, by kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .loader import Document
from .models import (
    ArchProfile,
    BudgetFile,
    CostFile,
    EvidenceRecord,
    FamilyFile,
    GridFile,
    LayerFile,
    TileFile,
    WheelsFile,
)
from .models.claims import ClaimsFile


@dataclass
class Sources:
    """Parsed documents by kind, each with where it came from."""

    root: str
    archs: list[tuple[ArchProfile, Document]] = field(default_factory=list)
    families: list[tuple[FamilyFile, Document, str]] = field(default_factory=list)
    tiles: list[tuple[TileFile, list[Any], Document, str]] = field(default_factory=list)
    layers: list[tuple[LayerFile, Document, str]] = field(default_factory=list)
    costs: list[tuple[CostFile, Document, str]] = field(default_factory=list)
    evidence: list[tuple[EvidenceRecord, Document]] = field(default_factory=list)
    grids: list[tuple[GridFile, Document]] = field(default_factory=list)
    claims: list[tuple[ClaimsFile, list[Any], Document]] = field(default_factory=list)
    wheels: list[tuple[WheelsFile, Document]] = field(default_factory=list)
    budgets: list[tuple[BudgetFile, Document]] = field(default_factory=list)

    def add(self, model: Any, document: Document, folder: str) -> None:
        """Put a parsed document where it belongs."""
        if isinstance(model, ArchProfile):
            self.archs.append((model, document))
        elif isinstance(model, FamilyFile):
            self.families.append((model, document, folder))
        elif isinstance(model, LayerFile):
            self.layers.append((model, document, folder))
        elif isinstance(model, CostFile):
            self.costs.append((model, document, folder))
        elif isinstance(model, EvidenceRecord):
            self.evidence.append((model, document))
        elif isinstance(model, WheelsFile):
            self.wheels.append((model, document))
        elif isinstance(model, BudgetFile):
            self.budgets.append((model, document))
        else:
            self.grids.append((model, document))
