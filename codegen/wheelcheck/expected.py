"""What a wheel must hold, from the specs inside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..archs import ArchTokenError
from ..binary import tile_type
from ..engines import engine_dtypes
from ..images import images_of, mentioned_tiles, plan_images
from ..ir import SpecTree
from ..variants import named_sets, parse_archs
from .archive import Archive
from .findings import WheelError
from .packaging import IMAGES, SPECS, TEMPLATES

Instance = tuple[str, str]
"""Tile type and element type of a kernel."""


@dataclass(frozen=True)
class Expected:
    """Images of the wheel, and per family and image the instances it must hold. `engines` is by tile type."""

    images: tuple[str, ...]
    families: Mapping[str, Mapping[str, frozenset[Instance]]]
    engines: Mapping[str, Mapping[str, str]]


def read_specs(archive: Archive, folder: Path) -> SpecTree:
    """Unpack the specs of the wheel and read them. WheelError when they are missing or unsound."""
    from ..tree import read_tree

    if not archive.extract(SPECS, folder / "specs"):
        raise WheelError(f"{archive.path}: has no specs below {SPECS}")
    tree, found = read_tree(folder / "specs")
    if tree is None:
        raise WheelError(f"{archive.path}: its specs are unsound: {found[0].message}")
    return tree


def declared_images(archive: Archive) -> dict[str, dict[str, list[str]]]:
    """Family -> image -> tile ids, as the build wrote them. WheelError when the file is missing or malformed."""
    try:
        families: dict[str, dict[str, list[str]]] = json.loads(archive.read(IMAGES))["families"]
    except (ValueError, KeyError, TypeError):
        raise WheelError(f"{archive.path}: {IMAGES} is not a list of images") from None
    return families


def tokens(images: Sequence[str]) -> str:
    """An arch list that asks for these images."""
    ptx = {image.removeprefix("compute_") for image in images if image.startswith("compute_")}
    code = {image.removeprefix("sm_"): None for image in images if image.startswith("sm_")}
    return " ".join(f"{target}+PTX" if target in ptx else target for target in {**code, **dict.fromkeys(ptx)})


def plan(archive: Archive, tree: SpecTree, arch_list: str) -> Expected:
    """What the specs put into each image of an arch list. WheelError for a list they do not know."""
    try:
        images = images_of(parse_archs(arch_list, tree))
    except ArchTokenError as error:
        raise WheelError(f"{archive.path}: {error}") from None
    families: dict[str, dict[str, frozenset[Instance]]] = {}
    engines: dict[str, dict[str, str]] = {}
    for family in tree.families.values():
        if f"{TEMPLATES}include/tilewright/{family.name}/args.h" not in archive.members:
            continue
        held = plan_images(tree, family, images, lambda arch, f=family: mentioned_tiles(f, arch))  # type: ignore[misc]
        engines[family.name] = {tile_type(tile.id): tile.engine for tile in family.tiles}
        families[family.name] = {
            image.name: frozenset(
                (tile_type(tile.id), dtype)
                for tile in family.tiles
                if index in held.holders[tile.id]
                for dtype in engine_dtypes(family.name, tile.engine, family.dtypes)
            )
            for index, image in enumerate(held.images)
        }
    return Expected(tuple(image.name for image in images), families, engines)


def wanted_archs(archive: Archive, tree: SpecTree, given: str | None) -> str | None:
    """The arch list the wheel should be for: what was asked for, else what its local version label names."""
    label = archive.name.local
    if given is None and label is not None and label in named_sets(tree):
        return label
    return given
