"""Resource formulas of gemm_fp8 and gemm_nvfp4: what the kernels' headers compute, and what they refuse."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tilewright_codegen.diagnostics import Location
from tilewright_codegen.expr import format_node
from tilewright_codegen.images import images_of
from tilewright_codegen.ir import Tile
from tilewright_codegen.models import tile_models
from tilewright_codegen.render import render
from tilewright_codegen.resources import contradictions, is_legal, needs
from tilewright_codegen.tree import load_tree
from tilewright_codegen.variants import parse_archs

ROOT = Path(__file__).parents[2]
TREE = load_tree(str(ROOT / "specs"))
FAMILIES = ("gemm_fp8", "gemm_nvfp4")
DEFAULTS: dict[tuple[str, str], dict[str, Any]] = {
    ("gemm_fp8", "wgmma"): {"mt": 128, "nt": 128, "kc": 128, "stages": 4},
    ("gemm_fp8", "decode"): {"mb": 8, "warps": 8, "warps_k": 4, "depth": 4, "a_kb": 36},
    ("gemm_fp8", "mma_m16n8k32"): {"mt": 64, "nt": 64, "kc": 128, "stages": 4, "warps_m": 2, "warps_n": 2},
    ("gemm_nvfp4", "mma_block_scaled"): {"mt": 64, "nt": 64, "kc": 256, "stages": 4, "warps_m": 2, "warps_n": 2},
}


def tile(family: str, engine: str, **fields: Any) -> Tile:
    """A tile with the usual fields, changed."""
    model = tile_models(family)[engine]
    return Tile("t", engine, model(id="t", **{**DEFAULTS[family, engine], **fields}), (), Location("tiles.yaml"))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_kernels_headers_compute_the_same_shared_memory(family: str, tmp_path: Path) -> None:
    render(TREE, images_of(parse_archs("all", TREE))).outputs.write(tmp_path)
    headers = sorted((tmp_path / "tilewright/generated" / family).glob("Tile_*.cuh"))
    assert len(headers) == sum(1 for t in TREE.families[family].tiles)
    source = tmp_path / "all.cpp"
    source.write_text("".join(f'#include "{header}"\n' for header in headers))
    assert all("static_assert(smem_bytes<" in header.read_text() for header in headers)
    includes = [f"-I{tmp_path}", f"-I{ROOT / 'csrc_templates/include'}"]
    done = subprocess.run(
        ["g++", "-std=c++17", "-fsyntax-only", *includes, str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tile_is_legal_where_rules_name_it(family: str) -> None:
    for item in TREE.families[family].tiles:
        assert contradictions(item) == (), item.id
        served = [a.name for a in TREE.archs.values() if is_legal(a.profile, item)]
        assert served, item.id


@pytest.mark.parametrize(
    ("engine", "fields", "text"),
    [
        ("wgmma", {"mt": 64}, "mt is 64; a multiple of 128 up to 256 is expected"),
        ("wgmma", {"mt": 512}, "mt is 512; a multiple of 128 up to 256 is expected"),
        ("wgmma", {"swap": 1, "mt": 80}, "mt is 80; one of 16, 32, 48"),
        ("wgmma", {"swap": 1, "consumers": 3, "nt": 192, "mt": 256}, "mt is 256; 192 is the most for three consumers"),
        ("wgmma", {"cluster_m": 2, "cluster_n": 2}, "a tile of one operand is shared by two blocks at most"),
        ("wgmma", {"split_k": 3}, "split_k is 3; with `swap: 0` 2 is expected, a block for each consumer"),
        ("wgmma", {"swap": 1, "split_k": 2, "pingpong": 1}, "split_k needs `pingpong: 0`"),
        ("wgmma", {"promote": 1, "nt": 112}, "128x112: mt is a multiple of 16 and nt one of 64"),
        ("wgmma", {"promote": 1, "pingpong": 1}, "promote needs `pingpong: 0`"),
        ("wgmma", {"stages": 1}, "a ring has at least 2 stages"),
        ("wgmma", {"mt": 256, "nt": 256}, "its accumulators take 256 registers a thread"),
        ("decode", {"mb": 12}, "mb is 12; a multiple of 8 up to 64 is expected"),
        ("decode", {"warps": 64}, "64 warps in a block, 32 are the most"),
        ("decode", {"warps_k": 3}, "warps_k 3 does not divide warps 8"),
        ("decode", {"depth": 1}, "depth is 1; 2 to 16 are expected"),
        ("decode", {"per_sm": 2}, "per_sm 2 is more than occupancy 1"),
        ("decode", {"cluster": 2}, "warps_k is 1 with a cluster"),
        ("decode", {"cluster": 1, "warps": 6}, "warps is 6; with a cluster 4 or 8 are expected"),
        ("decode", {"cluster": 1, "mb": 24}, "mb is 24; with a cluster one of 8, 16, 32, 48, 64 is expected"),
        ("decode", {"cluster": 1, "depth": 1}, "a ring has at least 2 stages"),
        ("mma_m16n8k32", {"mt": 40}, "mt 40 is not a multiple of 16 * warps_m (32)"),
        ("mma_m16n8k32", {"nt": 48}, "nt 48 is not a multiple of 16 * warps_n (32)"),
        ("mma_m16n8k32", {"nt": 96}, "nt over warps_n is 48; a divisor of 128 is expected"),
    ],
)
def test_contradictions(engine: str, fields: dict[str, Any], text: str) -> None:
    assert contradictions(tile("gemm_fp8", engine)) == ()
    assert text in " ".join(contradictions(tile("gemm_fp8", engine, **fields)))


def test_contradictions_of_nvfp4() -> None:
    assert contradictions(tile("gemm_nvfp4", "mma_block_scaled")) == ()
    assert "mt is 96; a divisor or a multiple of 128" in " ".join(
        contradictions(tile("gemm_nvfp4", "mma_block_scaled", mt=96))
    )


def test_what_kernels_refuse_is_required() -> None:
    """Sums that stay in the tensor core serve neither block scales nor accurate accumulation."""
    requires = {t.id: {format_node(c) for c in t.requires} for t in TREE.families["gemm_fp8"].tiles}
    assert {"scaling != block", "accumulation == fast"} <= requires["f128x128-128"]
    assert requires["p128x128-128"] == {"K % 16 == 0"}
    assert "grouping == none" in requires["p64x128-128-s2"]
    assert {"M <= 8", "N <= num_sms * 256", "grouping == none"} <= requires["d8x8-pair"]
    assert {"N * 2 + 64 <= num_sms * 64", "ceil_div(K, 256) * 72 <= 24_576"} <= requires["d16-s2"]
    assert {"N <= num_sms * 512", "ceil_div(K, 128) * 96 <= 24_576"} <= requires["d8-s1-pair"]


def test_accumulators_are_counted_where_they_are() -> None:
    """The warpgroup that loads gives its registers up: two consumers with 192 each fit."""
    wide = tile("gemm_fp8", "wgmma", mt=256, promote=1)
    assert (needs(wide).accumulators, needs(wide).idle_threads) == (192, 128)
    assert is_legal(TREE.archs["sm90"].profile, wide)
