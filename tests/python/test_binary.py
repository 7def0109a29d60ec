"""Reading machine code back: what is there against what was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright_codegen.binary import BinaryError, attribute, compare, parse_symbols, read_expected, read_library

KERNEL = "FUNC          GLOBAL  DEFAULT    ENTRY                                {}"
SIMT = "_ZN10tilewright7kernels11simt_kernelINS_14Gemm4bitConfigINS_9gemm_4bit11Tile_simt_1E6__halfEEEEvNS_4ArgsE"
MMA = "_ZN10tilewright7kernels10mma_kernelINS_14Gemm4bitConfigINS_9gemm_4bit14Tile_32x64_128E13__nv_bfloat16EEEEvi"
DEQUANTISE = "_ZN10tilewright7kernels22dequantize_4bit_kernelIfEEvNS_18Dequantize4bitArgsE"


def dump(images: dict[str, list[str]]) -> str:
    parts = []
    for arch, symbols in images.items():
        header = f"\nFatbin elf code:\n================\narch = {arch}\ncode version = [1,8]\n\nsymbols:\n"
        parts.append(header + "\n".join(KERNEL.format(symbol) for symbol in symbols) + "\n")
    return "".join(parts)


@pytest.fixture
def expected_file(tmp_path: Path) -> Path:
    families = {"gemm_4bit": {"sm_80": ["simt-1", "32x64-128"], "sm_90a": ["simt-1"]}}
    path = tmp_path / "images.json"
    path.write_text(json.dumps({"schema": "images/1", "families": families}))
    return path


def test_attribution() -> None:
    assert attribute(SIMT) == ("gemm_4bit", "Tile_simt_1")
    assert attribute(MMA) == ("gemm_4bit", "Tile_32x64_128")
    assert attribute(DEQUANTISE) == ("support", None)
    # A kernel of the family's own namespace refers back to it, and may be called after the family.
    inside = (
        "_ZN10tilewright8gemm_fp815gemm_fp8_kernelINS_13GemmFp8ConfigINS0_17Tile_w128x128_128EfEEEEvNS_11GemmFp8ArgsE"
    )
    assert attribute(inside) == ("gemm_fp8", "Tile_w128x128_128")
    # A family name that ends in a digit stands right in front of the length of the tile.
    assert attribute("_ZN1xINS_8gemm_fp89Tile_64x1E6__halfEEvv")[0] == "gemm_fp8"


def test_exactly_what_was_asked_for(expected_file: Path) -> None:
    # One image may be in several fatbins, one per object file.
    text = dump({"sm_80": [SIMT, DEQUANTISE], "sm_90a": [SIMT]}) + dump({"sm_80": [MMA], "sm_90a": [DEQUANTISE]})
    assert compare(read_expected(expected_file), parse_symbols(text)) == []


@pytest.mark.parametrize(
    ("images", "problems"),
    [
        ({"sm_80": [SIMT, MMA]}, ["sm_90a: asked for, but the library has no machine code for it (gemm_4bit)"]),
        (
            {"sm_80": [SIMT, MMA], "sm_90a": [SIMT], "sm_100": [SIMT]},
            ["sm_100: in the library, but not asked for (gemm_4bit)"],
        ),
        ({"sm_80": [SIMT], "sm_90a": [SIMT]}, ["gemm_4bit sm_80: no kernel of Tile_32x64_128"]),
        (
            {"sm_80": [SIMT, MMA], "sm_90a": [SIMT, MMA]},
            ["gemm_4bit sm_90a: Tile_32x64_128 is there, but not asked for"],
        ),
        ({"sm_80": [SIMT, MMA], "sm_90a": [DEQUANTISE]}, ["gemm_4bit sm_90a: no kernel of Tile_simt_1"]),
        (
            {"sm_80": [SIMT, MMA], "sm_90": [SIMT]},
            [
                "sm_90a: asked for, but the library has no machine code for it (gemm_4bit)",
                "sm_90: in the library, but not asked for (gemm_4bit)",
            ],
        ),
    ],
)
def test_differences_name_family_and_arch(
    expected_file: Path, images: dict[str, list[str]], problems: list[str]
) -> None:
    assert compare(read_expected(expected_file), parse_symbols(dump(images))) == problems


def test_a_tool_that_finds_nothing_is_an_error(tmp_path: Path) -> None:
    tool = tmp_path / "cuobjdump"
    tool.write_text("#!/bin/sh\necho no fatbin here\n")
    tool.chmod(0o755)
    with pytest.raises(BinaryError, match="found no machine code: no fatbin here"):
        read_library(tmp_path / "library.so", tool)
