"""Builds the emulator's runtime and one shared library per tile, both kept by content."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..data import templates_folder

ENGINE_HEADERS = {
    "simt": "simt",
    "mma_m16n8k16": "mma_m16n8k16",
    "mma_m16n8k32": "mma_m16n8k32",
    "mma_block_scaled": "mma_block_scaled",
    "wgmma": "wgmma",
    "decode": "decode",
    "tcgen05": "tcgen05",
}
ELEMENTS = {"f16": "__half", "bf16": "__nv_bfloat16", "f32": "float"}

_DYNAMIC = re.compile(r"extern __shared__\s+(?:__align__\((\d+)\)\s+)?([\w ]+?)\s+(\w+)\[\];")
_STATIC = re.compile(r"(?<!extern )__shared__\s+(?:__align__\((\d+)\)\s+)?([\w: ]+?)\s+(\w+)((?:\[[^\]]+\])*);")
_HOST_FLAGS = ("-std=c++17", "-fPIC", "-Wno-unknown-pragmas", "-Wno-psabi")


class BuildError(Exception):
    """The host compiler refused a kernel; the text is what it said."""


@dataclass(frozen=True)
class Patch:
    """A textual change to one header: `old`, which occurs exactly once, becomes `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Target:
    """What is compiled: a tile of a family for an arch, with an element type."""

    family: str
    engine: str
    tile: str
    fields: Mapping[str, int | bool | str]
    cc: tuple[int, int]
    dtype: str = "bf16"
    patches: Sequence[Patch] = field(default=())


def compiler() -> str:
    """The host compiler: $CXX, else g++, else clang++."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        if name and shutil.which(name):
            return name
    raise BuildError("no C++ compiler: install g++ or set CXX")


def cache_folder() -> Path:
    """Where libraries are kept: $TILEWRIGHT_EMULATOR_CACHE, else the user's cache."""
    given = os.environ.get("TILEWRIGHT_EMULATOR_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright"
    return base / "emulator"


def build(target: Target) -> Path:
    """The shared library of a tile; compiled when no library of the same content is kept. Raises BuildError."""
    headers = rewritten_headers(target.patches)
    tile = tile_header(target)
    flags = device_flags(target.cc)
    emulator = templates_folder() / "emulator"
    driver = emulator / "drivers" / f"{target.family}.cpp"
    own = {str(p): p.read_bytes() for p in sorted(emulator.rglob("*")) if p.is_file()}
    key = _digest(headers, {"tile": tile, "flags": " ".join(flags), "driver": driver.read_text()}, own)
    library = cache_folder() / f"{target.family}-{target.tile}-{key}.so"
    if library.is_file():
        return library
    runtime = _runtime(emulator)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in headers.items():
            (root / "include" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "include" / name).write_text(text)
        (root / "tile.h").write_text(tile)
        _link([_driver_object(driver, root, flags), *runtime], library)
    return library


def _driver_object(driver: Path, root: Path, flags: Sequence[str]) -> Path:
    """The launcher and its kernel, kept by what the preprocessor makes of them."""
    emulator = driver.parents[1]
    includes = [emulator / "include", emulator / "runtime", emulator / "drivers", root, root / "include"]
    instrument = ["-fsanitize=thread"]
    if "clang" not in compiler():
        # Static variables of templates would otherwise be one for all tiles that a process loads.
        instrument += ["--param", "tsan-instrument-func-entry-exit=0", "-fno-gnu-unique"]
    command = [compiler(), *_HOST_FLAGS, "-O1", "-g1", *instrument, *flags, *(f"-I{i}" for i in includes), str(driver)]
    text = _run([*command, "-E"]).replace(str(root), ".").replace(str(emulator), ".")
    key = _digest({"text": text, "flags": " ".join((*_HOST_FLAGS, *instrument))}, {}, {})
    kept = cache_folder() / "driver" / f"{key}.o"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}")
        _run([*command, "-c", "-o", str(partial)])
        partial.replace(kept)
    return kept


def rewritten_headers(patches: Sequence[Patch] = ()) -> dict[str, str]:
    """The kernels' headers by path below `include`, arrays in shared memory found through the emulator.

    The instructions of `ptx/` are left out: the emulator has its own. Raises BuildError for a patch that does not fit.
    """
    folder = templates_folder() / "include"
    texts = {}
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_file() and not name.startswith("tilewright/ptx/"):
            texts[name] = file.read_text()
    for patch in patches:
        text = texts.get(f"tilewright/{patch.file}", "")
        if text.count(patch.old) != 1:
            raise BuildError(f"{patch.file}: the text to change occurs {text.count(patch.old)} times: {patch.old}")
        texts[f"tilewright/{patch.file}"] = text.replace(patch.old, patch.new)
    return {name: _STATIC.sub(_static, _DYNAMIC.sub(_dynamic, text)) for name, text in texts.items()}


def _dynamic(match: re.Match[str]) -> str:
    align, kind, name = match.groups()
    return f"auto* {name} = static_cast<{kind}*>(::tilewright::emulator::dynamic_shared({align or 16}));"


def _static(match: re.Match[str]) -> str:
    align, kind, name, bounds = match.groups()
    return (
        f"using {name}_type = {kind}{bounds}; static const char {name}_key = 0; "
        f"auto& {name} = *static_cast<{name}_type*>(::tilewright::emulator::static_shared(&{name}_key, "
        f"sizeof({name}_type), {align or f'alignof({name}_type)'}));"
    )


def tile_header(target: Target) -> str:
    """The tile as the generator writes it, its element type, and the header of its engine."""
    from .. import emit_cpp
    from ..contexts import _constant

    constants = "\n".join(
        f"  static constexpr {kind} {name} = {value};"
        for kind, name, value in (_constant(k, v) for k, v in target.fields.items())
    )
    engine = ENGINE_HEADERS[target.engine]
    return f"""#pragma once
#include "tilewright/{target.family}/args.h"
#include "tilewright/{target.family}/{engine}.cuh"
struct EmulatedTile {{
  static constexpr tilewright::Engine kEngine = tilewright::Engine::k{emit_cpp.camel(target.engine)};
{constants}
}};
using EmulatedElement = {ELEMENTS[target.dtype]};
"""


def device_flags(cc: tuple[int, int]) -> list[str]:
    """The macros by which kernels know what they are compiled for."""
    number = cc[0] * 100 + cc[1] * 10
    flags = [f"-D__CUDA_ARCH__={number}"]
    if cc[0] >= 9:
        flags += [f"-D__CUDA_ARCH_FEAT_SM{number // 10}_ALL", f"-D__CUDA_ARCH_SPECIFIC__={number}"]
    if cc[0] >= 10:
        flags.append(f"-D__CUDA_ARCH_FAMILY_SPECIFIC__={number}")
    return flags


def _runtime(emulator: Path) -> list[Path]:
    """The object files of the runtime."""
    headers = [*emulator.glob("runtime/*.h"), *emulator.glob("include/*.h")]
    shared = {str(p): p.read_bytes() for p in sorted(headers)}
    native = ["-march=native"] if platform.machine() in ("x86_64", "AMD64") else []
    flags = [*_HOST_FLAGS, "-O3", "-g1", *native]
    pending = []
    objects = []
    for source in sorted(emulator.glob("runtime/*.cpp")):
        key = _digest({"source": source.read_text(), "flags": " ".join(flags), "cpu": _cpu()}, {}, shared)
        target = cache_folder() / "runtime" / f"{source.stem}-{key}.o"
        objects.append(target)
        if not target.is_file():
            pending.append((source, target))
    for source, target in pending:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        includes = [f"-I{emulator / 'include'}", f"-I{emulator / 'runtime'}"]
        _run([compiler(), *flags, *includes, "-c", str(source), "-o", str(partial)])
        partial.replace(target)
    return objects


def _cpu() -> str:
    try:
        return next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    except (OSError, StopIteration):
        return platform.processor()


def _link(objects: Sequence[Path], library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    partial = library.with_suffix(f".{os.getpid()}")
    _run([compiler(), "-shared", *map(str, objects), "-o", str(partial)])
    partial.replace(library)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(done.stderr.strip())
    return done.stdout


def _digest(texts: Mapping[str, str], more: Mapping[str, str], files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for mapping in (texts, more):
        for name, text in sorted(mapping.items()):
            digest.update(f"{name}\0{text}\0".encode())
    for name, data in sorted(files.items()):
        digest.update(Path(name).name.encode() + b"\0" + data + b"\0")
    digest.update(compiler().encode())
    return digest.hexdigest()[:16]
