"""Whose sources are generated: this package's, or those of a library that builds its own kernels with the generator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .emit_cpp import RESERVED

_NAME = re.compile(r"[A-Za-z]\w*")


class ProjectError(ValueError):
    """The project cannot be generated for; the text says why."""


@dataclass(frozen=True)
class Project:
    """The C++ namespace of the sources, and the folder on the include path that holds the kernels' headers.

    They are included as <namespace>/<family>/args.h and <namespace>/<family>/launch.cuh. `headers`: this package's own
    when None. ProjectError for a namespace that C++ does not take.
    """

    namespace: str = "tilewright"
    headers: Path | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.namespace) or self.namespace in RESERVED:
            raise ProjectError(f"'{self.namespace}' is no namespace; a C++ name without '::' is expected")

    def args_header(self, headers: Path, family: str) -> Path:
        """The header that declares what the family's kernels take. Without it only the selector is generated."""
        return headers / self.namespace / family / "args.h"

    def check(self, families: list[str]) -> None:
        """ProjectError unless every family has its headers. For a project with headers of its own."""
        if self.headers is None:
            return
        for family in families:
            for file in (
                self.args_header(self.headers, family),
                self.args_header(self.headers, family).with_name("launch.cuh"),
            ):
                if not file.is_file():
                    raise ProjectError(f"{file}: not found; the kernels of family '{family}' are declared there")


TILEWRIGHT = Project()
"""This package."""
