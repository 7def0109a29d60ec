"""Tiles of the tests: every field that a kernel asks for, small shapes."""

from __future__ import annotations

from tilewright_codegen.emulate.build import Target

SM90, SM100, SM103, SM107, SM120 = (9, 0), (10, 0), (10, 3), (10, 7), (12, 0)

WGMMA_4BIT = dict(mt=16, nt=64, kc=64, stages=3, cluster_n=1, split_k=1, occupancy=2, lut_parts=0, group_parts=2)
DECODE_4BIT = dict(mb=8, kb=2, warps_k=8, warps_n=1, cluster=1, lut=4, ring_kb=20, occupancy=2, per_sm=1)
MMA_4BIT = dict(mt=32, nt=64, kc=64, stages=3, warps_m=1, warps_n=2, warps_k=1)
WGMMA_FP8 = dict(
    mt=64,
    nt=64,
    kc=128,
    stages=3,
    swap=0,
    consumers=1,
    pingpong=0,
    promote=0,
    cluster_m=1,
    cluster_n=1,
    split_k=1,
    occupancy=2,
)
TCGEN05 = dict(
    pair="1x1",
    nt=128,
    cluster=2,
    stages=3,
    k_bytes=32,
    rings="joint",
    collector_b=False,
    early_a_release=False,
    multicast_32b=False,
    accumulators=2,
    overlap=False,
    supergroup=8,
)
RUBIN = dict(
    TCGEN05,
    pair="2x1",
    nt=128,
    cluster=4,
    k_bytes=64,
    rings="split",
    collector_b=True,
    early_a_release=True,
    accumulators=1,
)


def wgmma_4bit(dtype: str = "bf16", **fields: int) -> Target:
    return Target("gemm_4bit", "wgmma", "wgmma", {**WGMMA_4BIT, **fields}, SM90, dtype)


def decode_4bit(dtype: str = "bf16", **fields: int) -> Target:
    return Target("gemm_4bit", "decode", "decode", {**DECODE_4BIT, **fields}, SM90, dtype)


def mma_4bit(dtype: str = "bf16", **fields: int) -> Target:
    return Target("gemm_4bit", "mma_m16n8k16", "mma", {**MMA_4BIT, **fields}, SM90, dtype)


def simt_4bit(dtype: str = "bf16", **fields: int) -> Target:
    return Target("gemm_4bit", "simt", "simt", dict(mb=2, warps=2) | fields, SM90, dtype)


def wgmma_fp8(dtype: str = "bf16", **fields: int) -> Target:
    return Target("gemm_fp8", "wgmma", "wgmma", {**WGMMA_FP8, **fields}, SM90, dtype)


def tcgen05_fp8(cc: tuple[int, int] = SM100, dtype: str = "bf16", **fields: int | str) -> Target:
    return Target("gemm_fp8", "tcgen05", "tcgen05", {**TCGEN05, "promote": False, **fields}, cc, dtype)


def tcgen05_nvfp4(cc: tuple[int, int] = SM100, dtype: str = "bf16", **fields: int | str) -> Target:
    return Target("gemm_nvfp4", "tcgen05", "tcgen05", {**TCGEN05, **fields}, cc, dtype)


def rubin_nvfp4(dtype: str = "bf16", **fields: int | str) -> Target:
    return Target("gemm_nvfp4", "tcgen05", "rubin", {**RUBIN, **fields}, SM107, dtype)


def mma_nvfp4(dtype: str = "bf16") -> Target:
    fields = dict(mt=64, nt=64, kc=256, stages=3, warps_m=2, warps_n=2)
    return Target("gemm_nvfp4", "mma_block_scaled", "mma", fields, SM120, dtype)
