"""Just enough of ELF: what a shared library exports, needs, and holds in a section. 64-bit little-endian only."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

MACHINES = {62: "x86_64", 183: "aarch64"}
_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 14, 15, 29
_SHN_UNDEF, _STB_LOCAL, _STV_DEFAULT = 0, 0, 0


class ElfError(ValueError):
    """The bytes are no library that can be read here."""


@dataclass(frozen=True)
class Section:
    name: str
    offset: int
    size: int
    link: int


class Library:
    """A shared library in memory. ElfError from the constructor when it is not one."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if data[:6] != b"\x7fELF\x02\x01":
            raise ElfError("is not a 64-bit little-endian ELF file")
        try:
            self.machine = MACHINES.get(self._unpack("<H", 18)[0], "unknown")
            self.sections = self._read_sections()
        except struct.error:
            raise ElfError("is cut short") from None

    def _unpack(self, form: str, offset: int) -> tuple[int, ...]:
        return struct.unpack_from(form, self.data, offset)

    def _read_sections(self) -> list[Section]:
        (table,) = self._unpack("<Q", 40)
        size, count, names = self._unpack("<HHH", 58)
        rows = [self._unpack("<IIQQQQII", table + i * size) for i in range(count)]
        if not rows:
            raise ElfError("has no section table")
        strings = rows[names][4]
        return [Section(self._string(strings + row[0]), row[4], row[5], row[6]) for row in rows]

    def _string(self, offset: int) -> str:
        end = self.data.find(b"\0", offset)
        return self.data[offset:end].decode("utf-8", errors="replace")

    def section(self, name: str) -> Section | None:
        return next((section for section in self.sections if section.name == name), None)

    def contents(self, name: str) -> bytes:
        """Bytes of a section; empty when there is none."""
        section = self.section(name)
        return b"" if section is None else self.data[section.offset : section.offset + section.size]

    def _linked_strings(self, section: Section) -> int:
        return self.sections[section.link].offset

    def _dynamic(self) -> Iterator[tuple[int, str]]:
        section = self.section(".dynamic")
        if section is None:
            return
        strings = self._linked_strings(section)
        for offset in range(section.offset, section.offset + section.size, 16):
            tag, value = self._unpack("<QQ", offset)
            if tag in (_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH):
                yield tag, self._string(strings + value)

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """Libraries it asks the loader for."""
        return tuple(text for tag, text in self._dynamic() if tag == _DT_NEEDED)

    @cached_property
    def search_paths(self) -> tuple[str, ...]:
        """RPATH and RUNPATH entries."""
        return tuple(text for tag, text in self._dynamic() if tag in (_DT_RPATH, _DT_RUNPATH))

    @cached_property
    def exports(self) -> tuple[str, ...]:
        """Names of defined symbols that other objects can bind to."""
        section = self.section(".dynsym")
        if section is None:
            return ()
        strings = self._linked_strings(section)
        found = []
        for offset in range(section.offset, section.offset + section.size, 24):
            name, info, other, index = self._unpack("<IBBH", offset)
            if index != _SHN_UNDEF and info >> 4 != _STB_LOCAL and other & 3 == _STV_DEFAULT:
                found.append(self._string(strings + name))
        return tuple(sorted(found))

    @cached_property
    def versions(self) -> tuple[tuple[str, str], ...]:
        """(library, version) of every versioned requirement, such as ("libc.so.6", "GLIBC_2.17")."""
        section = self.section(".gnu.version_r")
        if section is None:
            return ()
        strings = self._linked_strings(section)
        found = []
        need = section.offset
        while True:
            _, count, file, first, following = self._unpack("<HHIII", need)
            entry = need + first
            for _ in range(count):
                _, _, _, name, step = self._unpack("<IHHII", entry)
                found.append((self._string(strings + file), self._string(strings + name)))
                entry += step
            if not following:
                return tuple(found)
            need += following
