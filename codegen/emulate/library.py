"""A built tile as Python sees it: device memory, launches under a seed, findings."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

WRITTEN, WRITABLE, PADDING, DEPENDENT = 2, 4, 8, 16
"""States of a byte of device memory, as in runtime/global_memory.h."""


@dataclass(frozen=True)
class Device:
    """The emulated device: its size is what persistent kernels share their work out over."""

    cc: tuple[int, int] = (9, 0)
    multiprocessors: int = 2
    resident_clusters: int = 2
    shared_optin: int = 227 * 1024
    shared_oversized: int = 0
    occupancy: int = 1


@dataclass(frozen=True)
class Finding:
    """What a check of the emulator found."""

    detector: str
    message: str
    agent: str
    place: str

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        who = f" [{self.agent}]" if self.agent else ""
        return f"{self.detector}: {self.message}{who}{where}"


class _Assignments(ctypes.Structure):
    _fields_ = (
        ("names", ctypes.POINTER(ctypes.c_char_p)),
        ("values", ctypes.POINTER(ctypes.c_int64)),
        ("count", ctypes.c_int),
    )


class Library:
    """One tile's kernel, ready to launch."""

    def __init__(self, path: Path, device: Device) -> None:
        self._path = path
        self._dll = ctypes.CDLL(str(path))
        self._dll.tilewright_emulator_alloc.restype = ctypes.c_void_p
        self._dll.tilewright_emulator_alloc.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64]
        self._dll.tilewright_emulator_mark.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
        self._dll.tilewright_emulator_run.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self._dll.tilewright_emulator_findings.restype = ctypes.c_char_p
        self._dll.tilewright_emulator_steps.restype = ctypes.c_uint64
        self._dll.tilewright_emulator_device(
            device.multiprocessors,
            device.shared_optin,
            device.shared_oversized,
            device.resident_clusters,
            device.occupancy,
            *device.cc,
        )

    def allow_uninitialised(self, file: str) -> None:
        """Code of this file may read shared memory that nobody wrote; it gets random bytes."""
        self._dll.tilewright_emulator_allow(file.encode())

    def close(self) -> None:
        """Gives back memory and unloads the kernel; nothing else may be called afterwards."""
        import _ctypes

        self._dll.tilewright_emulator_close()
        _ctypes.dlclose(self._dll._handle)

    def release(self) -> None:
        """Frees all device memory."""
        self._dll.tilewright_emulator_release()

    def upload(self, name: str, data: Array, dependent: bool = False, alignment: int = 256) -> int:
        """A read-only copy of an array in device memory; its address.

        `dependent`: earlier kernels wrote it, so it is theirs until they have been waited for. A masked array's masked
        bytes are padding that nothing may read.
        """
        import numpy as np

        flat = np.ascontiguousarray(np.ma.getdata(data)).view(np.uint8).reshape(-1)
        address = self.allocate(name, flat.size, alignment)
        ctypes.memmove(address, flat.ctypes.data, flat.size)
        self.mark(address, flat.size, WRITTEN | (DEPENDENT if dependent else 0), WRITABLE)
        mask = np.ma.getmaskarray(data)
        if mask.any():
            width = data.dtype.itemsize
            for start, stop in _runs(mask.reshape(-1)):
                self.mark(address + start * width, (stop - start) * width, PADDING, 0)
        return address

    def allocate(self, name: str, count: int, alignment: int = 256) -> int:
        """Device memory that nobody has written; its address."""
        address = self._dll.tilewright_emulator_alloc(max(count, 1), name.encode(), alignment)
        if not address:
            raise MemoryError("the emulated device is full")
        return int(address)

    def mark(self, address: int, count: int, add: int, remove: int) -> None:
        """Changes the state of bytes."""
        self._dll.tilewright_emulator_mark(address, count, add, remove)

    def forget(self, address: int, count: int, dependent: bool = True) -> None:
        """Makes an output unwritten again, and the earlier kernels' until they have been waited for."""
        ctypes.memset(address, 0xAB, count)
        self.mark(address, count, DEPENDENT if dependent else 0, WRITTEN)

    def download(self, address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """A copy of device memory."""
        import numpy as np

        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(ctypes.string_at(address, count), dtype=dtype).reshape(shape)

    def run(self, arguments: Mapping[str, int], seed: int) -> tuple[int, tuple[Finding, ...]]:
        """Launches under a seed: the launcher's error code and what was found."""
        names = (ctypes.c_char_p * len(arguments))(*(name.encode() for name in arguments))
        values = (ctypes.c_int64 * len(arguments))(*arguments.values())
        given = _Assignments(names, values, len(arguments))
        error = self._dll.tilewright_emulator_run(ctypes.byref(given), seed)
        text: bytes = self._dll.tilewright_emulator_findings()
        return error, tuple(self._finding(json.loads(line)) for line in text.decode(errors="replace").splitlines())

    def steps(self) -> int:
        """Choices of the scheduler in the last launch."""
        return int(self._dll.tilewright_emulator_steps())

    def _finding(self, record: dict[str, Any]) -> Finding:
        place = record["place"] or self._symbol(record["address"])
        return Finding(record["detector"], record["message"], record["agent"], place)

    def _symbol(self, address: int) -> str:
        """The source line of a code address, where binutils can say."""
        tool = shutil.which("addr2line")
        if not address or tool is None:
            return ""
        base = next(
            (
                int(line.split("-")[0], 16)
                for line in Path("/proc/self/maps").read_text().splitlines()
                if line.endswith(str(self._path))
            ),
            0,
        )
        command = [tool, "-e", str(self._path), hex(address - base - 1)]
        line = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        return line[line.find("tilewright/") :] if "tilewright/" in line else ""


def _runs(mask: Array) -> list[tuple[int, int]]:
    """Ranges of true elements."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
