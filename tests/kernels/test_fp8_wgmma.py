"""The wgmma engine of gemm_fp8 without a GPU: shared memory of its tiles, machine code of one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from math import gcd
from pathlib import Path

import pytest

from .test_headers import INCLUDE, cuda_tool

HERE = Path(__file__).parent


def harness_tiles() -> dict[str, list[int]]:
    """Every tile of fp8_wgmma_tiles.h: its name and its numbers."""
    text = (HERE / "fp8_wgmma_tiles.h").read_text()
    found = re.findall(r"^  TILE\((\w+), ([\d, ]+)\)", text, re.MULTILINE)
    return {name: [int(number) for number in numbers.split(",")] for name, numbers in found}


def expected_bytes(numbers: list[int]) -> int:
    """The formula of wgmma_plan.h, written down a second time."""
    mt, nt, stages, swap, consumers, _, promote, _, _, split_k, occupancy = numbers
    rows = gcd(64, 2 * mt) if swap else 64
    ring = stages * (mt + nt) * 128
    share = -(-mt // 8 // split_k) * nt // 64 if swap else nt // 8 * mt // 64 // split_k
    exchange = (split_k - 1) * share * 2048
    scales = stages * (mt + 4) * 4 if promote else 0
    other = ring + exchange + scales + 16 * stages + (8 if split_k > 1 else 0) + 1024
    one = consumers * rows * 128
    return other + (2 * one if (other + 2 * one + 1024) * occupancy <= 228 * 1024 else one)


def struct_of(name: str, numbers: list[int]) -> str:
    words = ("Mt", "Nt", "Stages", "Swap", "Consumers", "Pingpong", "Promote", "ClusterM", "ClusterN", "SplitK")
    fields = zip((*words, "Occupancy"), numbers, strict=True)
    constants = ", ".join(f"k{word} = {number}" for word, number in fields)
    return (
        f"struct {name} {{ static constexpr tilewright::Engine kEngine = tilewright::Engine::kWgmma; "
        f"static constexpr int kKc = 128, {constants}; }};\n"
    )


def test_shared_memory_of_every_tile_of_the_harness(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    tiles = harness_tiles()
    assert len(tiles) > 20
    structs = "".join(struct_of(name, numbers) for name, numbers in tiles.items())
    prints = "".join(
        f'std::printf("{name} %d\\n", tilewright::gemm_fp8::WgmmaGeometry<{name}>::kBytes);\n' for name in tiles
    )
    source = tmp_path / "smem.cpp"
    include = '#include <cstdio>\n#include "tilewright/gemm_fp8/wgmma_plan.h"\n'
    source.write_text(f"{include}{structs}int main() {{ {prints} }}\n")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]
    subprocess.run([compiler, *flags, source, "-o", tmp_path / "smem"], check=True)
    printed = subprocess.run([tmp_path / "smem"], check=True, capture_output=True, text=True).stdout
    found = {name: int(value) for name, value in (line.split() for line in printed.splitlines())}
    assert found == {name: expected_bytes(numbers) for name, numbers in tiles.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "products"), [("f128x128t_pp", 8), ("p128x128_c", 16)])
def test_machine_code(name: str, products: int, tmp_path: Path) -> None:
    """Products of 64x128x32: a stage's 4 for two blocks of rows; 4 each of the first stage, two in turn, a last one."""
    nvcc, cuobjdump = cuda_tool("nvcc"), cuda_tool("cuobjdump")
    if nvcc is None or cuobjdump is None:
        pytest.skip("needs nvcc and cuobjdump")
    source, binary = tmp_path / "fp8.cu", tmp_path / "fp8.cubin"
    source.write_text(
        '#include "tilewright/gemm_fp8/config.h"\n#include "tilewright/gemm_fp8/wgmma.cuh"\n'
        f"{struct_of(name, harness_tiles()[name])}"
        "template cudaError_t tilewright::gemm_fp8::EngineLauncher<tilewright::Engine::kWgmma>::launch<"
        f"tilewright::GemmFp8Config<{name}, __nv_bfloat16>>(const tilewright::GemmFp8Args&, cudaStream_t);\n"
    )
    arch = ["-gencode", "arch=compute_90a,code=sm_90a"]
    command = [nvcc, "-std=c++17", "-O3", *arch, f"-I{INCLUDE}", "-Xptxas", "-v", "-cubin", source, "-o", binary]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert "C75" not in log, "products are serialised"
    listing = subprocess.run(
        [cuobjdump, "--dump-sass", binary],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": str(Path(cuobjdump).parent)},
    ).stdout
    shapes = Counter(re.findall(r"QGMMA\.(64x128x32\.F32\.E[45]M[23]\.E[45]M[23])", listing))
    e5m2 = "E4M3.E5M2" if name.startswith("f") else "E5M2.E4M3"
    assert shapes == {"64x128x32.F32.E4M3.E4M3": products, f"64x128x32.F32.{e5m2}": products}
    assert len(re.findall(r"\b(?:LDL|STL)\b", listing)) <= 16
