"""A card that exists in a file only: known true times, known noise, known faults. For tests and rehearsals."""

from __future__ import annotations

import hashlib
import random
from typing import Annotated, Literal

from pydantic import Field

from ..models.base import Count, SpecModel, Text
from .bench import Check, Mode
from .records import Cell, Device, Finite, Method, State

Fault = Literal["early-exit", "late-exit", "wrong", "zero", "nan"]


class Effect(SpecModel):
    """Factor on a candidate's time in the cells that it covers; the last effect that covers a cell counts."""

    candidate: Text
    factor: Finite
    M: tuple[Count, Count] = (0, 2**62)
    N: tuple[Count, Count] = (0, 2**62)
    K: tuple[Count, Count] = (0, 2**62)
    pass_index: Count | None = None
    """Only in this pass."""

    def covers(self, cell: Cell, index: int) -> bool:
        inside = all(low <= v <= high for v, (low, high) in ((cell.M, self.M), (cell.N, self.N), (cell.K, self.K)))
        return inside and self.pass_index in (None, index)


class World(SpecModel):
    """True times are `base_us` times the factor of the last effect that covers the cell, 1 without one."""

    device: Device
    seed: Count = 1
    base_us: Finite = 20.0
    effects: tuple[Effect, ...] = ()
    jitter: Annotated[float, Field(ge=0)] = 0.003
    """Standard deviation of a single time."""
    drift: Annotated[float, Field(ge=0)] = 0.0
    """Slow change of everything over a pass, up to this much, of another sign and size in every pass."""
    bimodal: Annotated[float, Field(ge=0)] = 0.0
    """Everything slows down by this much whenever the clock is in its other state, which lasts some rounds."""
    faults: dict[Text, Fault] = {}


class Synthetic:
    """A backend; `index` is the number of the pass."""

    def __init__(self, world: World, index: int, stage: str = "recheck") -> None:
        self.world, self.index, self.stage = world, index, stage

    def device(self) -> Device:
        return self.world.device.model_copy(update={"synthetic": True})

    def open(self, cell: Cell, method: Method, mode: Mode) -> SyntheticBench:
        return SyntheticBench(self.world, cell, self.index, f"{self.stage}/{mode}")


class SyntheticBench:
    def __init__(self, world: World, cell: Cell, index: int, salt: str) -> None:
        self.world, self.cell, self.index = world, cell, index
        digest = hashlib.sha256(f"{world.seed}/{cell.key()}/{index}/{salt}".encode()).digest()
        self.random = random.Random(digest)
        self.slope = self.random.uniform(-1, 1) * world.drift
        self.calls, self.slow, self.checks = 0, False, 0

    def check(self, candidate: str) -> Check:
        self.checks += 1
        fault = self.world.faults.get(candidate)
        if fault == "early-exit" or (fault == "late-exit" and self.calls):
            return Check(1.0, self.cell.M * self.cell.N)
        return Check(0.5 if fault == "wrong" else 0.001, 0)

    def time(self, candidate: str) -> float:
        self.calls += 1
        fault = self.world.faults.get(candidate)
        if fault in ("zero", "nan"):
            return 0.0 if fault == "zero" else float("nan")
        if self.random.random() < 0.02:
            self.slow = not self.slow
        common = (1 + self.slope * min(1.0, self.calls / 300)) * (1 + self.world.bimodal * self.slow)
        return self.true_us(candidate) * common * max(0.5, self.random.gauss(1, self.world.jitter))

    def true_us(self, candidate: str) -> float:
        """The time without noise."""
        found = [e for e in self.world.effects if e.candidate == candidate and e.covers(self.cell, self.index)]
        return self.world.base_us * (found[-1].factor if found else 1.0)

    def state(self) -> State:
        return State(sm_mhz=1500.0 if self.slow else 1980.0)

    def close(self) -> None:
        pass
