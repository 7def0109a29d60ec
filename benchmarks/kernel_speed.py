"""Times of forced tiles: CUDA graph replay over rotating weights, so that none stays in the L2 cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from kernel_harness import Harness, Tile
from kernel_problems import Format, Weight

from tilewright._timing import Lead, elapsed

WEIGHTS = 16  # 4096 x 4096 in 4 bits is 8.4 MB: sixteen of them outgrow any L2 cache
REPLAYS = 7


def graph_time(launches: Sequence[Callable[[], Any]]) -> float:
    """Median microseconds per launch of a graph holding `launches` in order."""
    for launch in launches[:2]:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    graph.replay()
    lead = Lead(torch.device("cuda"))
    return float(round(median(elapsed(lead, graph.replay) for _ in range(REPLAYS)) / len(launches), 2))


def tile_launches(
    harness: Harness, tile: Tile, weights: list[Weight], a: torch.Tensor, out: torch.Tensor
) -> list[Callable[[], int]]:
    return [partial(harness.gemm, tile, weight.gemm_args(a, None, out)) for weight in weights]


def measure_shape(harness: Harness, tiles: Sequence[Tile], N: int, K: int, Ms: Sequence[int]) -> dict[str, Any]:
    """Microseconds by M, then by tile; `torch` is the bf16 linear over weights already dequantised."""
    weights = [Weight(N, K, Format("nf4", 64)) for _ in range(WEIGHTS)]
    dense = [torch.randn(N, K, device="cuda", dtype=torch.bfloat16) for _ in range(WEIGHTS)]
    table: dict[str, Any] = {}
    for M in Ms:
        a = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
        out = torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
        row = {
            tile.name: graph_time(tile_launches(harness, tile, weights, a, out))
            for tile in tiles
            if not tile.simt or M <= 64
        }
        row["torch"] = graph_time([partial(torch.nn.functional.linear, a, w) for w in dense])
        table[str(M)] = row
    calls = [weight.dequantize_args(target) for weight, target in zip(weights, dense, strict=True)]
    table["dequantize"] = graph_time([partial(harness.dequantize, args) for args in calls])
    return table


def measure_speed(harness: Harness, tiles: Sequence[Tile]) -> dict[str, Any]:
    """bf16, nf4, blocksize 64."""
    wide, few = (1, 4, 8, 16, 32, 64, 128, 256, 1024), (1, 8, 16, 32, 64, 256)
    return {
        "4096x4096": measure_shape(harness, tiles, 4096, 4096, wide),
        "14336x4096": measure_shape(harness, tiles, 14336, 4096, few),
        "4096x14336": measure_shape(harness, tiles, 4096, 14336, few),
    }
