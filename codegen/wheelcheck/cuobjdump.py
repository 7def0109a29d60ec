"""Kernels and instructions of a library, as cuobjdump shows them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..binary import attribute, parts
from .findings import NotCheckedError

_FUNCTION = re.compile(r"\s*Function : (\S+)")
_MNEMONIC = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?\w+\s+)?([A-Z][A-Z0-9_.]*)")
_ENTRY = re.compile(r"\.entry (_Z\w+)")
_OPCODE = re.compile(r"^\s*(?:\{\s*)?(?:@!?%\w+\s+)?([a-z]\w*(?:\.\w+)+)", re.MULTILINE)
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
    words: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Kernel -> its instructions, where they are known: in PTX."""


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
    """One block per image and object file: machine code as it lies in the library, then PTX likewise."""
    code = [block for block in parse_blocks(_run(tool, "-symbols", str(library))) if not is_ptx(block.image)]
    return code + [block for block in parse_blocks(_run(tool, "-ptx", str(library))) if is_ptx(block.image)]


def is_ptx(image: str) -> bool:
    """Whether an image is PTX, by its name."""
    return image.startswith("compute_")


def parse_blocks(text: str) -> list[Block]:
    return [
        Block(image, tuple(map(read_kernel, symbols)), parse_ptx(part) if is_ptx(image) else {})
        for image, symbols, part in parts(text)
    ]


def parse_ptx(text: str) -> dict[str, frozenset[str]]:
    """Kernel -> its instructions, from the text of PTX."""
    pieces = _ENTRY.split(text)
    return {symbol: frozenset(_OPCODE.findall(body)) for symbol, body in zip(pieces[1::2], pieces[2::2], strict=True)}


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
