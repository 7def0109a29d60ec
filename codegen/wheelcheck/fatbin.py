"""Reads the container of device code in a library: which images, and how many bytes each takes.

The layout is not documented by NVIDIA; it was read from what nvcc 13 writes. A container that does not fit it is an
error here, never a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

MAGIC = 0xBA55ED50
_KINDS: dict[int, Literal["ptx", "elf"]] = {1: "ptx", 2: "elf"}
_ARCH_SPECIFIC, _FAMILY_SPECIFIC = 0x100000, 0x200000
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHI")


class FatbinError(ValueError):
    """The bytes are no container of device code as nvcc 13 writes it."""


@dataclass(frozen=True)
class Entry:
    """One image of one object file. `stored` is what it takes in the library, `size` what it unpacks to."""

    kind: Literal["ptx", "elf"]
    image: str
    stored: int
    size: int

    @property
    def compressed(self) -> bool:
        return self.stored < self.size


def read_entries(section: bytes) -> list[Entry]:
    """The entries of a `.nv_fatbin` section, in order. FatbinError when it does not parse."""
    try:
        return list(_containers(section))
    except struct.error:
        raise FatbinError("the container of device code is cut short") from None


def _containers(section: bytes) -> Iterator[Entry]:
    position = 0
    while position + _HEADER.size <= len(section):
        magic, version, header, size = _HEADER.unpack_from(section, position)
        if magic == 0:
            position += 8
            continue
        if magic != MAGIC or version != 1:
            raise FatbinError(f"unknown container of device code (magic {magic:#x}, version {version})")
        position += header
        yield from _entries(section, position, position + size)
        position += size


def _entries(section: bytes, position: int, end: int) -> Iterator[Entry]:
    while position < end:
        kind, _, header, size, packed, _, _, _, number = _ENTRY.unpack_from(section, position)
        if kind not in _KINDS or header < 64:
            raise FatbinError(f"unknown kind {kind} of device code")
        flags, _, unpacked = struct.unpack_from("<QQQ", section, position + 40)
        prefix = "compute_" if _KINDS[kind] == "ptx" else "sm_"
        yield Entry(_KINDS[kind], f"{prefix}{number}{_suffix(flags)}", packed or size, unpacked or size)
        position += header + size


def _suffix(flags: int) -> str:
    if flags & _ARCH_SPECIFIC:
        return "a"
    return "f" if flags & _FAMILY_SPECIFIC else ""
