"""Shared memory, registers, tensor memory and cluster limits, computed from the fields of a tile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tilewright_codegen.cli import main
from tilewright_codegen.diagnostics import Location
from tilewright_codegen.ir import Tile
from tilewright_codegen.models import ArchProfile, GenericTile, tile_models
from tilewright_codegen.resources import contradictions, is_legal, needs, shortfalls, tmem_allocation
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
PORT = SPECS / "examples" / "bitsandbytes-0.50"


def _tile(engine: str, family: str = "gemm_4bit", **fields: Any) -> Tile:
    model = tile_models(family).get(engine, GenericTile)
    return Tile("t", engine, model(id="t", **fields), (), Location("tiles.yaml"))


def _tcgen05(**fields: Any) -> Tile:
    usual = {"pair": "2x1", "cluster": 4, "stages": 3, "k_bytes": 64}
    return _tile("tcgen05", f"gemm_{fields.pop('dtype', 'nvfp4')}", **{**usual, **fields})


def _mma(**fields: Any) -> Tile:
    return _tile("mma_m16n8k16", **{"mt": 64, "nt": 64, "kc": 64, "stages": 3, "warps_m": 4, "warps_n": 2, **fields})


def _arch(name: str) -> ArchProfile:
    return load_tree(SPECS).archs[name].profile


@pytest.mark.parametrize(
    ("dtype", "stages", "kib"),
    [("nvfp4", 3, 202), ("nvfp4", 4, 258), ("nvfp4", 5, 314), ("fp8", 4, 209), ("fp8", 5, 257), ("fp8", 6, 305)],
)
def test_published_rubin_totals(dtype: str, stages: int, kib: int) -> None:
    tile = _tcgen05(dtype=dtype, stages=stages)
    assert needs(tile).smem_bytes == kib * 1024
    assert is_legal(_arch("sm107"), tile)


@pytest.mark.parametrize(("dtype", "deepest"), [("nvfp4", 5), ("fp8", 6)])
def test_one_more_stage_does_not_fit_rubin(dtype: str, deepest: int) -> None:
    (text,) = shortfalls(_arch("sm107"), _tcgen05(dtype=dtype, stages=deepest + 1))
    assert "the oversized limit is 335872 B" in text
    assert text.endswith(f"stages {deepest} would fit")


def test_only_three_stages_fit_without_the_oversized_mode() -> None:
    rubin = _arch("sm107")
    plain = rubin.model_copy(update={"features": tuple(f for f in rubin.features if f != "smem_oversized")})
    assert is_legal(plain, _tcgen05())
    found = shortfalls(plain, _tcgen05(stages=4))
    assert found[0] == "it needs the feature smem_oversized, which the arch lacks"
    assert "it needs 264192 B of shared memory, the opt-in limit is 232448 B, over by 31744 B" in found[1]


def test_a_tile_of_another_engine_must_name_the_oversized_mode() -> None:
    large = {"mt": 128, "nt": 256, "kc": 128, "stages": 5, "warps_n": 8}
    (text,) = shortfalls(_arch("sm107"), _mma(**large))
    assert "if `needs` named smem_oversized" in text
    assert is_legal(_arch("sm107"), _mma(**large, needs=("smem_oversized",)))


def test_block_scales_of_a_stacked_pair_need_the_exclusive_columns() -> None:
    tile = _tcgen05(k_bytes=32)
    assert needs(tile).tmem_columns == 512 + 64
    assert "has 512 and there is no exclusive one" in " ".join(shortfalls(_arch("sm100"), tile))
    assert tmem_allocation(_arch("sm107"), _tcgen05()) == 576


def test_all_of_the_shared_memory_may_be_used() -> None:
    most = needs(_mma()).smem_bytes
    assert is_legal(_arch("sm80").model_copy(update={"smem_optin_bytes": most}), _mma())
    assert not is_legal(_arch("sm80").model_copy(update={"smem_optin_bytes": most - 1}), _mma())


def test_an_exclusive_allocation_has_a_limit_too() -> None:
    rubin = _arch("sm107")
    assert rubin.tmem is not None
    smaller = rubin.model_copy(update={"tmem": rubin.tmem.model_copy(update={"exclusive_columns": 575})})
    assert tmem_allocation(smaller, _tcgen05()) is None
    assert not is_legal(smaller, _tcgen05())


def test_ordinary_allocations_are_powers_of_two() -> None:
    single = _tcgen05(pair="1x1", k_bytes=32)
    assert needs(single).tmem_columns == 256 + 48
    assert tmem_allocation(_arch("sm100"), single) == 512
    unscaled = _tcgen05(pair="1x1", k_bytes=32, dtype="fp8")
    assert tmem_allocation(_arch("sm100"), unscaled) == 256
    assert tmem_allocation(_arch("sm90"), single) is None


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"early_a_release": True}, "early_a_release needs `rings: split`"),
        ({"collector_b": True, "pair": "1x1"}, "collector_b needs `pair: 2x1`"),
        ({"cluster": 3}, "CTAs work in pairs"),
        ({"stages": 1}, "a ring has at least 2 stages"),
        ({"promote": True}, "promote is for fp8"),
    ],
)
def test_tcgen05_contradictions(fields: dict[str, Any], text: str) -> None:
    assert contradictions(_tcgen05()) == ()
    assert text in " ".join(contradictions(_tcgen05(**fields)))


def test_rubin_features_follow_from_the_fields() -> None:
    rich = _tcgen05(collector_b=True, early_a_release=True, multicast_32b=True, rings="split", stages=4)
    assert contradictions(rich) == ()
    assert is_legal(_arch("sm107"), rich)
    lacking = " ".join(shortfalls(_arch("sm100"), rich))
    features = ("mma_k64", "collector_b", "early_a_release", "multicast_32b", "tmem_exclusive", "smem_oversized")
    for feature in features:
        assert f"it needs the feature {feature}, which the arch lacks" in lacking


def test_cluster_limit() -> None:
    (text,) = shortfalls(_arch("sm107"), _tcgen05(cluster=16))
    assert text == "its cluster has 16 blocks, the limit is 8"


@pytest.mark.parametrize(
    ("fields", "smem"),
    [
        ({"mt": 32, "nt": 64, "kc": 64, "stages": 4}, 30272),
        ({"mt": 128, "nt": 128, "kc": 64, "stages": 4}, 91712),
        ({"mt": 32, "nt": 256, "kc": 128, "stages": 3}, 100160),
        ({"mt": 32, "nt": 256, "kc": 128, "stages": 2, "weights": "dequantised", "pad": 8}, 156672),
    ],
)
def test_mma_shared_memory(fields: dict[str, int], smem: int) -> None:
    assert needs(_mma(**fields)).smem_bytes == smem


def test_shared_memory_message_has_the_arithmetic() -> None:
    tile = _mma(mt=32, nt=256, kc=128, stages=4, weights="dequantised", pad=8)
    assert shortfalls(_arch("sm121"), tile) == (
        "it needs 313344 B of shared memory, the opt-in limit is 101376 B, over by 211968 B",
    )
    assert shortfalls(_arch("sm80"), tile)[0].endswith("over by 146432 B; stages 2 would fit")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"mt": 48}, "mt 48 is not a multiple of 8 * warps_m (32)"),
        ({"nt": 24}, "nt 24 is not a multiple of 16 * warps_n (32)"),
        ({"kc": 96}, "kc 96 is not a multiple of 64 * warps_k (64)"),
        ({"kc": 128, "warps_k": 4}, "kc 128 is not a multiple of 64 * warps_k (256)"),
        (
            {"mt": 128, "nt": 128, "kc": 256, "stages": 2, "warps_k": 4},
            "the 196608 B of partial sums of warps_k 4 do not fit in the ring of 181248 B",
        ),
        ({"stages": 1}, "a ring has at least 2 stages"),
        ({"mt": 512, "warps_m": 16, "warps_n": 4, "nt": 64}, "2048 threads in a block, 1024 are the most"),
    ],
)
def test_mma_contradictions(fields: dict[str, int], text: str) -> None:
    assert text in contradictions(_mma(**fields))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"mb": 12}, "mb is 12; 8, 16, 24 or 32 is expected"),
        ({"ring_kb": 60}, "ring_kb 60 does not hold 2 stages of 38144 bytes"),
        (
            {"kb": 12, "warps_k": 16},
            "kb 12 and warps_k 16 make 48 chunks of activations; at most 32 are expected",
        ),
        ({"lut": 0, "ring_kb": 80}, "ring_kb 80 leaves 110592 B for 135168 B of activations and sums received"),
    ],
)
def test_decode_contradictions(fields: dict[str, int], text: str) -> None:
    roomy = {"mb": 16, "kb": 8, "warps_k": 8, "lut": 5, "ring_kb": 132}
    assert contradictions(_tile("decode", **roomy)) == ()
    assert text in contradictions(_tile("decode", **{**roomy, **fields}))


def test_accumulators_must_fit_the_registers() -> None:
    found = " ".join(shortfalls(_arch("sm90"), _mma(mt=256, nt=256, warps_m=2, warps_n=2)))
    assert "its accumulators alone take 512 registers a thread, of 255" in found


def test_simt_uses_no_dynamic_shared_memory() -> None:
    tile = _tile("simt", mb=4, warps=4)
    assert (needs(tile).smem_bytes, needs(tile).threads) == (0, 128)
    assert contradictions(_tile("simt", mb=3, warps=4)) == ("mb is 3; 1, 2, 4 or 8 is expected",)


def test_engine_that_an_arch_lacks() -> None:
    (text,) = shortfalls(_arch("sm80"), _tcgen05())
    assert text == "its engine tcgen05 does not exist there (engines: simt, mma_m16n8k16)"


def test_port_legality_follows_from_shared_memory() -> None:
    """The cards on which upstream traps its 153 KiB tile are those where it does not fit."""
    tree = load_tree(PORT)
    tile = tree.families["gemm_4bit"].tile_by_id["32x256-128"]
    illegal = [n for n, a in tree.archs.items() if tile.engine in a.profile.engines and not is_legal(a.profile, tile)]
    assert illegal == ["sm86", "sm89", "sm120", "sm121", "unknown"]


def test_table_and_json() -> None:
    run = CliRunner().invoke(main, ["resources", "--specs", str(PORT), "--arch", "sm90", "--arch", "sm121"])
    assert run.exit_code == 0
    row = next(line.split() for line in run.output.splitlines() if line.startswith("32x256-128"))
    assert row == ["32x256-128", "mma", "153.0", "256", "-", "-", "67%", "no", "[1]"]
    assert (
        "[1] 32x256-128: it needs 156672 B of shared memory, the opt-in limit is 101376 B, over by 55296 B"
        in run.output
    )
    rows = json.loads(CliRunner().invoke(main, ["resources", "--specs", str(SPECS), "--format", "json"]).output)
    assert all(r["archs"]["sm121"]["legal"] for r in rows if r["engine"] == "mma_m16n8k16")


def test_unknown_arch_is_one_line() -> None:
    run = CliRunner().invoke(main, ["resources", "--specs", str(SPECS), "--arch", "sm91"])
    assert run.exit_code == 1
    assert run.output == "error: there is no arch 'sm91'.\n  hint: did you mean 'sm90'?\n"
