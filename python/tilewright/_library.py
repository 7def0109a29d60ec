"""The native library `_native.so`: finding it, loading it, and its C interface.

The library is opened with ctypes and is not a Python extension, so that one file serves every Python.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORCE_NOTHING = -1
FORCE_FALLBACK = -2
BY_FORCE, BY_TABLE = 1, 2
FAMILIES = ("gemm_4bit", "gemm_fp8", "gemm_nvfp4")
"""Families by number, as csrc_templates/src/binding_control.h counts them."""


class DecisionRecord(ctypes.Structure):
    """Mirror of `DecisionRecord` in csrc_templates/src/binding_control.h."""

    _fields_ = (
        ("serial", ctypes.c_int64),
        ("m", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("k", ctypes.c_int64),
        ("device", ctypes.c_int32),
        ("arch", ctypes.c_int32),
        ("path", ctypes.c_int32),
        ("tile", ctypes.c_int32),
        ("by", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("family", ctypes.c_int32),
        ("layout", ctypes.c_int32),
    )


@dataclass(frozen=True)
class Native:
    """The loaded library, or the reason why there is none."""

    path: Path | None
    library: Any
    reason: str

    @property
    def loaded(self) -> bool:
        """True when the CUDA kernels are registered with torch."""
        return self.library is not None

    def tile_names(self, family: str = FAMILIES[0]) -> tuple[str, ...]:
        """Names of all tiles of a family in the library, in the order of their numbers."""
        if not self.loaded:
            return ()
        number, library = FAMILIES.index(family), self.library
        if number == 0:
            return tuple(library.tilewright_tile_name(i).decode() for i in range(library.tilewright_tile_count()))
        count = library.tilewright_family_tile_count(number)
        return tuple(library.tilewright_family_tile_name(number, i).decode() for i in range(count))

    def images(self) -> tuple[str, ...]:
        """Code in the library: machine code such as "sm_90a", and PTX such as "compute_89"."""
        if not self.loaded:
            return ()
        text = ctypes.create_string_buffer(1024)
        self.library.tilewright_images(text, len(text))
        return tuple(part for part in text.value.decode().split(", ") if part)

    def arch_for(self, major: int, minor: int) -> str | None:
        """Name of the rule set that serves a device of this compute capability; None if no image loads on it."""
        if not self.loaded:
            return None
        name = self.library.tilewright_arch_for(major, minor)
        return None if name is None else str(name.decode())

    def image_for(self, major: int, minor: int) -> str | None:
        """Name of the image that such a device takes, "compute_89" for PTX; None if none runs on it."""
        number = self.library.tilewright_image_for(major, minor) if self.loaded else -1
        return self.images()[number] if number >= 0 else None

    def refusal(self, index: int) -> str | None:
        """Why no kernel of the library runs on a device of this process; None if kernels do. Makes a context there."""
        if not self.loaded:
            return self.reason
        text = ctypes.create_string_buffer(1024)
        refused = self.library.tilewright_device_refusal(index, text, len(text))
        return text.value.decode(errors="replace") if refused else None


def load() -> Native:
    """Opens the library and registers its ops with torch. Never raises: a missing library is a pure Python install."""
    path = _find()
    if path is None:
        return Native(None, None, "this install has no native library")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return Native(path, None, f"{path.name} does not load: {error}")
    _declare(library)
    failure = library.tilewright_register_torch()
    if failure is not None:
        return Native(path, None, f"{path.name} does not register: {failure.decode()}")
    return Native(path, library, "")


def _find() -> Path | None:
    # An editable install keeps the Python files in the source tree and the library in site-packages.
    package = __import__(__package__)
    for folder in (Path(__file__).parent, *map(Path, package.__path__)):
        if (folder / "_native.so").is_file():
            return folder / "_native.so"
    return None


def _declare(library: Any) -> None:
    text, number = ctypes.c_char_p, ctypes.c_int
    library.tilewright_register_torch.restype = text
    library.tilewright_tile_count.restype = number
    library.tilewright_tile_name.restype = text
    library.tilewright_tile_name.argtypes = [number]
    library.tilewright_arch_name.restype = text
    library.tilewright_arch_name.argtypes = [number]
    library.tilewright_arch_for.restype = text
    library.tilewright_arch_for.argtypes = [number, number]
    library.tilewright_image_for.restype = number
    library.tilewright_image_for.argtypes = [number, number]
    library.tilewright_device_refusal.restype = number
    library.tilewright_device_refusal.argtypes = [number, text, number]
    library.tilewright_spec_digest.restype = text
    library.tilewright_images.restype = None
    library.tilewright_images.argtypes = [text, number]
    library.tilewright_family_tile_count.restype = number
    library.tilewright_family_tile_count.argtypes = [number]
    library.tilewright_family_tile_name.restype = text
    library.tilewright_family_tile_name.argtypes = [number, number]
    library.tilewright_force_family_tile.restype = number
    library.tilewright_force_family_tile.argtypes = [number, number]
    library.tilewright_set_tuned.restype = number
    library.tilewright_set_tuned.argtypes = [text, number, ctypes.c_void_p, number]
    library.tilewright_last_decision.restype = None
    library.tilewright_last_decision.argtypes = [ctypes.POINTER(DecisionRecord)]
