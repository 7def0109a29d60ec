"""Where the packaged specs and templates are: beside the package when installed, in the source tree otherwise."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def specs_folder() -> Path:
    """The specs this package was built from."""
    return _folder("specs")


def templates_folder() -> Path:
    """The csrc_templates folder: templates, headers and sources."""
    return _folder("csrc_templates")
