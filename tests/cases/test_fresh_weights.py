"""Kernels fetch weights before the kernel ahead has ended, but not those that a quantiser has just written."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tilewright

from .support import host_program, needs_compiler, needs_gpu

QUESTIONS = (
    "before and past",
    "another thread",
    "inside",
    "again",
    "nothing written",
    "of an earlier launch",
    "a result",
    "the last of many",
)


@needs_compiler
@pytest.mark.parametrize("always", [False, True])
def test_what_is_noted_as_written(always: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if always:
        monkeypatch.setenv("TILEWRIGHT_FRESH_WEIGHTS", "1")
    else:
        monkeypatch.delenv("TILEWRIGHT_FRESH_WEIGHTS", raising=False)
    found = host_program("fresh.cpp", "90a", tmp_path)()
    answers = [[int(part.split()[0]) for part in line.split(", ")] for line in found]
    assert [line.split(" ", 1)[1].split(",")[0] for line in found] == list(QUESTIONS)
    assert answers == (
        [[2, 1], [1], [1], [1], [1], [2, 1, 1], [1, 1], [1, 1]]
        if always
        else [[0, 0], [0], [1], [0], [0], [0, 1, 1], [1, 1], [1, 0]]
    )


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [1, 16, 64, 256])
def test_weights_quantised_in_the_graph_that_multiplies_by_them(M: int) -> None:
    x = torch.randn(M, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
    a, scale_a = tilewright.quantize_fp8(x, "row")

    def products() -> tuple[torch.Tensor, ...]:
        b, scale_b = tilewright.quantize_fp8(w, "row")
        eight = tilewright.gemm_fp8(a, b, scale_a, scale_b)
        packed, state = tilewright.quantize_4bit(w)
        return b, eight, packed, tilewright.gemm_4bit(x, packed, state)

    products()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = products()
    for _ in range(50):
        w.normal_()
        graph.replay()
        torch.cuda.synchronize()
        b, scale_b = tilewright.quantize_fp8(w, "row")
        packed, state = tilewright.quantize_4bit(w)
        torch.cuda.synchronize()
        wanted = b, tilewright.gemm_fp8(a, b, scale_a, scale_b), packed, tilewright.gemm_4bit(x, packed, state)
        for one, other in zip(captured, wanted, strict=True):
            assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
