"""The kernel headers without a GPU: shared memory, include order, where PTX may stand, machine code."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

INCLUDE = Path(__file__).parents[2] / "csrc_templates" / "include"
HEADERS = sorted(path for suffix in ("*.h", "*.cuh") for path in INCLUDE.rglob(suffix))

# What each folder may include besides itself. The families stand above the parts they are made of.
MAY_INCLUDE = {
    "ptx": {"gemm_fp8/args.h"},
    "host": {"gemm_4bit/args.h"},
    "dequant": {"ptx", "gemm_4bit/args.h"},
    "epilogue": {"ptx", "gemm_4bit/args.h"},
}

# mt, nt, kc, stages, warps_m, warps_n, warps_k
TILES = [(32, 64, 64, 3, 2, 4, 1), (16, 32, 256, 4, 1, 2, 4), (128, 128, 64, 4, 2, 4, 1)]


def folder_of(header: Path) -> str:
    return header.relative_to(INCLUDE / "tilewright").parts[0]


def tile_struct(index: int, tile: tuple[int, ...]) -> str:
    names = ("kMt", "kNt", "kKc", "kStages", "kWarpsM", "kWarpsN", "kWarpsK")
    constants = ", ".join(f"{name} = {value}" for name, value in zip(names, tile, strict=True))
    engine = "static constexpr tilewright::Engine kEngine = tilewright::Engine::kMmaM16n8k16;"
    return f"struct Tile{index} {{ {engine} static constexpr int {constants}; }};\n"


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: str(path.relative_to(INCLUDE)))
def test_instruction_text_stands_in_ptx_only(header: Path) -> None:
    found = re.findall(r"\basm\b[^;]*;", header.read_text())
    assert not found or folder_of(header) == "ptx"


@pytest.mark.parametrize(
    "header", [header for header in HEADERS if folder_of(header) in MAY_INCLUDE], ids=lambda path: path.name
)
def test_parts_do_not_include_what_is_made_of_them(header: Path) -> None:
    folder = folder_of(header)
    allowed = MAY_INCLUDE[folder] | {folder}
    for included in re.findall(r'#include "tilewright/([^"]+)"', header.read_text()):
        assert included in allowed or included.split("/")[0] in allowed


def test_smem_formula(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    source = tmp_path / "smem.cpp"
    structs = "".join(tile_struct(index, tile) for index, tile in enumerate(TILES))
    prints = "".join(f'std::printf("%d\\n", tilewright::smem_bytes<Tile{i}>());' for i in range(len(TILES)))
    source.write_text(
        f'#include <cstdio>\n#include "tilewright/gemm_4bit/smem.h"\n{structs}int main() {{ {prints} }}\n'
    )
    program = tmp_path / "smem"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]
    subprocess.run([compiler, *flags, source, "-o", program], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    expected = [
        stages * (mt * kc * 2 + nt * kc // 2 + kc // 16 * (nt + 8) * 4) + 1088 for mt, nt, kc, stages, *_ in TILES
    ]
    assert [int(line) for line in printed] == expected


def cuda_tool(name: str) -> str | None:
    """The tool on PATH, or the one in the nvidia-cuda-* wheels."""
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or [])
    folders = [str(Path(root) / "cu13" / "bin") for root in roots]
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["80", "90a", "120f"])
def test_machine_code_of_the_mma_engine(arch: str, tmp_path: Path) -> None:
    nvcc, cuobjdump, nvdisasm = (cuda_tool(name) for name in ("nvcc", "cuobjdump", "nvdisasm"))
    if nvcc is None or cuobjdump is None or nvdisasm is None:
        pytest.skip("needs nvcc, cuobjdump and nvdisasm")
    source, binary = tmp_path / "mma.cu", tmp_path / "mma.cubin"
    parameters = "(const tilewright::Gemm4bitArgs&, cudaStream_t);\n"
    body = "".join(
        f"{tile_struct(i, tile)}template cudaError_t tilewright::launch_gemm_4bit"
        f"<tilewright::Gemm4bitConfig<Tile{i}, __nv_bfloat16>>{parameters}"
        for i, tile in enumerate(TILES)
    )
    source.write_text(f'#include "tilewright/gemm_4bit/launch.cuh"\n{body}')
    gencode = ["-gencode", f"arch=compute_{arch},code=sm_{arch}"]
    command: list[str | Path] = [
        nvcc,
        "-std=c++17",
        "-O3",
        *gencode,
        f"-I{INCLUDE}",
        "-cubin",
        source,
        "-o",
        binary,
    ]
    subprocess.run(command, check=True)
    environment = {
        **os.environ,
        "NVDISASM_PATH": str(Path(nvdisasm).parent),
        "PATH": str(Path(nvdisasm).parent),
    }
    listing = subprocess.run(
        [cuobjdump, "--dump-sass", binary], check=True, capture_output=True, text=True, env=environment
    ).stdout
    instruction = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z0-9_]+)", re.MULTILINE)
    opcodes = Counter(instruction.findall(listing))
    # per tile: two steps for each half of each 64 of k that the warp takes, times its 8 x 16 products
    products = sum(mt // wm // 8 * (nt // wn // 16) * 4 * (kc // 64 // wk) for mt, nt, kc, _, wm, wn, wk in TILES)
    assert opcodes["HMMA"] == products
    assert opcodes["LDGSTS"] > 0
    assert opcodes["LDL"] == opcodes["STL"] == 0
