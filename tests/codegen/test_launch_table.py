"""The generated launch table, compiled without CUDA: every tile reaches its own kernel, everything else an error."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tilewright_codegen.data import templates_folder
from tilewright_codegen.engines import engine_dtypes
from tilewright_codegen.images import Image
from tilewright_codegen.render import Rendering, render
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
TREE = load_tree(ROOT / "specs")
FAMILY = TREE.families["gemm_4bit"]
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fno-exceptions", "-fno-rtti", "-shared", "-fPIC"]
IMAGES = [Image("sm80", "kSm80", (8, 0), ""), Image("sm121", "kSm121", (12, 1), "a")]

CUDA_STUB = (
    "#pragma once\nenum cudaError_t { cudaSuccess = 0, cudaErrorSymbolNotFound = 500 };\ntypedef void* cudaStream_t;\n"
)

PROBE = """
extern "C" int probe_launch(int tile, int dtype) {
  return launch(static_cast<Tile>(tile), static_cast<DType>(dtype), {{ARGS}}{}, nullptr);
}
extern "C" void probe_text(int tile, int arch, int dtype, char* text, int size) {
  Problem problem{};
  problem.M = 3; problem.N = 4096; problem.K = 11008;
  problem.dtype = static_cast<DType>(dtype);
  describe_unbuilt(static_cast<Tile>(tile), static_cast<Arch>(arch), problem, text, size);
}
"""


@pytest.fixture(scope="module")
def rendering() -> Rendering:
    return render(TREE, IMAGES)


def _write(rendering: Rendering, folder: Path, change: Any = lambda text: text) -> Path:
    rendering.outputs.write(folder)
    (folder / "cuda_runtime_api.h").write_text(CUDA_STUB)
    table = change((folder / "gemm_4bit" / "launch.cpp").read_text())
    calls = re.findall(r"^cudaError_t (launch_\w+)\(const Gemm4bitArgs& args, cudaStream_t stream\);$", table, re.M)
    entries = "".join(
        f"cudaError_t {name}(const Gemm4bitArgs&, cudaStream_t) {{ return static_cast<cudaError_t>({1000 + i}); }}\n"
        for i, name in enumerate(calls)
    )
    probe = PROBE.replace("{{ARGS}}", "Gemm4bitArgs")
    source = folder / "probe.cpp"
    source.write_text(f"{table}\nnamespace tilewright::gemm_4bit {{\n{entries}{probe}}}\n")
    return source


def _compile(source: Path) -> subprocess.CompletedProcess[str]:
    includes = [f"-I{source.parent}", f"-I{templates_folder() / 'include'}"]
    command = ["g++", *FLAGS, *includes, str(source), "-o", str(source.with_suffix(".so"))]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def library(rendering: Rendering, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, list[str]]:
    source = _write(rendering, tmp_path_factory.mktemp("table"))
    result = _compile(source)
    assert result.returncode == 0, result.stderr
    calls = re.findall(r"^cudaError_t (launch_\w+)\(", source.read_text(), re.M)
    return ctypes.CDLL(str(source.with_suffix(".so"))), list(dict.fromkeys(calls))


def test_every_tile_and_type_reaches_the_kernel_of_its_own_name(
    library: tuple[Any, list[str]], rendering: Rendering
) -> None:
    table, entries = library
    holders = rendering.plans["gemm_4bit"].holders
    for index, tile in enumerate(FAMILY.tiles):
        for code, dtype in enumerate(FAMILY.dtypes):
            got = table.probe_launch(index, code)
            built = bool(holders[tile.id]) and dtype in engine_dtypes(FAMILY.name, tile.engine, FAMILY.dtypes)
            if built:
                assert entries[got - 1000] == f"launch_{tile.id.replace('-', '_')}_{dtype}"
            else:
                assert got == 500, (tile.id, dtype)


def test_tile_structs_carry_exactly_the_fields_of_the_table(rendering: Rendering) -> None:
    for tile in FAMILY.tiles:
        path = f"tilewright/generated/gemm_4bit/Tile_{tile.id.replace('-', '_')}.cuh"
        if path not in rendering.outputs.files:
            continue
        found = dict(re.findall(r"static constexpr int k(\w+) = (\d+);", rendering.outputs.files[path]))
        found.pop("SmemBytes", None)
        ints = {k: str(v) for k, v in tile.fields.items() if isinstance(v, int)}
        wanted = {"".join(p.capitalize() for p in k.split("_")): v for k, v in ints.items()}
        assert found == wanted, tile.id


@pytest.mark.parametrize("tile", [-1, len(FAMILY.tiles), 1 << 20])
def test_a_number_outside_the_table_is_an_error(library: tuple[Any, list[str]], tile: int) -> None:
    assert library[0].probe_launch(tile, 0) == 500


def test_the_error_names_tile_type_arch_shape_and_what_is_built(library: tuple[Any, list[str]]) -> None:
    text = ctypes.create_string_buffer(400)
    tiles = [t.id for t in FAMILY.tiles]
    library[0].probe_text(tiles.index("32x64-64"), list(TREE.archs).index("sm80"), 1, text, 400)
    message = text.value.decode()
    start = "gemm_4bit: tile 32x64-64 (number 4) with bf16 is not built for sm80 (M=3, N=4096, K=11008). Built: simt-1"
    assert message.startswith(start)
    assert "32x64-128" in message


def test_the_error_text_never_leaves_its_buffer(library: tuple[Any, list[str]]) -> None:
    for size in range(1, 300, 7):
        text = ctypes.create_string_buffer(b"\xff" * 400, 400)
        library[0].probe_text(3, 0, 0, text, size)
        assert text.raw[size:] == b"\xff" * (400 - size)
        assert b"\0" in text.raw[:size]


def test_a_tile_missing_from_the_switch_does_not_compile(rendering: Rendering, tmp_path: Path) -> None:
    def drop(text: str) -> str:
        return re.sub(r"    case Tile::k64x64_64:\n(?:      .*\n)+?      break;\n", "", text, count=1)

    result = _compile(_write(rendering, tmp_path, drop))
    assert result.returncode != 0
    assert "k64x64_64" in result.stderr
