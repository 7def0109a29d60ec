"""What a tile needs of an arch, computed from its fields, and what an arch lacks for it."""

from __future__ import annotations

import re
from bisect import bisect_left

from .block_needs import Needs
from .engine_needs import ENGINE_NEEDS, needs_stated
from .ir import Tile
from .models import ArchProfile, TileBase

MAX_THREADS = 1024
"""Threads of a block on every arch."""
MAX_REGISTERS = 255
"""Registers of a thread on every arch."""
_SHAPE_IN_ID = re.compile(r"\d+x\d+-\d+")
WARP_REGISTERS = 256
"""Registers are given to a warp in pieces of this many."""
OVERSIZED = "smem_oversized"
EXCLUSIVE = "tmem_exclusive"


def needs(tile: Tile) -> Needs:
    """Resources of one block. Engines without a formula state their shared memory themselves."""
    return _needs(tile.model)


def _needs(model: TileBase) -> Needs:
    entry = ENGINE_NEEDS.get(type(model))
    return entry.needs(model) if entry else needs_stated(model)


def contradictions(tile: Tile) -> tuple[str, ...]:
    """What no arch could mend: fields of the tile that exclude each other, or its id."""
    entry = ENGINE_NEEDS.get(type(tile.model))
    found = list(entry.contradictions(tile.model)) if entry else []
    stated = _SHAPE_IN_ID.search(tile.id)
    shape = "{mt}x{nt}-{kc}".format_map({"mt": "", "nt": "", "kc": "", **tile.fields})
    if stated and {"mt", "nt", "kc"} <= set(tile.fields) and stated[0] != shape:
        found.append(f"the id says {stated[0]}, the fields {shape}")
    if entry:
        threads = needs(tile).threads
        if threads is not None and threads > MAX_THREADS:
            found.append(f"{threads} threads in a block, {MAX_THREADS} are the most")
    return tuple(found)


def required_features(tile: Tile) -> tuple[str, ...]:
    """Features an arch must have: those the tile names and those that follow from its fields."""
    return tuple(dict.fromkeys((*tile.model.needs, *needs(tile).features)))


def is_legal(arch: ArchProfile, tile: Tile) -> bool:
    """Whether the arch has everything that a block of the tile needs."""
    return not shortfalls(arch, tile)


def shortfalls(arch: ArchProfile, tile: Tile) -> tuple[str, ...]:
    """What the arch lacks for the tile, each with its arithmetic; empty when the tile is legal there."""
    if tile.engine not in arch.engines:
        return (f"its engine {tile.engine} does not exist there (engines: {', '.join(arch.engines)})",)
    need = needs(tile)
    found = [f"it needs the feature {f}, which the arch lacks" for f in _missing(arch, tile)]
    found += _smem(arch, tile, need)
    found += _registers(arch, need)
    found += _tmem(arch, tile, need)
    if need.cluster > arch.max_cluster:
        found.append(f"its cluster has {need.cluster} blocks, the limit is {arch.max_cluster}")
    return tuple(found)


def smem_limit(arch: ArchProfile, tile: Tile) -> int:
    """Greatest dynamic shared memory a block of this tile may ask for, in bytes."""
    if OVERSIZED in required_features(tile) and OVERSIZED in arch.features and arch.smem_oversized_bytes:
        return arch.smem_oversized_bytes
    return arch.smem_optin_bytes


def tmem_allocation(arch: ArchProfile, tile: Tile) -> int | None:
    """Columns of tensor memory a block allocates, or None when they do not fit.

    An ordinary allocation is a power of two of at least 32 columns; an exclusive one is any count.
    """
    if arch.tmem is None:
        return None
    columns = needs(tile).tmem_columns
    if EXCLUSIVE in required_features(tile) and EXCLUSIVE in arch.features and arch.tmem.exclusive_columns:
        return columns if columns <= arch.tmem.exclusive_columns else None
    rounded = max(32, 1 << (columns - 1).bit_length())
    return rounded if rounded <= arch.tmem.columns else None


def _missing(arch: ArchProfile, tile: Tile) -> list[str]:
    return [f for f in required_features(tile) if f not in arch.features]


def _smem(arch: ArchProfile, tile: Tile, need: Needs) -> list[str]:
    limit = smem_limit(arch, tile)
    over = need.smem_bytes - limit
    if over <= 0:
        return []
    kind = "oversized" if limit != arch.smem_optin_bytes else "opt-in"
    text = f"it needs {need.smem_bytes} B of shared memory, the {kind} limit is {limit} B, over by {over} B"
    oversized = arch.smem_oversized_bytes or 0
    if kind == "opt-in" and OVERSIZED in arch.features and need.smem_bytes <= oversized:
        text += f"; the oversized mode ({oversized} B) would hold it if `needs` named {OVERSIZED}"
    elif fitting := _stages_that_fit(tile, limit):
        text += f"; stages {fitting} would fit"
    return [text]


def _stages_that_fit(tile: Tile, limit: int) -> int | None:
    stages = getattr(tile.model, "stages", None)
    if type(tile.model) not in ENGINE_NEEDS or not isinstance(stages, int):
        return None

    def over(count: int) -> bool:
        return _needs(tile.model.model_copy(update={"stages": count})).smem_bytes > limit

    fitting = bisect_left(range(stages), True, lo=2, key=over) - 1 if stages > 2 else 0
    return fitting if fitting >= 2 else None


def _registers(arch: ArchProfile, need: Needs) -> list[str]:
    if need.threads is None:
        return []
    found = []
    if need.threads > arch.max_threads_per_sm:
        found.append(f"it has {need.threads} threads, an SM holds {arch.max_threads_per_sm}")
    if need.accumulators > MAX_REGISTERS:
        found.append(f"its accumulators alone take {need.accumulators} registers a thread, of {MAX_REGISTERS}")
    warps = -(-(need.threads - need.idle_threads) // 32)
    total = warps * -(-need.accumulators * 32 // WARP_REGISTERS) * WARP_REGISTERS
    if total > arch.registers_per_sm:
        found.append(f"its accumulators alone take {total} registers, an SM has {arch.registers_per_sm}")
    return found


def _tmem(arch: ArchProfile, tile: Tile, need: Needs) -> list[str]:
    if not need.tmem_columns or tmem_allocation(arch, tile) is not None:
        return []
    if arch.tmem is None:
        return [f"it needs {need.tmem_columns} columns of tensor memory, the arch has none"]
    text = f"it needs {need.tmem_columns} columns of tensor memory, an ordinary allocation has {arch.tmem.columns}"
    exclusive = arch.tmem.exclusive_columns
    if exclusive is None:
        return [text + " and there is no exclusive one"]
    if EXCLUSIVE in required_features(tile):
        return [text + f" and the exclusive one {exclusive}"]
    return [text + f"; an exclusive one ({exclusive}) needs {EXCLUSIVE} in `needs`"]
