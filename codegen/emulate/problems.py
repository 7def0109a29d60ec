"""Small problems that show a tile's edges: ragged rows and columns, a K loop deeper and one shallower than the ring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .build import Target
from .cases import Problem


@dataclass(frozen=True)
class Shape:
    """What one cluster works on at a time."""

    rows: int
    columns: int
    k: int  # elements of a stage
    stages: int  # of the ring, over all blocks that share out K
    unit: int = 64  # K is a multiple of it
    most_rows: int | None = None
    most_k: int | None = None


def shape_of(target: Target) -> Shape:
    """The tile of a cluster."""
    f: Mapping[str, Any] = target.fields
    split = int(f.get("split_k", 1))
    if target.engine == "simt":
        return Shape(f["mb"], f["warps"], 256, 1, unit=8)
    if target.engine == "decode" and target.family == "gemm_4bit":
        most = f["cluster"] * f["warps_k"] * f["kb"] * 64
        return Shape(f["mb"], 16 * f["warps_n"], 64, f["cluster"] * 2, most_rows=f["mb"], most_k=most)
    if target.engine == "decode":
        columns = 64 * f["warps"] // f["warps_k"]
        return Shape(f["mb"], columns, 128, f["depth"] * f["warps_k"], unit=128, most_rows=f["mb"])
    if target.engine == "tcgen05":
        kc = 256 if target.family == "gemm_nvfp4" else 128
        stacked = 2 if f["pair"] == "2x1" else 1
        unit = 64 if target.family == "gemm_nvfp4" else 32
        return Shape(256 * stacked, f.get("nt", 256) * f["cluster"] // 2, kc, f["stages"], unit=unit)
    rows, columns = f["mt"] * f.get("cluster_m", 1), f["nt"] * f.get("cluster_n", 1)
    unit = {"gemm_4bit": 64, "gemm_fp8": 16, "gemm_nvfp4": 64}[target.family]
    return Shape(rows, columns, f["kc"], f["stages"] * split, unit=unit)


def small_problems(target: Target) -> list[Problem]:
    """A deep and a shallow problem, both with ragged edges, with words that reach different code."""
    shape = shape_of(target)
    deep = (shape.stages + 2) * shape.k
    shallow = shape.k
    ragged = shape.k // 2 if shape.k // 2 % shape.unit == 0 and target.engine != "decode" else 0
    if shape.most_k is not None:
        deep, shallow = min(deep, shape.most_k), min(shallow, shape.most_k)
    tall = shape.rows + 5 if shape.most_rows is None else max(1, shape.rows - 3)
    sizes = [(tall, shape.columns + 8, deep), (min(37, tall), shape.columns - 3, shallow + ragged)]
    problems = []
    for (m, n, k), words in zip(sizes, words_of(target), strict=True):
        multiple = 128 if words.get("scaling") == "block" else 1
        rounded = -(-k // multiple) * multiple
        problems.append(Problem(m, n, rounded, target.dtype, words=words))
    return problems


WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "gemm_4bit": {
        "quant_type": ("nf4", "fp4", "e2m1"),
        "layout": ("packed", "prepacked"),
        **dict.fromkeys(("blocksize", "pad", "nested", "bias"), ()),
    },
    "gemm_fp8": {
        "scaling": ("tensor", "row", "block"),
        "grouping": ("none", "contiguous", "masked"),
        "a_type": ("e4m3", "e5m2"),
        **dict.fromkeys(("groups", "fast_accum", "pad", "pad_out", "bias"), ()),
    },
    "gemm_nvfp4": dict.fromkeys(("pad_out", "bias"), ()),
}
"""The words that a family's problems know, and what each may be; none: a number from 0 on."""


def words_of(target: Target) -> list[dict[str, str | int]]:
    """The words of the deep and of the shallow problem."""
    if target.family == "gemm_4bit":
        return [{"quant_type": "nf4", "blocksize": 64}, {"quant_type": "e2m1", "bias": 0}]
    if target.family == "gemm_nvfp4":
        return [{}, {"bias": 0, "pad_out": 3}]
    promote = bool(target.fields.get("promote", target.engine not in ("wgmma", "tcgen05")))
    if promote:
        return [
            {"scaling": "block", "fast_accum": 0},
            {"scaling": "row", "fast_accum": 0, "a_type": "e5m2", "pad_out": 3},
        ]
    return [{"scaling": "row"}, {"scaling": "tensor", "a_type": "e5m2", "bias": 0, "pad_out": 3}]
