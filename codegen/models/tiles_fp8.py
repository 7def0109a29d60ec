"""Tile models of the families with both operands in 8 or 4 bits: gemm_fp8 and gemm_nvfp4."""

from __future__ import annotations

from typing import Literal

from .base import Positive
from .tiles_base import TileBase


class WgmmaFp8Tile(TileBase):
    """FP8 wgmma kernel of sm_90a: both operands by TMA, persistent, warp-specialised."""

    mt: Positive
    """Rows of the output tile."""
    nt: Positive
    """Columns of the output tile."""
    kc: Literal[128]
    """Elements of K in one stage: one swizzled row of bytes."""
    stages: Positive
    """Depth of the shared-memory ring."""
    swap: Literal[0, 1] = 0
    """1: the columns are the 64-row side of wgmma, so that `mt` may be any of its widths; 0: the rows are."""
    consumers: Literal[1, 2, 3] = 2
    """Warpgroups that multiply."""
    pingpong: Literal[0, 1] = 0
    """1: each takes every `consumers`-th tile, so that one stores while another multiplies; 0: they share each tile."""
    promote: Literal[0, 1] = 0
    """1: sums are added up in fp32 every 128 of K; 0: they stay in the tensor core over all of K."""
    cluster_m: Literal[1, 2] = 1
    """Blocks of a cluster that share one tile of B."""
    cluster_n: Literal[1, 2] = 1
    """Blocks of a cluster that share one tile of A."""
    split_k: Positive = 1
    """Blocks of a cluster that share one output tile, each with its part of K; with `swap: 0` as many as consumers."""
    occupancy: Literal[1, 2] = 1
    """Blocks per SM the registers are sized for."""


class DecodeFp8Tile(TileBase):
    """FP8 kernels for a few rows of activations, while the weight streams past once.

    `cluster: 0`: mma.sync, activations held in shared memory. Otherwise wgmma of sm_90a, both operands by TMA.
    """

    mb: Positive
    """Rows of the activations, a multiple of 8."""
    warps: Positive
    """Warps in a block; with TMA those that multiply, 16 rows of the weight each."""
    warps_k: Positive = 1
    """Warps that share out the K of a block; the others take other rows of the weight. With TMA 1."""
    depth: Positive
    """Steps of 16 rows by 128 along K that a warp has in its ring; with TMA stages of 128 along K."""
    occupancy: Positive = 1
    """Blocks per SM the registers are sized for."""
    per_sm: Literal[1, 2] = 1
    """Blocks per SM in the grid."""
    a_kb: Positive
    """KiB of shared memory for the activations, scales and bias, at most; with TMA for scales of blocks."""
    cluster: Literal[0, 1, 2, 4] = 0
    """0: mma.sync. Otherwise wgmma and TMA, and as many blocks of a cluster share out K."""


class MmaFp8Tile(TileBase):
    """FP8 mma.sync m16n8k32 kernel with a cp.async ring."""

    mt: Positive
    """Rows of the output tile."""
    nt: Positive
    """Columns of the output tile."""
    kc: Literal[128]
    """Elements of K in one stage."""
    stages: Positive
    """Depth of the shared-memory ring."""
    warps_m: Positive
    """Warps along M."""
    warps_n: Positive
    """Warps along N."""


class MmaNvfp4Tile(TileBase):
    """NVFP4 kernel on block-scaled mma.sync m16n8k64 with a cp.async ring."""

    mt: Positive
    """Rows of the output tile."""
    nt: Positive
    """Columns of the output tile."""
    kc: Literal[256]
    """Elements of K in one stage: 128 bytes of a row."""
    stages: Positive
    """Depth of the shared-memory ring."""
    warps_m: Positive
    """Warps along M."""
    warps_n: Positive
    """Warps along N."""
