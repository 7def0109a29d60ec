"""Problems of a family with their operands, reference results and bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .library import PADDING, Library

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

DTYPES = {"f16": 0, "bf16": 1, "f32": 2}
HALF_STEP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24}
"""Relative error of one rounding to nearest (bf16 keeps 8 bits of significand)."""


@dataclass(frozen=True)
class Problem:
    """Sizes and words of one problem."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    values: str = "random"  # or "exact": sums are exact in fp32, so every order of adding gives the same
    seed: int = 0
    words: Mapping[str, str | int] = field(default_factory=dict)

    def word(self, name: str, default: str | int) -> Any:
        return self.words.get(name, default)

    def __str__(self) -> str:
        more = "".join(f" {name}={value}" for name, value in self.words.items())
        return f"{self.m},{self.n},{self.k} {self.dtype}{'' if self.values == 'random' else ' ' + self.values}{more}"


@dataclass(frozen=True)
class Difference:
    """The worst element against the reference."""

    worst: float  # error over bound; at most 1 is right
    at: tuple[int, ...]
    got: float
    expected: float

    def __str__(self) -> str:
        return f"out{list(self.at)} is {self.got:.6g}, expected {self.expected:.6g} ({self.worst:.3g} times the bound)"


@dataclass
class Case:
    """Operands in device memory and what to expect of a launch."""

    arguments: dict[str, int]
    reset: Callable[[], None]
    result: Callable[[], Array]
    expected: Array
    bound: Array
    work: Array  # sums of the products' magnitudes
    exact: bool
    written: Array  # elements that must have been written

    def compare(self) -> Difference:
        got = np.where(self.written, self.result().astype(np.float64), self.expected)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.abs(got - self.expected) / np.maximum(self.bound, 1e-30)
        ratio[(got == self.expected) | (np.isnan(got) & np.isnan(self.expected))] = 0.0
        ratio[np.isnan(ratio)] = np.inf
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
        return Difference(float(ratio[at]), at, float(got[at]), float(self.expected[at]))


def narrow(values: Array, dtype: str) -> Array:
    """Values in a 16- or 32-bit type, as bytes of that type (bf16 as uint16)."""
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    if dtype == "f32":
        return values.astype(np.float32)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def wide(data: Array, dtype: str) -> Array:
    """The inverse of `narrow`, in fp64."""
    if dtype == "bf16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return data.astype(np.float64)


def storage(dtype: str) -> Any:
    """The numpy type that holds a dtype's bytes."""
    return {"f16": np.float16, "bf16": np.uint16, "f32": np.float32}[dtype]


def padded(rows: Array, width: int) -> Array:
    """Rows laid out `width` elements apart; what is between is masked: nothing may read it."""
    result = np.ma.zeros((rows.shape[0], width), dtype=rows.dtype)
    result[:, : rows.shape[1]] = rows
    result[:, rows.shape[1] :] = np.ma.masked
    return result


def output(
    library: Library, rows: int, columns: int, pitch: int, dtype: str
) -> tuple[int, Callable[[], None], Callable[[], Array]]:
    """An output matrix: its address, a way to make it unwritten, and to read it."""
    kind = np.dtype(storage(dtype))
    count = ((rows - 1) * pitch + columns) * kind.itemsize
    address = library.allocate("out", count, 256)

    def reset() -> None:
        library.forget(address, count)
        if pitch != columns:
            for row in range(rows - 1):
                gap = (pitch - columns) * kind.itemsize
                library.mark(address + (row * pitch + columns) * kind.itemsize, gap, PADDING, 0)

    def result() -> Array:
        flat = library.download(address, ((rows - 1) * pitch + columns,), kind)
        full = np.concatenate([flat, np.zeros(pitch - columns, flat.dtype)]).reshape(rows, pitch)
        return wide(np.ascontiguousarray(full[:, :columns]), dtype)

    return address, reset, result
