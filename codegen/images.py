"""Which machine code a build holds: the images asked for, and the tiles that go into each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .archs import BuildArch
from .emit_cpp import enumerator
from .ir import Choice, Family, SpecTree

FAMILY_MEMBERS = {(10, 0): ((10, 0), (10, 3), (10, 7)), (10, 3): ((10, 3), (10, 7)), (12, 0): ((12, 0), (12, 1))}
"""Compute capabilities an `f` image serves, by the one it is named after (others serve only their own)."""


@dataclass(frozen=True)
class Image:
    """One cubin target: the arch it is built for, and its compute capability and suffix ('', 'a' or 'f')."""

    arch: str
    arch_enumerator: str
    cc: tuple[int, int]
    suffix: str

    @property
    def name(self) -> str:
        """The compiler's name: sm_90a."""
        return f"sm_{self.cc[0]}{self.cc[1]}{self.suffix}"

    @property
    def cmake(self) -> str:
        """CMake's token: 90a-real."""
        return f"{self.cc[0]}{self.cc[1]}{self.suffix}-real"

    @property
    def suffix_char(self) -> str:
        return f"'{self.suffix}'" if self.suffix else "0"

    def serves(self, cc: tuple[int, int]) -> bool:
        """Whether a device of this compute capability can load the image.

        An `a` image loads on its own capability only, an `f` image on its family, a plain one on the same major
        version from its minor version on.
        """
        if self.suffix == "a":
            return cc == self.cc
        if self.suffix == "f":
            return cc in FAMILY_MEMBERS.get(self.cc, (self.cc,))
        return cc[0] == self.cc[0] and cc[1] >= self.cc[1]


@dataclass(frozen=True)
class ImagePlan:
    """The images of a build and, per tile, the indices of the images that hold it."""

    images: tuple[Image, ...]
    holders: Mapping[str, tuple[int, ...]]

    def mask(self, tile: str) -> int:
        return sum(1 << i for i in self.holders.get(tile, ()))


def plan_images(
    tree: SpecTree, family: Family, images: Sequence[Image], reached: Callable[[str], frozenset[str]]
) -> ImagePlan:
    """Put a tile into an image if some arch reaches it there, or the tile is held in reserve.

    `reached(arch)` names the tiles that the rules of an arch can pick. A device runs the rules of the arch whose
    image it loads, so an image needs the tiles of its own arch; which devices load it does not matter.
    """
    holders: dict[str, list[int]] = {tile.id: [] for tile in family.tiles}
    for index, image in enumerate(images):
        wanted = reached(image.arch)
        engines = set(tree.archs[image.arch].profile.engines)
        for tile in family.tiles:
            if tile.engine in engines and (tile.id in wanted or tile.model.reserve is not None):
                holders[tile.id].append(index)
    return ImagePlan(tuple(images), {tile: tuple(found) for tile, found in holders.items()})


def mentioned_tiles(family: Family, arch: str) -> frozenset[str]:
    """Tiles that some rule of the arch names: no fewer than those it can reach."""
    return frozenset(
        str(rule.outcome.value)
        for layer in family.layers
        if layer.kind == "tile"
        for rule in layer.effective(arch)
        if isinstance(rule.outcome, Choice)
    )


def image_of(arch: BuildArch) -> Image:
    """The image a parsed arch token asks for."""
    return Image(arch.profile.name, enumerator(arch.profile.name), arch.cc, arch.suffix)
