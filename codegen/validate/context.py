"""What every check is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..diagnostics import Sink
from ..ir import Family, Layer, Rule, SpecTree
from ..sources import Sources


@dataclass(frozen=True)
class Context:
    """The bound tree, the documents it came from, and where findings go."""

    tree: SpecTree
    sources: Sources
    sink: Sink

    def layers(self) -> Iterator[tuple[Family, Layer]]:
        for family in self.tree.families.values():
            for layer in family.layers:
                yield family, layer

    def rules(self) -> Iterator[tuple[Layer, Rule]]:
        for _, layer in self.layers():
            for section in layer.sections:
                for rule in section.rules:
                    yield layer, rule

    def in_order(self, archs: Iterable[str]) -> list[str]:
        """Archs in the order of the tree: ascending, `unknown` last."""
        wanted = set(archs)
        return [a for a in self.tree.archs if a in wanted]


def listed(words: Iterable[object]) -> str:
    return ", ".join(str(w) for w in words)
