"""Kernels and instructions of a library, as cuobjdump shows them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..binary import attribute
from .findings import NotCheckedError

_ARCH = re.compile(r"^arch = (\S+)", re.MULTILINE)
_KERNEL = re.compile(r"^FUNC\s+\S+\s+\S+\s+ENTRY\s+(?:\S+\s+)?(_Z\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"\s*Function : (\S+)")
_MNEMONIC = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][A-Z0-9_.]*)")
_ELEMENT = re.compile(r"Tile_\w+?E(13__nv_bfloat16|6__half|f)E")
_DTYPES = {"13__nv_bfloat16": "bf16", "6__half": "f16", "f": "f32"}


@dataclass(frozen=True)
class Kernel:
    """A kernel and what its name says it is of; kernels without a tile have neither tile nor dtype."""

    symbol: str
    family: str
    tile: str | None
    dtype: str | None


@dataclass(frozen=True)
class Block:
    """The kernels of one image of one object file."""

    image: str
    kernels: tuple[Kernel, ...]


def find_cuobjdump(given: Path | None = None) -> Path:
    """`given`, else the one of the nvidia-cuda-cuobjdump wheel, else the one on PATH. NotCheckedError without any."""
    if given is not None:
        return given
    spec = importlib.util.find_spec("nvidia.cu13") if importlib.util.find_spec("nvidia") else None
    for folder in (spec and spec.submodule_search_locations) or ():
        if (found := Path(folder) / "bin" / "cuobjdump").is_file():
            return found
    on_path = shutil.which("cuobjdump")
    if on_path is None:
        raise NotCheckedError("no cuobjdump; install nvidia-cuda-cuobjdump, or name one with --cuobjdump")
    return Path(on_path)


def _run(tool: Path, *arguments: str) -> str:
    try:
        done = subprocess.run([str(tool), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotCheckedError(f"{tool} does not run: {error.strerror}") from None
    if done.returncode != 0:
        raise NotCheckedError(f"{tool} fails: {done.stderr.strip() or done.returncode}")
    return done.stdout


def read_blocks(tool: Path, library: Path) -> list[Block]:
    """One block per image and object file, in the order in which they lie in the library."""
    return parse_blocks(_run(tool, "-symbols", str(library)))


def parse_blocks(text: str) -> list[Block]:
    blocks = []
    for part in text.split("Fatbin elf code:")[1:]:
        arch = _ARCH.search(part)
        if arch is not None:
            blocks.append(Block(arch[1], tuple(map(read_kernel, _KERNEL.findall(part)))))
    return blocks


def read_kernel(symbol: str) -> Kernel:
    """What a mangled name says: family, tile type and element type."""
    family, tile = attribute(symbol)
    element = _ELEMENT.search(symbol)
    return Kernel(symbol, family, tile, _DTYPES[element[1]] if element and tile else None)


def read_mnemonics(tool: Path, library: Path, image: str, kernels: Iterable[Kernel]) -> dict[str, frozenset[str]]:
    """Symbol -> the instructions in it, for some kernels of one image."""
    names = ",".join(kernel.symbol for kernel in kernels)
    return parse_mnemonics(_run(tool, "-sass", "-arch", image, "-fun", names, str(library)))


def parse_mnemonics(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in text.splitlines():
        function = _FUNCTION.match(line)
        if function is not None:
            current = found.setdefault(function[1], set())
            continue
        current.update(_mnemonics(line))
    return {symbol: frozenset(words) for symbol, words in found.items()}


def _mnemonics(line: str) -> Iterator[str]:
    match = _MNEMONIC.search(line)
    if match is not None:
        yield match[1]
