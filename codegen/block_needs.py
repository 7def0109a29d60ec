"""What a block of a tile needs of an SM, and the functions that say it of a tile model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

KIB = 1024


@dataclass(frozen=True)
class Needs:
    """Resources of one block of a tile."""

    smem_bytes: int
    """Dynamic shared memory."""
    threads: int | None = None
    """Threads; None where the tile does not say."""
    registers: int | None = None
    """Estimate per thread: accumulators, fragments and addresses. The compiler's report is the truth."""
    accumulators: int = 0
    """32-bit accumulators per thread: a lower bound of its registers."""
    idle_threads: int = 0
    """Threads that hold none and leave their registers to the others."""
    tmem_columns: int = 0
    """Columns of tensor memory in use, before rounding."""
    cluster: int = 1
    """Blocks of a cluster."""
    features: tuple[str, ...] = ()
    """Features that follow from the fields."""


@dataclass(frozen=True)
class EngineNeeds:
    """`needs` is the formula; `contradictions` mirrors the kernel's static_asserts."""

    needs: Callable[[Any], Needs]
    contradictions: Callable[[Any], Iterator[str]]
    requires: Callable[[Any], tuple[str, ...]] = lambda tile: ()
    """Conjuncts that hold of every problem the kernel takes; what it refuses otherwise."""
