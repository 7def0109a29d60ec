"""One CTA's ring of stages, event by event: load, multiply, release, and the epilogue between tiles."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Pipeline:
    """Times in ns. `spread` is the part of a load's latency that varies (exponentially distributed)."""

    stages: int
    steps: int
    """Stages of K in one tile."""
    multiply: float
    """The MMA of one stage."""
    latency_a: float
    latency_b: float
    transfer: float
    """One stage through the narrowest link on its way, at the CTA's share of it."""
    epilogue: float
    """The part of an epilogue that the next tile must wait for."""
    spread: float
    early_a: float = 1.0
    """Part of `multiply` after which A's slot is free; B's is free at its end."""
    seed: int = 0

    def tile_time(self, tiles: int = 3) -> float:
        """Mean time of a tile after the first."""
        chance = random.Random(self.seed)
        free_a = [0.0] * self.stages
        free_b = [0.0] * self.stages
        link = tensor = first = 0.0
        for tile in range(tiles):
            for step in range(self.steps):
                slot = (tile * self.steps + step) % self.stages
                arrived = max(
                    free_a[slot] + self._latency(self.latency_a, chance),
                    free_b[slot] + self._latency(self.latency_b, chance),
                )
                link = max(link, arrived) + self.transfer
                begin = max(link, tensor)
                tensor = begin + self.multiply
                free_a[slot] = begin + self.early_a * self.multiply
                free_b[slot] = tensor
            tensor += self.epilogue
            if tile == 0:
                first = tensor
        return (tensor - first) / (tiles - 1)

    def _latency(self, mean: float, chance: random.Random) -> float:
        return mean * (1 - self.spread + self.spread * chance.expovariate(1.0))
