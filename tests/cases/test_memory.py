"""Memory: nothing is kept by a call, and a kernel's launch takes nothing but its output."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable

import pytest
import torch

import tilewright
from tilewright import _ops

from .support import forced, needs_gpu, resident_growth, routes, weight

CALLS = 10_000


def test_ten_thousand_calls_on_the_cpu_keep_nothing() -> None:
    packed, state, _ = weight(16, 64)
    x, bias = torch.randn(2, 64), torch.zeros(16)

    def call() -> None:
        tilewright.gemm_4bit(x, packed, state, bias)

    for _ in range(500):
        call()
    gc.collect()
    with resident_growth(3 << 20):  # 10,000 results or states of the smallest kind would be more
        for _ in range(CALLS):
            call()


def test_refused_calls_keep_nothing_either() -> None:
    packed, state, _ = weight(16, 64)
    x = torch.randn(2, 63)

    def call() -> None:
        with pytest.raises(RuntimeError):
            tilewright.gemm_4bit(x, packed, state)

    for _ in range(300):
        call()
    gc.collect()
    with resident_growth(3 << 20):
        for _ in range(CALLS // 4):
            call()


def test_gradients_keep_nothing() -> None:
    packed, state, _ = weight(16, 64)
    x = torch.randn(2, 64, requires_grad=True)

    def call() -> None:
        tilewright.gemm_4bit(x, packed, state).sum().backward()
        x.grad = None

    for _ in range(300):
        call()
    gc.collect()
    with resident_growth(4 << 20):
        for _ in range(CALLS // 4):
            call()


def card_calls(family: str) -> list[Callable[[], object]]:
    """Calls of a family that kernels of several engines answer."""
    if family == "gemm_4bit":
        packed, state, _ = weight(256, 1024, "cuda")
        inputs = [torch.randn(M, 1024, device="cuda", dtype=torch.float16) for M in (1, 16, 64, 300)]
        return [functools.partial(tilewright.gemm_4bit, x, packed, state) for x in inputs]
    rows = [torch.randn(M, 1024, device="cuda") for M in (1, 16, 64, 300)]
    if family == "quantisers":
        quantise = [
            functools.partial(tilewright.quantize_fp8, x, kind) for x in rows[2:] for kind in ("tensor", "block")
        ]
        return [*quantise, *(functools.partial(tilewright.quantize_nvfp4, x) for x in rows[2:])]
    weights = {
        kind: tilewright.quantize_fp8(torch.randn(256, 1024, device="cuda"), kind) for kind in ("row", "block128x128")
    }
    calls: list[Callable[[], object]] = []
    for x in rows:
        for kind, (b, scale_b) in weights.items():
            a, scale_a = tilewright.quantize_fp8(x, "row" if kind == "row" else "block")
            calls.append(functools.partial(tilewright.gemm_fp8, a, b, scale_a, scale_b))
    return calls


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("family", ["gemm_4bit", "gemm_fp8", "quantisers"])
def test_ten_thousand_calls_on_a_card_keep_nothing(family: str) -> None:
    calls = card_calls(family)

    def some() -> None:
        for call in calls:
            call()

    for _ in range(100):
        some()
    torch.cuda.synchronize()
    gc.collect()
    allocated, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    with resident_growth(6 << 20):
        for _ in range(-(-CALLS // len(calls))):
            some()
        torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == allocated
    if "PYTEST_XDIST_WORKER" not in os.environ:  # beside other processes, what is free on the card says nothing
        assert free - torch.cuda.mem_get_info()[0] <= 4 << 20


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [1, 16, 64, 257])
@pytest.mark.parametrize("kind", ["tensor", "row", "block"])
def test_a_launch_of_fp8_allocates_its_output_and_nothing_else(M: int, kind: str) -> None:
    """Of every tile, once it has run."""
    a, scale_a = tilewright.quantize_fp8(torch.randn(M, 1024, device="cuda"), kind)
    other = "block128x128" if kind == "block" else kind
    b, scale_b = tilewright.quantize_fp8(torch.randn(384, 1024, device="cuda"), other)
    ran = 0
    for tile in _ops.NATIVE.tile_names("gemm_fp8"):
        with tilewright.force_tile(tile, "gemm_fp8"):
            try:
                tilewright.gemm_fp8(a, b, scale_a, scale_b)
            except RuntimeError as error:
                assert "cannot run" in str(error)  # noqa: PT017
                continue
            torch.cuda.synchronize()
            before = torch.cuda.memory_stats()["allocation.all.allocated"]
            torch.cuda.reset_peak_memory_stats()
            start = torch.cuda.memory_allocated()
            out = tilewright.gemm_fp8(a, b, scale_a, scale_b)
            made = torch.cuda.memory_stats()["allocation.all.allocated"] - before
            peak = torch.cuda.max_memory_allocated() - start
        assert (made, peak) == (1, -(-out.numel() * out.element_size() // 512) * 512), tile
        del out
        ran += 1
    assert ran


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(("M", "N", "K"), [(1, 256, 1024), (16, 512, 2048), (64, 384, 1024), (257, 640, 1536)])
def test_a_launch_allocates_its_output_and_nothing_else(M: int, N: int, K: int) -> None:
    """Of every tile, once it has run: the peak rises by the output. The fallback also holds the dense weight."""
    packed, state, _ = weight(N, K, "cuda")
    x = torch.randn(M, K, device="cuda", dtype=torch.float16)
    for route in routes("cuda", x, packed, state):
        with forced(route):
            tilewright.gemm_4bit(x, packed, state)
            torch.cuda.synchronize()
            before = torch.cuda.memory_stats()["allocation.all.allocated"]
            torch.cuda.reset_peak_memory_stats()
            start = torch.cuda.memory_allocated()
            out = tilewright.gemm_4bit(x, packed, state)
            made = torch.cuda.memory_stats()["allocation.all.allocated"] - before
            peak = torch.cuda.max_memory_allocated() - start
        output = -(-out.numel() * out.element_size() // 512) * 512
        if route == "fallback":
            # The weight in the dtype of x, and what cuBLAS asks for.
            assert peak >= output + N * K * 2
        else:
            assert (made, peak) == (1, output), route
        del out


@pytest.mark.gpu
@needs_gpu
def test_views_that_kernels_cannot_walk_cost_one_copy_of_themselves() -> None:
    packed, state, _ = weight(256, 1024, "cuda")
    x = torch.randn(1024, 16, device="cuda", dtype=torch.float16).t()
    tilewright.gemm_4bit(x, packed, state)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    tilewright.gemm_4bit(x, packed, state)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] - before == 2


def test_the_output_is_a_tensor_of_torchs_allocator() -> None:
    """On the CPU too: no memory of the library's own is handed out."""
    packed, state, _ = weight(16, 64)
    out = tilewright.gemm_4bit(torch.ones(2, 64), packed, state)
    assert out.untyped_storage().nbytes() == out.numel() * 4
    assert out.storage_offset() == 0 and _ops.SCHEMAS
