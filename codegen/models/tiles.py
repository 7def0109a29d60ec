"""Tile tables: one document per engine."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from .base import Count, Flag, Positive, SpecModel, Text, Word
from .tiles_base import TileBase
from .tiles_fp8 import DecodeFp8Tile, MmaFp8Tile, MmaNvfp4Tile, WgmmaFp8Tile


class SimtTile(TileBase):
    """Scalar kernel: a warp per output column, `mb` rows of activations at a time."""

    mb: Positive
    """Rows of the activations a block works on together."""
    warps: Positive
    """Warps in a block."""


class MmaTile(TileBase):
    """mma.sync m16n8k16 kernel with a cp.async ring."""

    mt: Positive
    """Rows of the output tile."""
    nt: Positive
    """Columns of the output tile."""
    kc: Positive
    """Elements of K in one stage."""
    stages: Positive
    """Depth of the shared-memory ring."""
    warps_m: Positive
    """Warps along M."""
    warps_n: Positive
    """Warps along N."""
    warps_k: Positive = 1
    """Warps that share out K within a stage; their sums are added in a fixed order."""
    weights: Literal["packed", "dequantised"] = "packed"
    """How weights stand in shared memory."""
    pad: Count = 0
    """Elements of padding at the end of each row in shared memory."""


class WgmmaTile(TileBase):
    """wgmma kernel of sm_90a: dequantised weights as register operand, activations by TMA, warp-specialised."""

    mt: Positive
    """Rows of the activations in the output tile."""
    nt: Positive
    """Rows of the weight in the output tile; each 64 are one consumer warpgroup."""
    kc: Literal[64, 128]
    """Elements of K in one stage."""
    stages: Positive
    """Depth of the shared-memory ring."""
    cluster_n: Positive = 1
    """Blocks of a cluster that share one tile of activations."""
    split_k: Positive = 1
    """Blocks of a cluster that share one output tile, each with its part of K."""
    occupancy: Positive = 1
    """Blocks per SM the registers are sized for."""
    lut_parts: Annotated[int, Field(strict=True, ge=0, le=4)] = 0
    """Quarters of the codes that a byte table in shared memory expands; byte permutes do the rest."""
    group_parts: Literal[1, 2] = 2
    """Groups of 16 along K that are expanded and multiplied at a time."""


class DecodeTile(TileBase):
    """Hopper kernel for a few rows of activations, held in registers while the weight streams past once."""

    mb: Positive
    """Rows of the activations, a multiple of 8."""
    kb: Positive
    """Blocks of 64 along K that one warp holds."""
    warps_k: Positive
    """Warps that share out the K of a block."""
    warps_n: Positive = 1
    """Warps that share out the rows of a stage, 16 to each."""
    cluster: Literal[1, 2, 4, 8] = 1
    """Blocks of a cluster that share out K."""
    lut: Annotated[int, Field(strict=True, ge=0, le=5)] = 4
    """Quarters of the codes that a byte table in shared memory expands; byte permutes do the rest. 5: all of them, by a
    table of twice the size and one instruction less."""
    ring_kb: Positive
    """KiB of shared memory for weights and scales in flight."""
    occupancy: Positive = 1
    """Blocks per SM the registers are sized for; with 2 the next kernel's block starts loading beside this one."""
    per_sm: Positive = 1
    """Blocks per SM in the grid, at most `occupancy`."""


class Tcgen05Tile(TileBase):
    """Kernel of CTA pairs with accumulators in tensor memory: M256 of output per stacked tile and pair."""

    pair: Literal["1x1", "2x1"]
    """Output tiles one CTA pair works on; `2x1` stacks two along M that share B."""
    nt: Literal[64, 128, 256] = 256
    """Columns of an output tile."""
    cluster: Positive
    """CTAs in a thread block cluster; its pairs lie side by side along N and share A."""
    stages: Positive
    """Depth of the shared-memory ring; a stage is 128 bytes along K."""
    k_bytes: Literal[32, 48, 64]
    """Bytes along K that one MMA step consumes."""
    rings: Literal["joint", "split"] = "joint"
    """Whether A and B share a ring or have one each."""
    collector_b: Flag = False
    """Whether B stays in the collector between the two MMAs of a stacked pair."""
    early_a_release: Flag = False
    """Whether A's slots are released once shared memory has been read, before the MMA has finished."""
    multicast_32b: Flag = False
    """Whether multicast masks are 32 bits wide."""
    accumulators: Literal[1, 2] = 1
    """Sets of accumulators in tensor memory; with 2 the epilogue overlaps the next tile."""
    overlap: Flag = False
    """Whether the two accumulators share 64 columns, which the epilogue reads first."""
    supergroup: Positive = 1
    """Rows of tiles that the rasterisation walks down before it moves along N."""
    promote: Flag = False
    """FP8: whether sums are added up in fp32 every 128 of K, as scales per block need."""
    dtype: Literal["nvfp4", "fp8"]
    """Operand format."""


class Tcgen05Fp8Tile(Tcgen05Tile):
    """tcgen05 kernel of CTA pairs with FP8 operands."""

    dtype: Literal["fp8"] = "fp8"
    """Operand format."""


class Tcgen05Nvfp4Tile(Tcgen05Tile):
    """tcgen05 kernel of CTA pairs with NVFP4 operands and scales in tensor memory."""

    dtype: Literal["nvfp4"] = "nvfp4"
    """Operand format."""


class GenericTile(TileBase):
    """A tile of an engine this package has no resource model for: its own fields, and its shared memory stated."""

    model_config = ConfigDict(extra="allow")
    smem_bytes: Count
    """Dynamic shared memory of a block, in bytes."""


DEFAULT_FAMILY = "gemm_4bit"
"""The family whose models a family of another name uses."""
TILE_MODELS: dict[tuple[str, str], type[TileBase]] = {
    ("gemm_4bit", "simt"): SimtTile,
    ("gemm_4bit", "mma_m16n8k16"): MmaTile,
    ("gemm_4bit", "wgmma"): WgmmaTile,
    ("gemm_4bit", "decode"): DecodeTile,
    ("gemm_fp8", "wgmma"): WgmmaFp8Tile,
    ("gemm_fp8", "decode"): DecodeFp8Tile,
    ("gemm_fp8", "mma_m16n8k32"): MmaFp8Tile,
    ("gemm_fp8", "tcgen05"): Tcgen05Fp8Tile,
    ("gemm_nvfp4", "mma_block_scaled"): MmaNvfp4Tile,
    ("gemm_nvfp4", "tcgen05"): Tcgen05Nvfp4Tile,
}
"""Models by family and engine. Each is the model of one resource formula (`engine_needs.py`)."""


def tile_models(family: str) -> dict[str, type[TileBase]]:
    """Models by engine of a family; an engine that is not listed uses GenericTile."""
    known = {name for name, _ in TILE_MODELS}
    owner = family if family in known else DEFAULT_FAMILY
    return {engine: model for (name, engine), model in TILE_MODELS.items() if name == owner}


class TileFile(SpecModel):
    """The tiles of one engine."""

    kind: Literal["tiles/1"] = Field(alias="schema")
    """`tiles/1`."""
    engine: Word
    """Engine of every tile in the document."""
    requires: dict[Positive, tuple[Text, ...]] = {}
    """Per value of `kc`: what must hold of a problem that uses such a tile."""
    tiles: tuple[dict[str, Any], ...] = Field(min_length=1)
    """One line a tile; its keys depend on the engine."""


def tile_fields(tile: TileBase) -> dict[str, int | bool | str]:
    """Scalar fields of a tile by name, the id and the prose left out."""
    skip = {"id", "needs", "reserve", "status"}
    return {k: v for k, v in tile.model_dump().items() if k not in skip and v is not None and not isinstance(v, tuple)}


__all__ = [
    "TILE_MODELS",
    "DecodeTile",
    "Flag",
    "GenericTile",
    "MmaTile",
    "SimtTile",
    "Tcgen05Tile",
    "TileBase",
    "TileFile",
    "WgmmaTile",
    "tile_fields",
    "tile_models",
]
