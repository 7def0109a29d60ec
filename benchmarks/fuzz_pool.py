"""Operands of random calls: views of a few large buffers, and weights that are quantised once."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import torch

ROWS = [0, 1, 1, 2, 4, 8, 16, 17, 32, 64, 65, 128, 256, 300, 512]
SIZE = 32 << 20
"""Elements of a buffer of which calls take views."""
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass
class Outcome:
    """What one call gave: its error over the limit (a scalar on the device; None if there was nothing to compare), what
    was called, and words that are counted."""

    ratio: torch.Tensor | None
    about: str
    words: tuple[str, ...]


@dataclass
class Poison:
    """Fills what the allocator hands out next, and counts how often an output came to lie there."""

    device: torch.device
    hits: int = 0
    calls: int = 0
    _at: set[int] = field(default_factory=set)

    def spread(self, *outputs: tuple[tuple[int, ...], torch.dtype]) -> None:
        """NaN, or bytes of ones, where tensors of these shapes and types will lie."""
        blocks = [torch.empty(shape, dtype=dtype, device=self.device) for shape, dtype in outputs for _ in (0, 1)]
        for block in blocks:
            block.reshape(-1).view(torch.uint8).fill_(255)
        self._at = {block.data_ptr() for block in blocks if block.numel()}

    def look(self, out: torch.Tensor) -> None:
        """Notes whether an output lies where poison was."""
        if out.numel():
            self.calls += 1
            self.hits += out.data_ptr() in self._at


class Ahead:
    """Parts of a weight for one call: as they are, told to be static, or copies written directly ahead of it."""

    def __init__(self, rng: random.Random, *parts: torch.Tensor) -> None:
        self.static = rng.random() < 0.5
        self._parts = parts
        self._used = parts if self.static else tuple(_room(part) for part in parts)

    def write(self) -> tuple[torch.Tensor, ...]:
        """What the call takes; nothing else may be launched between the two."""
        if not self.static:
            for used, part in zip(self._used, self._parts, strict=True):
                used.copy_(part)
        return self._used


def _room(part: torch.Tensor) -> torch.Tensor:
    """Memory full of NaN or ones with the strides and the alignment of a tensor."""
    shift = part.data_ptr() % 16 // part.element_size()
    span = 1 + sum((n - 1) * stride for n, stride in zip(part.shape, part.stride(), strict=True)) if part.numel() else 0
    memory = torch.empty(shift + span, dtype=part.dtype, device=part.device)
    memory.view(torch.uint8).fill_(255)
    return memory.as_strided(part.shape, part.stride(), shift)


def row_count(rng: random.Random) -> int:
    """A number of rows, mostly at the edge of a tile."""
    if rng.random() < 0.03:
        return rng.choice([1000, 1024, 2047])
    return max(0, rng.choice(ROWS) + rng.randint(-1, 1))


def near(rng: random.Random, choices: list[int], by: int = 3) -> int:
    """One of the choices, or a few beside it; half of the time a multiple of 16."""
    size = max(1, rng.choice(choices) + rng.randint(-by, by))
    return -(-size // 16) * 16 if rng.random() < 0.5 else size


def view(rng: random.Random, flat: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """[rows, columns] of a flat buffer: mostly dense and aligned, else padded, at an odd offset, or transposed."""
    kind = rng.random()
    pad = rng.randint(1, 24) if 0.5 <= kind < 0.65 else 16 * rng.randint(1, 3) if 0.65 <= kind < 0.75 else 0
    need = max(1, rows) * (columns + pad)
    start = rng.randrange(max(1, flat.numel() - need))
    if not 0.75 <= kind < 0.9:
        start -= start % 16
    strides = (1, max(rows, 1)) if kind >= 0.9 else (columns + pad, 1)
    return flat.as_strided((rows, columns), strides, start)


def crooked(rng: random.Random, tensor: torch.Tensor, odds: float = 0.1) -> torch.Tensor:
    """The same values, now and then at an odd address or with gaps between the elements."""
    kind = rng.random()
    if kind < odds / 2 and tensor.numel():
        offset = rng.randint(1, 7)
        room = tensor.new_empty(tensor.numel() + offset)[offset:].view(tensor.shape)
        return room.copy_(tensor)
    if kind < odds and tensor.dim() == 1 and tensor.numel():
        return tensor.repeat_interleave(2)[::2]
    return tensor


def wild(count: int, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """fp32 values of all magnitudes, zeros, denormals, NaN and infinities."""
    values = torch.randn(count, generator=generator, device=device)
    exponent = torch.randint(-12, 8, (count // 64 + 1,), generator=generator, device=device).float()
    values *= torch.exp2(exponent.repeat_interleave(64)[:count] * 2)
    where = torch.rand(count, generator=generator, device=device)
    for limit, value in ((2e-5, math.nan), (4e-5, math.inf), (6e-5, -math.inf), (0.01, 0.0), (0.012, -0.0)):
        values[(where < limit) & (where >= limit / 2)] = value
    values[(where > 0.99) & (where < 0.991)] *= 1e-38
    values[count // 3 : count // 3 + 40_000] = 0.0
    return values


def wild_and_calm(rng: random.Random, count: int, device: torch.device) -> dict[tuple[torch.dtype, str], torch.Tensor]:
    """Buffers of each type for a quantiser: `wild` values, and `calm` ones of a normal distribution."""
    generator = torch.Generator(device).manual_seed(rng.randrange(1 << 30))
    values = wild(count, device, generator)
    calm = torch.randn(count, generator=generator, device=device)
    return {(d, kind): v.to(d) for d in DTYPES for kind, v in (("wild", values), ("calm", calm))}
