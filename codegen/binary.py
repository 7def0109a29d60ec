"""Reads the code of a built library back and compares it with what was asked for.

`python -m codegen.binary LIBRARY IMAGES_JSON --cuobjdump PATH` exits 1, naming family and arch, on any difference.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .emit_cpp import enumerator

Contents = Mapping[str, Mapping[str, frozenset[str]]]
"""image -> family -> the tile types whose kernels are in it."""

_ARCH = re.compile(r"arch = (\S+)")
_PART = re.compile(r"Fatbin (elf|ptx) code:")
_KERNEL = {
    "elf": re.compile(r"^FUNC\s+\S+\s+\S+\s+ENTRY\s+(?:\S+\s+)?(_Z\w+)", re.MULTILINE),
    "ptx": re.compile(r"^\s*(?:\.visible |\.weak )*\.entry (_Z\w+)", re.MULTILINE),
}
_LENGTH = re.compile(r"\d+")
SUPPORT = "support"
"""Family name under which kernels without a tile (quantise, dequantise) are counted."""


class BinaryError(RuntimeError):
    """The library could not be read."""


@dataclass(frozen=True)
class Names:
    """How families are known in mangled names: by the namespace they lie in, and theirs (None: all gemm_...)."""

    namespace: str = "tilewright"
    families: frozenset[str] | None = None

    def is_family(self, name: str) -> bool:
        return name.startswith("gemm_") if self.families is None else name in self.families


@dataclass(frozen=True)
class Expected:
    """What a library must hold: its images, and per family the tile types of each image."""

    images: frozenset[str]
    families: Mapping[str, Mapping[str, frozenset[str]]]
    names: Names = Names()


def read_library(library: Path, cuobjdump: Path, names: Names = Names()) -> Contents:
    """The images in a library and the tile types in each. BinaryError if cuobjdump fails."""
    text = _dump(library, cuobjdump, "-symbols")
    if "Fatbin elf code" not in text:
        raise BinaryError(f"{library}: cuobjdump found no machine code: {text.strip()}")
    return parse_symbols(text + (_dump(library, cuobjdump, "-ptx") if "Fatbin ptx code" in text else ""), names)


def _dump(library: Path, cuobjdump: Path, what: str) -> str:
    done = subprocess.run([str(cuobjdump), what, str(library)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise BinaryError(f"{library}: cuobjdump found no machine code: {said}")
    return done.stdout


def parts(text: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Image, kernels and text of every part of the output of `cuobjdump -symbols` or `-ptx`.

    PTX has the name that the compiler gives it, compute_89. The output of -symbols names none of its kernels.
    """
    words = _PART.split(text)
    for kind, part in zip(words[1::2], words[2::2], strict=True):
        arch = _ARCH.search(part)
        if arch is not None:
            image = arch[1] if kind == "elf" else arch[1].replace("sm_", "compute_")
            yield image, tuple(_KERNEL[kind].findall(part)), part


def parse_symbols(text: str, names: Names = Names()) -> Contents:
    """Contents from the output of `cuobjdump -symbols`, and of `-ptx` behind it."""
    contents: dict[str, dict[str, set[str]]] = {}
    for image, symbols, _ in parts(text):
        families = contents.setdefault(image, {})
        for symbol in symbols:
            family, tile = attribute(symbol, names)
            families.setdefault(family, set())
            if tile is not None:
                families[family].add(tile)
    return {
        image: {family: frozenset(tiles) for family, tiles in families.items()} for image, families in contents.items()
    }


def attribute(symbol: str, names: Names = Names()) -> tuple[str, str | None]:
    """Family and tile type of a mangled kernel name: the namespace of its `Tile_...` parameter.

    The namespace is spelled out there, or replaced by the place where it first occurs, in the kernel's own name.
    """
    family = SUPPORT
    directly_in = re.compile(rf"N({len(names.namespace)}{names.namespace}|S_)$")
    for position, name in _identifiers(symbol):
        if name.startswith("Tile_"):
            return family, name
        if names.is_family(name) and directly_in.search(symbol, 0, position):
            family = name
    return SUPPORT, None


def _identifiers(mangled: str) -> Iterator[tuple[int, str]]:
    """The identifiers of a mangled name, each of which stands after its length, and where the length stands."""
    position = 0
    while match := _LENGTH.search(mangled, position):
        position = match.end()
        name = mangled[position : position + int(match[0])]
        if name.isidentifier():
            yield match.start(), name
            position += len(name)


def read_expected(path: Path) -> Expected:
    """The list that the generator wrote next to the sources."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    families = {
        name: {image: frozenset(map(tile_type, tiles)) for image, tiles in images.items()}
        for name, images in data["families"].items()
    }
    images = frozenset(image for held in families.values() for image in held)
    return Expected(images, families, Names(data.get("namespace", "tilewright"), frozenset(families)))


def tile_type(tile: str) -> str:
    """The C++ type of a tile: the name by which its kernels are known in the library."""
    return f"Tile_{enumerator(tile)[1:].lower()}"


def compare(expected: Expected, contents: Contents) -> list[str]:
    """One sentence for every difference, sorted; empty when the library holds exactly what was asked for."""
    problems = []
    for image in sorted(expected.images - contents.keys()):
        families = ", ".join(sorted(name for name, images in expected.families.items() if image in images))
        problems.append(f"{image}: asked for, but the library has no machine code for it ({families or SUPPORT})")
    for image in sorted(contents.keys() - expected.images):
        problems.append(f"{image}: in the library, but not asked for ({', '.join(sorted(contents[image])) or 'empty'})")
    for image in sorted(expected.images & contents.keys()):
        for family, images in sorted(expected.families.items()):
            wanted = images.get(image, frozenset())
            present = contents[image].get(family, frozenset())
            problems += [f"{family} {image}: no kernel of {tile}" for tile in sorted(wanted - present)]
            problems += [f"{family} {image}: {tile} is there, but not asked for" for tile in sorted(present - wanted)]
    return problems


def main() -> None:
    """Compares and reports; exit status 1 on a difference."""
    parser = argparse.ArgumentParser(prog="python -m codegen.binary", description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--cuobjdump", type=Path, required=True)
    options = parser.parse_args()
    try:
        expected = read_expected(options.images)
        problems = compare(expected, read_library(options.library, options.cuobjdump, expected.names))
    except (OSError, BinaryError) as error:
        sys.exit(f"error: {error}.")
    if problems:
        sys.exit("error: the library does not hold what was asked for:\n  " + "\n  ".join(problems))
    tiles = sum(len(found) for images in expected.families.values() for found in images.values())
    print(f"{options.library.name}: {', '.join(sorted(expected.images))}; {tiles} tiles, as asked for")


if __name__ == "__main__":
    main()
