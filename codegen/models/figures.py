"""Throughput figures of a chip, for predictions."""

from __future__ import annotations

from pydantic import model_validator

from .base import Positive, SpecModel, Text, Word


class Figures(SpecModel):
    """What a prediction needs to know of a chip. Figures nobody publishes are named in `assumed`."""

    clock_mhz: Positive
    """SM clock that a long GEMM sustains."""
    mma_flops_per_clock: dict[Word, Positive]
    """Dense operations of one SM per clock, by operand format, at the widest step along K."""
    mma_step_bytes: Positive = 32
    """Bytes along K of the widest MMA step; a narrower one takes as long."""
    dram_gb_s: Positive
    """Memory bandwidth, GB/s."""
    l2_mb: Positive
    """L2 capacity, MB."""
    l2_bytes_per_clock: Positive
    """What L2 delivers per SM and clock when all SMs read."""
    smem_bytes_per_clock: Positive
    """What bulk copies write into the shared memory of one SM per clock."""
    load_ns: Positive
    """Latency of a bulk load that hits L2, under load."""
    dram_load_ns: Positive
    """Latency of a bulk load from memory, under load."""
    assumed: tuple[Word, ...] = ()
    """Figures that are assumptions, by name."""
    sources: tuple[Text, ...]
    """Where the others come from."""

    @model_validator(mode="after")
    def _assumed_are_figures(self) -> Figures:
        for name in self.assumed:
            if name in ("assumed", "sources") or name not in type(self).model_fields:
                raise ValueError(f"`assumed` names '{name}', which is no figure")
        return self
