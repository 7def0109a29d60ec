"""Which machine code a build holds: the images asked for, and the tiles that go into each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from .archs import BuildArch
from .emit_cpp import enumerator
from .ir import Choice, Family, SpecTree

FAMILY_MEMBERS = {(10, 0): ((10, 0), (10, 3), (10, 7)), (10, 3): ((10, 3), (10, 7)), (12, 0): ((12, 0), (12, 1))}
"""Compute capabilities an `f` image serves, by the one it is named after (others serve only their own)."""


@dataclass(frozen=True)
class Image:
    """One target: the arch it is built for, its compute capability and suffix ('', 'a' or 'f'), machine code or PTX."""

    arch: str
    arch_enumerator: str
    cc: tuple[int, int]
    suffix: str
    ptx: bool = False

    @property
    def name(self) -> str:
        """The compiler's name: sm_90a, or compute_89 for PTX."""
        return f"{'compute' if self.ptx else 'sm'}_{self.cc[0]}{self.cc[1]}{self.suffix}"

    @property
    def short(self) -> str:
        """For names of build targets: 90a, or 89ptx."""
        return f"{self.cc[0]}{self.cc[1]}{self.suffix}{'ptx' if self.ptx else ''}"

    @property
    def cmake(self) -> str:
        """CMake's token: 90a-real, or 89-virtual for PTX."""
        return f"{self.cc[0]}{self.cc[1]}{self.suffix}-{'virtual' if self.ptx else 'real'}"

    @property
    def suffix_char(self) -> str:
        return f"'{self.suffix}'" if self.suffix else "0"

    @property
    def minors(self) -> int:
        """Bit i: a device of the same major version and minor version i loads it as machine code."""
        return 0 if self.ptx else sum(1 << minor for minor in range(32) if self.serves((self.cc[0], minor)))

    def serves(self, cc: tuple[int, int]) -> bool:
        """Whether a device of this compute capability can load the image.

        An `a` image loads on its own capability only, an `f` image on its family, a plain one on the same major
        version from its minor version on. PTX is translated for every capability from its own on.
        """
        if self.ptx:
            return cc >= self.cc
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
    image it loads, so an image needs the tiles of its own arch; which devices load it does not matter. PTX holds what
    the machine code of its arch holds: engines that only some devices have are not among those of a portable arch.
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


def images_of(archs: Sequence[BuildArch]) -> list[Image]:
    """The images that parsed arch tokens ask for: machine code in their order, then PTX."""
    code = [Image(arch.profile.name, enumerator(arch.profile.name), arch.cc, arch.suffix) for arch in archs]
    return code + [replace(image, ptx=True) for image, arch in zip(code, archs, strict=True) if arch.ptx]
