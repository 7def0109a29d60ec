"""Throughput of a tile on a chip, and what limits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..models import Figures
from .pipeline import Pipeline
from .shape import TileShape
from .traffic import Traffic, traffic

STORE_BYTES_PER_CLOCK = 64
"""An SM's path to L2 when it writes."""
EPILOGUE_LATENCY_NS = 600.0
"""First tcgen05.ld to last TMA store of a tile, beyond the bytes themselves: a store's way to L2 and back."""
SPREAD = 0.2
"""Part of a load's latency that varies from load to load."""
EARLY_A = 0.5
"""A is read by the first of the two steps of a stage, so its slot is free half-way."""
RESOLUTION = 0.03
"""Predictions nearer than this are the same to the model."""


@dataclass(frozen=True)
class Prediction:
    """Of one problem. `bound` names what the time would shrink with."""

    shape: TileShape
    tflops: float
    ceiling_tflops: float
    """All SMs multiplying all the time."""
    microseconds: float
    waves: int
    dram_gb_s: float
    bound: str
    smem_bytes: int = 0


def predict(
    shape: TileShape, problem: tuple[int, int, int], chip: Figures, sms: int, smem_bytes: int = 0
) -> Prediction:
    """Time of an (M, N, K) GEMM, persistent over `sms` SMs, ring and rasterisation as in `shape`."""
    m, n, k = problem
    clock = chip.clock_mhz / 1000
    moved = traffic(shape, problem, sms, chip.l2_mb * 1e6)
    rate = chip.mma_flops_per_clock[shape.dtype] * min(1.0, shape.step_bytes / chip.mma_step_bytes)
    steps = -(-k // shape.k)
    times = {
        "tensor cores": shape.flops / (rate * clock),
        "L2": _transfer(shape, chip) / clock,
        "DRAM": moved.dram_bytes / (steps * chip.dram_gb_s),
    }
    pipeline = Pipeline(
        stages=shape.stages,
        steps=steps,
        multiply=times["tensor cores"],
        latency_a=_latency(chip, moved.miss_a),
        latency_b=_latency(chip, moved.miss_b),
        transfer=max(times["L2"], times["DRAM"]),
        epilogue=0.0 if shape.buffered else _epilogue(shape, clock),
        spread=SPREAD,
        early_a=EARLY_A if shape.early_a else 1.0,
    )
    tile_ns = pipeline.tile_time()
    nanoseconds = moved.waves * tile_ns
    flops = 2.0 * m * n * k
    return Prediction(
        shape=shape,
        tflops=flops / nanoseconds / 1e3,
        ceiling_tflops=sms * rate * clock / 1e3,
        microseconds=nanoseconds / 1e3,
        waves=moved.waves,
        dram_gb_s=moved.dram_bytes / tile_ns,
        bound=_bound(times, tile_ns / steps, moved, sms),
        smem_bytes=smem_bytes,
    )


def rank(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Slowest first. What the model cannot tell apart is ordered by shared memory: a stage without gain is waste."""
    best_last = sorted(predictions, key=lambda p: p.tflops)
    ordered: list[Prediction] = []
    for candidate in best_last:
        position = len(ordered)
        while (
            position
            and _same(ordered[position - 1], candidate)
            and (ordered[position - 1].smem_bytes < candidate.smem_bytes)
        ):
            position -= 1
        ordered.insert(position, candidate)
    return ordered


def _same(one: Prediction, other: Prediction) -> bool:
    return abs(one.tflops / other.tflops - 1) < RESOLUTION


def _transfer(shape: TileShape, chip: Figures) -> float:
    """Clocks of a stage on its way: out of L2, where a cluster reads A once, and into shared memory."""
    out_of_l2 = (shape.bytes_a / shape.pairs + shape.bytes_b) / chip.l2_bytes_per_clock
    return max(out_of_l2, (shape.bytes_a + shape.bytes_b) / chip.smem_bytes_per_clock)


def _latency(chip: Figures, missed: float) -> float:
    return chip.load_ns + missed * (chip.dram_load_ns - chip.load_ns)


def _epilogue(shape: TileShape, clock: float) -> float:
    return EPILOGUE_LATENCY_NS + shape.bytes_out / (STORE_BYTES_PER_CLOCK * clock)


def _bound(times: dict[str, float], step_ns: float, moved: Traffic, sms: int) -> str:
    name = max(times, key=lambda k: times[k])
    if moved.tiles < 0.9 * moved.waves * max(1, sms // 2):
        return "waves"
    return name if times[name] > 0.9 * step_ns else "ring"
