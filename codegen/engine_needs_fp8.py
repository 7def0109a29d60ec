"""Resource formulas of gemm_fp8 and gemm_nvfp4, tcgen05 apart. Each mirrors a header of its family."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from .block_needs import KIB, EngineNeeds, Needs
from .models.tiles_base import TileBase
from .models.tiles_fp8 import DecodeFp8Tile, MmaFp8Tile, MmaNvfp4Tile, WgmmaFp8Tile

WGMMA_FIXED_REGISTERS = 32
MMA_FIXED_REGISTERS = 48
DECODE_FIXED_REGISTERS = 40
SMEM_PER_SM = 228 * KIB
"""Shared memory of a Hopper multiprocessor; every block takes one KiB for itself."""
WGMMA_WIDTHS = (16, 32, 48, 64, 96, 112, 128, 160, 192, 224, 256)
"""N of the wgmma instructions that the wgmma engine takes."""
BULK_WIDTHS = (8, 16, 32, 48, 64)
"""N of those that the decode engine takes."""


def _wgmma_sides(tile: WgmmaFp8Tile) -> tuple[int, int]:
    """The 64-row side and the N side of the instruction."""
    return (tile.nt, tile.mt) if tile.swap else (tile.mt, tile.nt)


def _wgmma_needs(tile: WgmmaFp8Tile) -> Needs:
    rows, width = _wgmma_sides(tile)
    team = 1 if tile.pingpong else tile.consumers
    accumulators = rows // 64 // team * width // 2 + (width // 2 if tile.promote else 0)
    cluster = tile.cluster_m * tile.cluster_n * tile.split_k
    return Needs(
        smem_bytes=_wgmma_smem(tile),
        threads=128 * (1 + tile.consumers),
        accumulators=accumulators,
        registers=accumulators + WGMMA_FIXED_REGISTERS,
        idle_threads=128,
        cluster=cluster,
        features=("tma", "cluster") if cluster > 1 else ("tma",),
    )


def _wgmma_smem(tile: WgmmaFp8Tile) -> int:
    """Mirrors gemm_fp8/wgmma_plan.h: ring, what the blocks of a split tile send, scales, barriers, and output.

    Output has two buffers a warpgroup, or one where two do not fit.
    """
    ring = tile.stages * (tile.mt + tile.nt) * 128
    rows, width = _wgmma_sides(tile)
    # Of a split tile a block stores a share of the rows (swapped), else all rows of one of its warpgroups.
    groups, share = (
        (rows // 64, -(-width // 8 // tile.split_k)) if tile.swap else (rows // 64 // tile.split_k, width // 8)
    )
    exchange = (tile.split_k - 1) * share * groups * 2 * KIB
    scales = tile.stages * (tile.mt + 4) * 4 if tile.promote else 0
    barriers = 16 * tile.stages + (8 if tile.split_k > 1 else 0)
    other = ring + exchange + scales + barriers + 1 * KIB
    output = tile.consumers * (gcd(64, 2 * tile.mt) if tile.swap else 64) * 128
    most = SMEM_PER_SM // tile.occupancy - 1 * KIB
    return other + output * (2 if other + 2 * output <= most else 1)


def _wgmma_contradictions(tile: WgmmaFp8Tile) -> Iterator[str]:
    yield from _wgmma_shape(tile)
    if tile.cluster_m * tile.cluster_n > 2:
        yield "cluster_m and cluster_n are both 2; a tile of one operand is shared by two blocks at most"
    if tile.mt // tile.cluster_n % 8 or tile.nt // tile.cluster_m % 8:
        yield "mt over cluster_n and nt over cluster_m leave parts that are no multiples of 8"
    if tile.split_k > 1 and tile.pingpong:
        yield "split_k needs `pingpong: 0`"
    if tile.split_k > 1 and not tile.swap and tile.split_k != tile.consumers:
        yield f"split_k is {tile.split_k}; with `swap: 0` {tile.consumers} is expected, a block for each consumer"
    if tile.promote and tile.pingpong:
        yield "promote needs `pingpong: 0`: adding up hides behind another warpgroup's product"
    if tile.stages < 2:
        yield "a ring has at least 2 stages"
    if (accumulators := _wgmma_needs(tile).accumulators) > 208:
        yield f"its accumulators take {accumulators} registers a thread; 208 are left for them"


def _wgmma_shape(tile: WgmmaFp8Tile) -> Iterator[str]:
    rows, width = _wgmma_sides(tile)
    team = 1 if tile.pingpong else tile.consumers
    long, wide = ("nt", "mt") if tile.swap else ("mt", "nt")
    if rows % (64 * team) or rows > 256:
        yield f"{long} is {rows}; a multiple of {64 * team} up to 256 is expected"
    if width not in WGMMA_WIDTHS:
        yield f"{wide} is {width}; one of {', '.join(map(str, WGMMA_WIDTHS))} is expected"
    columns = 64 if tile.swap or tile.promote else 16
    if tile.nt % columns or tile.mt % 16:
        yield f"{tile.mt}x{tile.nt}: mt is a multiple of 16 and nt one of {columns}"
    if tile.consumers == 3 and width > 192:
        yield f"{wide} is {width}; 192 is the most for three consumers"


def _wgmma_requires(tile: WgmmaFp8Tile) -> tuple[str, ...]:
    found = ["K % 16 == 0"]
    if not tile.promote:
        found += ["scaling != block", "accumulation == fast"]
    if tile.split_k > 1:
        found.append("grouping == none")
    return tuple(found)


def _decode_needs(tile: DecodeFp8Tile) -> Needs:
    bulk = tile.cluster > 0
    return Needs(
        smem_bytes=_bulk_smem(tile) if bulk else _decode_smem(tile),
        threads=32 * (tile.warps + bulk),
        accumulators=tile.mb // 2 * (3 if bulk else 1),
        registers=tile.mb // 2 * (3 if bulk else 1) + DECODE_FIXED_REGISTERS,
        cluster=max(1, tile.cluster),
        features=("tma", "cluster") if tile.cluster > 1 else ("tma",) if bulk else (),
    )


def _decode_smem(tile: DecodeFp8Tile) -> int:
    """Mirrors gemm_fp8/decode_plan.h: rings, sums of the warps, activations with scales and bias."""
    sums = (2 if tile.mb <= 8 else 1) * tile.warps * tile.mb * 80
    return tile.warps * tile.depth * 2 * KIB + sums + tile.a_kb * KIB


def _bulk_smem(tile: DecodeFp8Tile) -> int:
    """Mirrors gemm_fp8/decode_bulk_plan.h: ring, exchange of the cluster, barriers, scales."""
    ring = tile.depth * (16 * tile.warps + tile.mb) * 128
    exchange = (tile.cluster - 1) * tile.mb * 16 * (tile.warps // tile.cluster) * 4
    return ring + exchange + tile.depth * 16 + 16 + 1 * KIB + tile.a_kb * KIB


def _decode_contradictions(tile: DecodeFp8Tile) -> Iterator[str]:
    if tile.mb % 8 or tile.mb > 64:
        yield f"mb is {tile.mb}; a multiple of 8 up to 64 is expected"
    if tile.warps > 32:
        yield f"{tile.warps} warps in a block, 32 are the most"
    if tile.warps % tile.warps_k:
        yield f"warps_k {tile.warps_k} does not divide warps {tile.warps}"
    if tile.per_sm > tile.occupancy:
        yield f"per_sm {tile.per_sm} is more than occupancy {tile.occupancy}"
    if tile.cluster:
        yield from _bulk_contradictions(tile)
    elif not 2 <= tile.depth <= 16:
        yield f"depth is {tile.depth}; 2 to 16 are expected"


def _bulk_contradictions(tile: DecodeFp8Tile) -> Iterator[str]:
    if tile.warps not in (4, 8):
        yield f"warps is {tile.warps}; with a cluster 4 or 8 are expected"
    if tile.warps_k != 1:
        yield "warps_k is 1 with a cluster"
    if tile.mb not in BULK_WIDTHS:
        yield f"mb is {tile.mb}; with a cluster one of {', '.join(map(str, BULK_WIDTHS))} is expected"
    if tile.depth < 2:
        yield "a ring has at least 2 stages"


def _decode_requires(tile: DecodeFp8Tile) -> tuple[str, ...]:
    """A with its scales must fit, and beside it the scales and bias of a block's rows of the weight, up to 256."""
    if tile.cluster:
        return _bulk_requires(tile)
    units = "ceil_div(K, 128)"
    room = f"{units} * M * 132 + {units} * 16 + 2112 <= {tile.a_kb * KIB}"
    return "K % 16 == 0", f"M <= {tile.mb}", room, "N <= num_sms * 256", "grouping == none"


def _bulk_requires(tile: DecodeFp8Tile) -> tuple[str, ...]:
    """A cluster of several finishes one tile; the scales of blocks of up to 8 tiles fit."""
    rows = 16 * tile.warps
    if tile.cluster == 1:
        reach, tiles = f"N <= num_sms * {rows * tile.per_sm * 4}", 8
    else:
        reach, tiles = f"N * {tile.cluster} + {(tile.cluster - 1) * rows} <= num_sms * {rows * tile.per_sm}", 1
    room = f"ceil_div(K, {128 * tile.cluster}) * {(tile.mb + 2 * tiles) * 4} <= {tile.a_kb * KIB}"
    return "K % 16 == 0", f"M <= {tile.mb}", reach, room, "grouping == none"


def _mma_needs(tile: MmaFp8Tile) -> Needs:
    threads = 32 * tile.warps_m * tile.warps_n
    accumulators = tile.mt * tile.nt // threads
    fragments = tile.mt // tile.warps_m // 16 * 4 + tile.nt // tile.warps_n // 8 * 2
    return Needs(
        smem_bytes=tile.stages * (tile.mt + tile.nt) * tile.kc,
        threads=threads,
        accumulators=accumulators,
        registers=accumulators + fragments + MMA_FIXED_REGISTERS,
    )


def _mma_contradictions(tile: MmaFp8Tile | MmaNvfp4Tile) -> Iterator[str]:
    if tile.mt % (16 * tile.warps_m):
        yield f"mt {tile.mt} is not a multiple of 16 * warps_m ({16 * tile.warps_m})"
    if tile.nt % (16 * tile.warps_n):
        yield f"nt {tile.nt} is not a multiple of 16 * warps_n ({16 * tile.warps_n})"
    if 128 % (tile.nt // tile.warps_n) and isinstance(tile, MmaFp8Tile):
        yield f"nt over warps_n is {tile.nt // tile.warps_n}; a divisor of 128 is expected"
    if tile.stages < 2:
        yield "a ring has at least 2 stages"


def _block_scaled_needs(tile: MmaNvfp4Tile) -> Needs:
    threads = 32 * tile.warps_m * tile.warps_n
    accumulators = tile.mt * tile.nt // threads
    atoms = -(-tile.mt // 128) + -(-tile.nt // 128)
    return Needs(
        smem_bytes=tile.stages * ((tile.mt + tile.nt) * tile.kc // 2 + atoms * tile.kc // 64 * 512),
        threads=threads,
        accumulators=accumulators,
        registers=accumulators + MMA_FIXED_REGISTERS,
    )


def _block_scaled_contradictions(tile: MmaNvfp4Tile) -> Iterator[str]:
    yield from _mma_contradictions(tile)
    for name, size in (("mt", tile.mt), ("nt", tile.nt)):
        if 128 % size and size % 128:
            yield f"{name} is {size}; a divisor or a multiple of 128 is expected"


FP8_NEEDS: dict[type[TileBase], EngineNeeds] = {
    WgmmaFp8Tile: EngineNeeds(_wgmma_needs, _wgmma_contradictions, _wgmma_requires),
    DecodeFp8Tile: EngineNeeds(_decode_needs, _decode_contradictions, _decode_requires),
    MmaFp8Tile: EngineNeeds(_mma_needs, _mma_contradictions, lambda tile: ("K % 16 == 0",)),
    MmaNvfp4Tile: EngineNeeds(_block_scaled_needs, _block_scaled_contradictions, lambda tile: ("K % 32 == 0",)),
}
"""Formulas by tile model."""
