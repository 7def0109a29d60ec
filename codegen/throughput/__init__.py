"""Predicts the throughput of a tile on a chip from published figures, for planning a tier before the chip is at hand.

`shape` says what one CTA loads, multiplies and stores; `traffic` walks the rasterised tiles and says what comes from
DRAM; `pipeline` runs the ring of stages event by event; `predict` puts them together.
"""

from __future__ import annotations

from .pipeline import Pipeline
from .predict import Prediction, predict, rank
from .shape import TileShape, tile_shape
from .traffic import Traffic, traffic

__all__ = ["Pipeline", "Prediction", "TileShape", "Traffic", "predict", "rank", "tile_shape", "traffic"]
