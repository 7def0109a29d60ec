"""Grouped products of gemm_fp8 (mixtures of experts) beside torch: a loop of _scaled_mm, and _scaled_grouped_mm."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gemm_4bit_h200 import time_peers

import tilewright

SHAPES = [(4096, 7168), (7168, 2048)]  # the experts of DeepSeek-V3: gate and up, down
GROUPS = [8, 32]
ROWS = [1, 4, 16, 64, 128]
ROTATED_BYTES = 200e6
READ_BYTES_PER_US = 4.43e6
FLOPS_PER_US = 1540e6
Call = Callable[[int], torch.Tensor]


@dataclass
class Experts:
    """Copies of `groups` weights of [N, K], and rows of A for each group: together (contiguous) or apart (masked)."""

    N: int
    K: int
    groups: int
    scaling: str
    masked: bool
    rows: list[int]

    def __post_init__(self) -> None:
        block, G = self.scaling == "block", self.groups
        total = max(self.rows) * G if self.masked else sum(self.rows)
        units = math.ceil(self.K / 128)
        self.a = torch.randn(total, self.K, device="cuda").to(torch.float8_e4m3fn)
        self.scale_a = torch.rand(total, units if block else 1, device="cuda") + 0.5
        self.scale_b = torch.rand(*((G, math.ceil(self.N / 128), units) if block else (G, self.N)), device="cuda") + 0.5
        if self.masked:
            self.a = self.a.view(G, -1, self.K)
            self.scale_a = self.scale_a.view(G, -1, self.scale_a.shape[1])
        copies = max(1, math.ceil(ROTATED_BYTES / (G * self.N * self.K)))
        one = torch.randn(self.N, self.K, device="cuda").to(torch.float8_e4m3fn)
        self.b = [one.expand(G, -1, -1).clone() for _ in range(copies)]
        counts = torch.tensor(self.rows, dtype=torch.int32, device="cuda")
        self.limits = {"group_rows": counts} if self.masked else {"group_ends": counts.cumsum(0, dtype=torch.int32)}

    def part(self, group: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of a group and their scales."""
        count = self.rows[group]
        if self.masked:
            return self.a[group, :count], self.scale_a[group, :count]
        first = sum(self.rows[:group])
        return self.a[first : first + count], self.scale_a[first : first + count]

    def peers(self) -> dict[str, Call]:
        """Calls by name; each takes the index of the call, which picks the copy."""
        fast, copies = self.scaling != "block", self.b
        parts = [(a, scale.clone()) for a, scale in map(self.part, range(self.groups))]
        limits: dict[str, Any] = {"fast_accum": fast, "static_weights": True, **self.limits}

        def own(i: int) -> torch.Tensor:
            b = copies[i % len(copies)]
            return tilewright.gemm_fp8_grouped(self.a, b, self.scale_a, self.scale_b, **limits)

        def loop(i: int) -> torch.Tensor:
            b = copies[i % len(copies)]
            for group, (a, scale) in enumerate(parts):
                scale_b = self.scale_b[group].t() if self.scaling == "block" else self.scale_b[group][None]
                last = torch._scaled_mm(a, b[group].t(), scale, scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast)
            return last

        def grouped(i: int) -> torch.Tensor:
            b = copies[i % len(copies)].transpose(1, 2)
            offsets = None if self.masked else self.limits["group_ends"]
            scales = self.scale_a.squeeze(-1), self.scale_b
            options: dict[str, Any] = dict(out_dtype=torch.bfloat16, use_fast_accum=True)
            result: torch.Tensor = torch._scaled_grouped_mm(self.a, b, *scales, offs=offsets, **options)
            return result

        calls = {"tilewright": own, "scaled_mm loop": loop}
        if hasattr(torch, "_scaled_grouped_mm") and self.scaling == "row":
            calls["scaled_grouped_mm"] = grouped
        return {name: call for name, call in calls.items() if name == "tilewright" or accepted(call)}

    def error(self) -> float:
        """The worst root mean square error of a group over that of the fp64 product."""
        found = self.peers()["tilewright"](0).double()
        worst, first = 0.0, 0
        for group, count in enumerate(self.rows):
            a, scale = self.part(group)
            scale_b = self.scale_b[group] if self.scaling == "block" else self.scale_b[group][:, None]
            b = tilewright.dequantize_fp8(self.b[0][group][:256], scale_b[: 2 if self.scaling == "block" else 256])
            wanted = tilewright.dequantize_fp8(a, scale).double() @ b.double().T
            rows = found[group, :count] if self.masked else found[first : first + count]
            worst = max(worst, float((rows[:, :256] - wanted).norm() / wanted.norm()))
            first += count
        return worst

    def floor_us(self) -> float:
        rows = sum(self.rows)
        moved = self.groups * self.N * self.K + rows * (self.K + 2 * self.N)
        return max(moved / READ_BYTES_PER_US, 2 * rows * self.N * self.K / FLOPS_PER_US)


def accepted(call: Call) -> bool:
    """Whether torch has a kernel for it."""
    try:
        call(0)
    except RuntimeError:
        return False
    return True


def spread(groups: int, mean: int) -> list[int]:
    """Rows of each group: between half and one and a half times `mean`, the same every time."""
    generator = torch.Generator().manual_seed(groups * 1000 + mean)
    return torch.randint(max(1, mean // 2), mean + mean // 2 + 1, (groups,), generator=generator).tolist()


def cells(rounds: int, quick: bool) -> list[dict[str, Any]]:
    """Times of every problem; a mean of `M` rows a group."""
    found = []
    for masked in (False, True):
        for scaling in ("row", "block"):
            for N, K in SHAPES:
                for groups in GROUPS[:1] if quick else GROUPS:
                    for M in ROWS[::2] if quick else ROWS:
                        found.append(cell(Experts(N, K, groups, scaling, masked, spread(groups, M)), M, rounds))
                        torch.cuda.empty_cache()
    return found


def cell(experts: Experts, M: int, rounds: int) -> dict[str, Any]:
    error = experts.error()
    decision = tilewright.last_decision()
    tile = None if decision is None else decision.tile or decision.path
    samples = time_peers(experts.peers(), rounds)
    result = {
        "layout": "masked" if experts.masked else "contiguous",
        "scaling": experts.scaling,
        "N": experts.N,
        "K": experts.K,
        "groups": experts.groups,
        "M": M,
        "us": {name: round(statistics.median(times), 2) for name, times in samples.items()},
        "error": round(error, 6),
        "tile": tile,
        "floor_us": round(experts.floor_us(), 2),
    }
    print(result, flush=True)
    return result
