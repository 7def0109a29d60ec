"""Problems whose results on an H200 are kept in h200.npz, beside what the emulator gives for the same operands."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright_codegen.emulate.build import Target
from tilewright_codegen.emulate.cases import Problem

from .tiles import SM90, decode_4bit, mma_4bit, simt_4bit, wgmma_4bit, wgmma_fp8


@dataclass(frozen=True)
class Recorded:
    name: str
    target: Target
    problem: Problem
    same_bits: bool  # whether the order of adding is defined, or does not matter


def mma_fp8(dtype: str = "bf16") -> Target:
    fields = dict(mt=64, nt=64, kc=128, stages=4, warps_m=2, warps_n=2)
    return Target("gemm_fp8", "mma_m16n8k32", "mma", fields, SM90, dtype)


def _both(name: str, target: Target, m: int, n: int, k: int, **words: str | int) -> list[Recorded]:
    """Exact operands, whose sums do not depend on the order, and random ones."""
    return [
        Recorded(f"{name}/{values}", target, Problem(m, n, k, target.dtype, values, 7, words), values == "exact")
        for values in ("exact", "random")
    ]


RECORDED = (
    *_both("wgmma", wgmma_4bit(), 21, 72, 576, quant_type="e2m1"),
    *_both("wgmma-nf4", wgmma_4bit(), 21, 72, 320),
    *_both("wgmma-f16-nested", wgmma_4bit("f16", lut_parts=3), 21, 72, 320, quant_type="fp4", nested=1),
    *_both("wgmma-prepacked", wgmma_4bit(kc=128), 21, 80, 640, quant_type="e2m1", layout="prepacked"),
    *_both("wgmma-shared-a", wgmma_4bit(kc=128, mt=32, cluster_n=2), 40, 200, 640, quant_type="e2m1"),
    *_both("wgmma-split-k", wgmma_4bit(split_k=2, mt=64), 61, 72, 1024, quant_type="e2m1"),
    *_both("decode", decode_4bit(), 5, 88, 512, quant_type="e2m1"),
    *_both("decode-nf4", decode_4bit("f16"), 5, 88, 512),
    *_both("decode-pair", decode_4bit(cluster=2), 7, 300, 1024, quant_type="e2m1"),
    *_both("decode-empty-part", decode_4bit(cluster=2), 7, 30, 64, quant_type="e2m1"),
    *_both("mma", mma_4bit(), 37, 72, 352, quant_type="e2m1"),
    *_both("fp8", wgmma_fp8(), 70, 72, 640, scaling="row"),
    *_both("fp8-e5m2", wgmma_fp8("f16", nt=128), 70, 200, 656, a_type="e5m2"),
    *_both("fp8-block", wgmma_fp8(promote=1), 70, 72, 640, scaling="block", fast_accum=0),
    *_both("fp8-swapped", wgmma_fp8(swap=1, mt=16, split_k=2), 21, 72, 1024, scaling="row"),
    *_both("fp8-shared-b", wgmma_fp8(cluster_m=2), 140, 72, 640),
    *_both(
        "fp8-groups",
        wgmma_fp8("f32", promote=1),
        70,
        72,
        384,
        grouping="masked",
        groups=3,
        scaling="block",
        fast_accum=0,
    ),
    *_both("fp8-mma", mma_fp8(), 70, 72, 400, scaling="row"),
    Recorded("simt/random", simt_4bit(), Problem(5, 24, 320, "bf16", "random", 7, {}), True),
    Recorded(
        "simt-f32/random",
        simt_4bit("f32"),
        Problem(5, 24, 300, "f32", "random", 7, {"quant_type": "fp4", "blocksize": 32}),
        True,
    ),
)
