"""Resource formulas, one entry a tile model. A new engine adds its functions and one line to ENGINE_NEEDS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .block_needs import KIB, EngineNeeds, Needs
from .engine_needs_fp8 import FP8_NEEDS
from .models import TileBase
from .models.tiles import DecodeTile, MmaTile, SimtTile, Tcgen05Fp8Tile, Tcgen05Nvfp4Tile, Tcgen05Tile, WgmmaTile

MMA_TABLE_BYTES = (16 + 256) * 4
"""mma_m16n8k16: codebook and nested code, in floats."""
MMA_FIXED_REGISTERS = 48
"""Addresses, loop state and scales of a thread of the mma_m16n8k16 kernel; an estimate."""
SIMT_FIXED_REGISTERS = 40
WGMMA_FIXED_REGISTERS = 64
WGMMA_BYTE_TABLES = (256 * 256, 256 * 128)
"""wgmma: a row for each value of a byte, 256 bytes apart or, where those do not fit, 128."""


def needs_stated(tile: TileBase) -> Needs:
    """An engine of another library: the tile states its shared memory."""
    stated = tile.model_extra or {}
    warps_m, warps_n = stated.get("warps_m"), stated.get("warps_n")
    threads = 32 * warps_m * warps_n if isinstance(warps_m, int) and isinstance(warps_n, int) else None
    return Needs(smem_bytes=getattr(tile, "smem_bytes", 0), threads=threads)


def _simt_needs(tile: SimtTile) -> Needs:
    return Needs(
        smem_bytes=0,
        threads=32 * tile.warps,
        accumulators=tile.mb,
        registers=SIMT_FIXED_REGISTERS + 3 * tile.mb,
    )


def _simt_contradictions(tile: SimtTile) -> Iterator[str]:
    if tile.mb not in (1, 2, 4, 8):
        yield f"mb is {tile.mb}; 1, 2, 4 or 8 is expected"


def _mma_needs(tile: MmaTile) -> Needs:
    threads = 32 * tile.warps_m * tile.warps_n * tile.warps_k
    accumulators = tile.mt * tile.nt * tile.warps_k // threads
    fragments = tile.mt // tile.warps_m // 8 * 2 + tile.nt // tile.warps_n // 16 * 4
    return Needs(
        smem_bytes=_mma_smem(tile),
        threads=threads,
        accumulators=accumulators,
        registers=accumulators + fragments + MMA_FIXED_REGISTERS,
    )


def _mma_smem(tile: MmaTile) -> int:
    """Mirrors gemm_4bit/smem.h; a generated static_assert compares the two."""
    if tile.weights == "dequantised":
        return tile.stages * (tile.mt + tile.nt) * (tile.kc + tile.pad) * 2
    scales = tile.kc // 16 * (tile.nt + 8) * 4
    return tile.stages * (tile.mt * tile.kc * 2 + tile.nt * tile.kc // 2 + scales) + MMA_TABLE_BYTES


def _mma_contradictions(tile: MmaTile) -> Iterator[str]:
    """Of our kernel; a table that states `weights: dequantised` describes another."""
    if tile.stages < 2:
        yield "a ring has at least 2 stages"
    if tile.kc % (64 * tile.warps_k):
        yield f"kc {tile.kc} is not a multiple of 64 * warps_k ({64 * tile.warps_k})"
    if tile.weights == "dequantised":
        return
    if tile.mt % (8 * tile.warps_m):
        yield f"mt {tile.mt} is not a multiple of 8 * warps_m ({8 * tile.warps_m})"
    if tile.nt % (16 * tile.warps_n):
        yield f"nt {tile.nt} is not a multiple of 16 * warps_n ({16 * tile.warps_n})"
    sums = (tile.warps_k - 1) * tile.mt * tile.nt * 4
    ring = _mma_smem(tile) - MMA_TABLE_BYTES
    if sums > ring:
        yield f"the {sums} B of partial sums of warps_k {tile.warps_k} do not fit in the ring of {ring} B"


def _wgmma_needs(tile: WgmmaTile) -> Needs:
    cluster = tile.cluster_n * tile.split_k
    return Needs(
        smem_bytes=_wgmma_smem(tile),
        threads=128 * (1 + tile.nt // 64),
        accumulators=tile.mt // 2,
        registers=tile.mt // 2 + WGMMA_FIXED_REGISTERS,
        cluster=cluster,
        features=("tma", "cluster") if cluster > 1 else ("tma",),
    )


def _wgmma_smem(tile: WgmmaTile) -> int:
    """Mirrors gemm_4bit/wgmma_smem.h: ring (the exchange of split K lies over its A), output, tables, barriers."""
    ring = tile.stages * (tile.mt * tile.kc * 2 + tile.nt * tile.kc // 2)
    short_of_space = tile.occupancy > 1 or tile.mt >= 192 or ring > 160 * KIB
    most_rows = 32 if short_of_space else 64
    output_rows = next(rows for rows in (64, 32, 16) if rows <= most_rows and tile.mt % rows == 0 or rows == 16)
    output = tile.nt // 64 * output_rows * 128
    others = ring + output + 64 + 256 * 4 + (2 * tile.stages + 2) * 8 + 1 * KIB
    if not tile.lut_parts:
        return others
    roomy, compact = WGMMA_BYTE_TABLES
    return others + (roomy if (others + roomy) * tile.occupancy <= 227 * KIB else compact)


def _wgmma_contradictions(tile: WgmmaTile) -> Iterator[str]:
    if tile.nt % 64 or tile.nt > 256:
        yield f"nt is {tile.nt}; 64, 128, 192 or 256 is expected"
    if tile.mt % 16 or tile.mt > 256:
        yield f"mt is {tile.mt}; a multiple of 16 up to 256 is expected"
    if tile.stages < 3:
        yield f"stages is {tile.stages}; at least 3 are expected, which are held or waited for at a time"
    if tile.mt // tile.cluster_n % 8:
        yield f"mt {tile.mt} over cluster_n {tile.cluster_n} leaves a part that is no multiple of 8"
    exchange = (tile.split_k - 1) * -(-tile.mt // 8 // tile.split_k) * (tile.nt // 64) * 2 * KIB
    free = tile.mt * 2 * (tile.stages * tile.kc - 128)
    if exchange > free:
        yield f"{exchange} B sent by split_k {tile.split_k} do not fit over the {free} B of A before its last 128 of k"


def _decode_needs(tile: DecodeTile) -> Needs:
    warps = tile.warps_k * tile.warps_n + 4
    resident = -(-warps * tile.occupancy // 4)
    return Needs(
        smem_bytes=_decode_smem(tile),
        threads=32 * warps,
        accumulators=tile.mb // 2,
        registers=512 // resident // 8 * 8,  # at entry; the warps that multiply take over what the others give up
        cluster=tile.cluster,
        features=("tma", "cluster") if tile.cluster > 1 else ("tma",),
    )


def _decode_smem(tile: DecodeTile) -> int:
    """Mirrors gemm_4bit/decode_plan.h: barriers, nested code, exchange, partial sums, byte table, ring, slack."""
    quads = tile.warps_n * tile.mb // 8 * 32
    slots = 4 if tile.mb == 8 else 3
    sums = (4 + slots * tile.warps_k) * quads * 16
    return 2 * KIB + sums + 32 * KIB * ((tile.lut > 0) + (tile.lut > 4)) + tile.ring_kb * KIB + 512


def _decode_contradictions(tile: DecodeTile) -> Iterator[str]:
    if tile.mb % 8 or tile.mb > 32:
        yield f"mb is {tile.mb}; 8, 16, 24 or 32 is expected"
    if tile.warps_k * tile.warps_n % 4:
        yield f"{tile.warps_k * tile.warps_n} warps multiply; a multiple of 4 is expected"
    if tile.per_sm > tile.occupancy:
        yield f"per_sm {tile.per_sm} is more than occupancy {tile.occupancy}"
    part = tile.kb * tile.warps_k
    codes = -(-part * 32 // 128) * 128 + 32
    scales = (-(-(part + 1) * 4 // 16) * 16 + 16) | 16  # fp32 per 64; the launch refuses finer ones that do not fit
    stage = 16 * tile.warps_n * (codes + scales)
    if 2 * stage > tile.ring_kb * KIB:
        yield f"ring_kb {tile.ring_kb} does not hold 2 stages of {stage} bytes"
    if tile.mb >= 16 and tile.occupancy == 1:
        yield from _decode_chunks_contradict(tile)


def _decode_chunks_contradict(tile: DecodeTile) -> Iterator[str]:
    """Of the activations of a block, which come through shared memory from the sums of the warps on."""
    chunks = (tile.kb // 4 if tile.kb % 4 == 0 else 1) * tile.warps_k
    if chunks > 32:
        yield f"kb {tile.kb} and warps_k {tile.warps_k} make {chunks} chunks of activations; at most 32 are expected"
    received = 4 * tile.warps_n * tile.mb // 8 * 512
    needed = received + tile.mb * 128 * tile.kb * tile.warps_k
    free = _decode_smem(tile) - 2 * KIB - 512
    if needed > free:
        yield f"ring_kb {tile.ring_kb} leaves {free} B for {needed} B of activations and sums received"


def _decode_requires(tile: DecodeTile) -> tuple[str, ...]:
    return "K % 64 == 0", f"M <= {tile.mb}", f"K <= {64 * tile.kb * tile.warps_k * tile.cluster}"


@dataclass(frozen=True)
class _Tcgen05Format:
    """Sizes per operand format, in bytes unless said otherwise."""

    scale_bytes: int
    """Scale factors of a row of one stage."""
    epilogue_buffers: int
    """Output tiles in flight per stacked tile; each is 128 x 32 bf16."""
    alignment: int
    """Barriers, and padding that the alignment of the rings may take."""
    k: int
    """Elements of K in a stage: 128 bytes of a row."""


_TCGEN05_FORMATS = {"nvfp4": _Tcgen05Format(16, 2, 2 * KIB, 256), "fp8": _Tcgen05Format(0, 1, 1 * KIB, 128)}
_ROW_BYTES = 128
_OVERLAP_COLUMNS = 64
_OUTPUT_TILE = 128 * 32 * 2
_TMEM_COLUMNS = 512
"""Columns of an ordinary allocation; more need the exclusive one."""
_SMEM_BYTES = 232_448
"""Opt-in shared memory of the chips that have tcgen05; more needs the oversized mode."""


def _tcgen05_needs(tile: Tcgen05Tile) -> Needs:
    stacked = _stacked(tile)
    return Needs(
        smem_bytes=_tcgen05_smem(tile),
        threads=128 * stacked + 64 + (32 if tile.rings == "split" else 0),
        tmem_columns=_tcgen05_columns(tile),
        cluster=tile.cluster,
        features=tuple(_tcgen05_features(tile)),
    )


def _stacked(tile: Tcgen05Tile) -> int:
    return 2 if tile.pair == "2x1" else 1


def _tcgen05_columns(tile: Tcgen05Tile) -> int:
    """Accumulators, and scales twice or thrice, so that no copy overtakes a running MMA."""
    stacked = _stacked(tile)
    sets = 3 * 2 if tile.k_bytes == 48 else 2
    scales = sets * (8 * stacked + max(tile.nt, 128) // 16) if _TCGEN05_FORMATS[tile.dtype].scale_bytes else 0
    shared = _OVERLAP_COLUMNS if tile.overlap else 0
    return tile.accumulators * stacked * tile.nt - shared + scales


@dataclass(frozen=True)
class Tcgen05Stage:
    """One stage of the ring of one CTA: elements of K, and bytes of each operand with its scales."""

    k: int
    bytes_a: int
    bytes_b: int


def tcgen05_stage(tile: Tcgen05Tile) -> Tcgen05Stage:
    """Per CTA. Half of the columns of B lie in each CTA, but every CTA needs the scales of all."""
    sizes, stacked = _TCGEN05_FORMATS[tile.dtype], _stacked(tile)
    return Tcgen05Stage(
        k=sizes.k,
        bytes_a=stacked * 128 * (_ROW_BYTES + sizes.scale_bytes),
        bytes_b=tile.nt // 2 * _ROW_BYTES + max(tile.nt, 128) * sizes.scale_bytes,
    )


def _tcgen05_smem(tile: Tcgen05Tile) -> int:
    sizes, stage = _TCGEN05_FORMATS[tile.dtype], tcgen05_stage(tile)
    epilogue = _stacked(tile) * sizes.epilogue_buffers * _OUTPUT_TILE
    return tile.stages * (stage.bytes_a + stage.bytes_b) + epilogue + sizes.alignment


def _tcgen05_features(tile: Tcgen05Tile) -> Iterator[str]:
    yield "tma"
    if tile.cluster > 1:
        yield "cluster"
    if tile.k_bytes > 32:
        yield "mma_k64" if tile.k_bytes == 64 else "mma_k96"
    if tile.collector_b:
        yield "collector_b"
    if tile.early_a_release:
        yield "early_a_release"
    if tile.multicast_32b:
        yield "multicast_32b"
    if _tcgen05_columns(tile) > _TMEM_COLUMNS:
        yield "tmem_exclusive"
    if _tcgen05_smem(tile) > _SMEM_BYTES:
        yield "smem_oversized"


def _tcgen05_contradictions(tile: Tcgen05Tile) -> Iterator[str]:
    if tile.early_a_release and tile.rings != "split":
        yield "early_a_release needs `rings: split`: A's slots are freed before B's"
    if tile.collector_b and tile.pair != "2x1":
        yield "collector_b needs `pair: 2x1`: what it keeps is the B that two stacked tiles share"
    if tile.cluster % 2:
        yield f"cluster is {tile.cluster}; CTAs work in pairs, so an even number is expected"
    if tile.stages < 2:
        yield "a ring has at least 2 stages"
    if tile.k_bytes == 48 and tile.dtype != "nvfp4":
        yield "k_bytes 48 is 96 elements of nvfp4; fp8 has no such step"
    if tile.k_bytes == 48 and (tile.pair != "1x1" or tile.rings != "joint"):
        yield "k_bytes 48 needs `pair: 1x1` and `rings: joint`: its steps go through three stages at a time"
    if tile.nt == 64 and tile.dtype == "nvfp4" and tile.k_bytes != 32:
        yield "nt 64 of nvfp4 needs `k_bytes: 32`: the scales of 64 columns stand apart from the next ones along K"
    if tile.overlap and (tile.pair != "1x1" or tile.nt != 256 or tile.accumulators != 2):
        yield "overlap needs `pair: 1x1`, `nt: 256` and `accumulators: 2`: it is two accumulators that share columns"
    if tile.promote and (tile.dtype != "fp8" or tile.pair != "1x1" or tile.nt != 128 or tile.accumulators != 2):
        yield "promote is for fp8, and needs `pair: 1x1`, `nt: 128` and `accumulators: 2`"


def _tcgen05_requires(tile: Tcgen05Tile) -> tuple[str, ...]:
    if tile.dtype == "nvfp4":
        return ("K % 64 == 0",)
    return ("K % 16 == 0",) if tile.promote else ("K % 16 == 0", "scaling != block")


_TCGEN05 = EngineNeeds(_tcgen05_needs, _tcgen05_contradictions, _tcgen05_requires)

ENGINE_NEEDS: dict[type[TileBase], EngineNeeds] = {
    SimtTile: EngineNeeds(_simt_needs, _simt_contradictions, lambda tile: ("layout == packed",)),
    MmaTile: EngineNeeds(_mma_needs, _mma_contradictions, lambda tile: ("K % 32 == 0", "layout == packed")),
    WgmmaTile: EngineNeeds(_wgmma_needs, _wgmma_contradictions, lambda tile: ("K % 64 == 0", "blocksize != 32")),
    DecodeTile: EngineNeeds(_decode_needs, _decode_contradictions, _decode_requires),
    Tcgen05Tile: _TCGEN05,
    Tcgen05Fp8Tile: _TCGEN05,
    Tcgen05Nvfp4Tile: _TCGEN05,
    **FP8_NEEDS,
}
"""Formulas by tile model: a family and an engine name the model (`models/tiles.py`)."""
