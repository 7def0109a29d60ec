"""Where specs, templates and CMake modules are: beside the package when installed, in the source tree otherwise."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def specs_folder() -> Path:
    """The specs this package was built from."""
    return _folder("specs")


def cmake_folder() -> Path:
    """The CMake modules by which another library builds with the generator."""
    return _folder("cmake")


def templates_folder() -> Path:
    """The csrc_templates folder: templates, headers and sources."""
    return _folder("csrc_templates")
