"""Frozen Pydantic models, one per kind of spec document."""

from __future__ import annotations

from .arch import ArchProfile
from .base import SpecModel
from .costs import CostEntry, CostFile
from .evidence import EvidenceRecord
from .family import FamilyFile, LayerDecl
from .figures import Figures
from .grid import GridFile
from .layers import AnyOf, LayerFile, OutcomeValue, RuleModel, SectionModel
from .tiles import TILE_MODELS, GenericTile, TileBase, TileFile, tile_models
from .wheels import BudgetFile, WheelsFile, WheelVariant

__all__ = [
    "TILE_MODELS",
    "AnyOf",
    "ArchProfile",
    "BudgetFile",
    "CostEntry",
    "CostFile",
    "EvidenceRecord",
    "FamilyFile",
    "Figures",
    "GenericTile",
    "GridFile",
    "LayerDecl",
    "LayerFile",
    "OutcomeValue",
    "RuleModel",
    "SectionModel",
    "SpecModel",
    "TileBase",
    "TileFile",
    "WheelVariant",
    "WheelsFile",
    "tile_models",
]
