"""What one CTA of a tcgen05 tile loads, multiplies and stores in a stage."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine_needs import tcgen05_stage
from ..models.tiles import Tcgen05Tile

PAIR_ROWS = 256
"""Rows of the output that a CTA pair computes with one accumulator."""


@dataclass(frozen=True)
class TileShape:
    """Sizes of a tile: rows and columns of a CTA pair's output, and per CTA the bytes of a stage."""

    dtype: str
    rows: int
    columns: int
    k: int
    """Elements of K in a stage."""
    bytes_a: int
    """A and its scales, one stage, one CTA."""
    bytes_b: int
    bytes_out: int
    """Output of one CTA in bf16."""
    stages: int
    step_bytes: int
    """Bytes along K that one MMA step consumes."""
    pairs: int
    """CTA pairs of a cluster; they lie along N and share A."""
    supergroup: int
    """Rows of tiles that the rasterisation walks down before it moves along N."""
    early_a: bool
    buffered: bool
    """Whether a second set of accumulators lets the epilogue overlap the next tile."""

    @property
    def flops(self) -> int:
        """Of one stage of one CTA."""
        return self.rows * self.columns * self.k


def tile_shape(tile: Tcgen05Tile) -> TileShape:
    """The shape of a spec's tile."""
    stacked = 2 if tile.pair == "2x1" else 1
    stage = tcgen05_stage(tile)
    return TileShape(
        dtype=tile.dtype,
        rows=PAIR_ROWS * stacked,
        columns=tile.nt,
        k=stage.k,
        bytes_a=stage.bytes_a,
        bytes_b=stage.bytes_b,
        bytes_out=PAIR_ROWS // 2 * stacked * tile.nt * 2,
        stages=tile.stages,
        step_bytes=tile.k_bytes,
        pairs=max(1, tile.cluster // 2),
        supergroup=tile.supergroup,
        early_a=tile.early_a_release,
        buffered=tile.accumulators > 1,
    )
