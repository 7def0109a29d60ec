"""A planted bug."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright_codegen.emulate.build import Patch, Target
from tilewright_codegen.emulate.cases import Problem


@dataclass(frozen=True)
class Mutant:
    """`detectors`: the checks that may be the first to speak, which depends on the schedule."""

    name: str
    target: Target
    problem: Problem
    patch: Patch
    detectors: tuple[str, ...]

    def built(self) -> Target:
        return replace(self.target, tile=f"mutant-{self.name}", patches=(self.patch,))
