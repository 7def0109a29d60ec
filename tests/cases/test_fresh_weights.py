"""Kernels fetch weights before the kernels ahead have ended, but only those that the caller says are static."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import tilewright

from .support import host_program, needs_compiler, needs_gpu

CASES = ("told nothing", "static", "static, copied", "copied")
REPEATS = 50


@needs_compiler
def test_which_launches_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = host_program("fresh.cpp", "90a", tmp_path)
    for variable, waits in ((None, [1, 0, 1, 1]), ("0", [1, 0, 1, 1]), ("1", [1, 1, 1, 1])):
        monkeypatch.delenv("TILEWRIGHT_FRESH_WEIGHTS", raising=False)
        if variable is not None:
            monkeypatch.setenv("TILEWRIGHT_FRESH_WEIGHTS", variable)
        assert program() == [f"{wait} {case}" for wait, case in zip(waits, CASES, strict=True)]


def same(found: tuple[torch.Tensor, ...], wanted: tuple[torch.Tensor, ...]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def captured_is_eager(change: Callable[[], object], products: Callable[[bool], tuple[torch.Tensor, ...]]) -> None:
    """`products(False)` in a graph against `products(True)`, which synchronises between its steps."""
    products(False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = products(False)
    for _ in range(REPEATS):
        change()
        graph.replay()
        torch.cuda.synchronize()
        same(captured, products(True))


def step(apart: bool) -> None:
    if apart:
        torch.cuda.synchronize()


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [1, 16, 64, 256])
def test_weights_quantised_in_the_graph_that_multiplies_by_them(M: int) -> None:
    x = torch.randn(M, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
    a, scale_a = tilewright.quantize_fp8(x, "row")

    def products(apart: bool) -> tuple[torch.Tensor, ...]:
        b, scale_b = tilewright.quantize_fp8(w, "row")
        step(apart)
        eight = tilewright.gemm_fp8(a, b, scale_a, scale_b)
        packed, state = tilewright.quantize_4bit(w)
        step(apart)
        return b, eight, packed, tilewright.gemm_4bit(x, packed, state)

    captured_is_eager(lambda: w.normal_(), products)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [1, 16, 64, 256])
def test_scales_that_a_product_has_just_computed(M: int) -> None:
    """The kernel ahead lets its successor start early, and the successor reads what it wrote."""
    x = torch.randn(M, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
    (a, scale_a), (b, scale_b) = tilewright.quantize_fp8(x, "row"), tilewright.quantize_fp8(w, "row")
    one, scale_one = tilewright.quantize_fp8(torch.randn(1, 1024, device="cuda"), "row")
    packed, state = tilewright.quantize_4bit(w)

    def products(apart: bool) -> tuple[torch.Tensor, ...]:
        scales = tilewright.gemm_fp8(b, one, scale_b, scale_one, out_dtype=torch.float32)
        step(apart)
        eight = tilewright.gemm_fp8(a, b, scale_a, scales)
        absmax = tilewright.gemm_fp8(b[:64], b[:1024], scale_b[:64], scale_b[:1024], out_dtype=torch.float32)
        step(apart)
        own = tilewright.QuantState(state.shape, state.quant_type, state.blocksize, absmax.flatten())
        return scales, eight, absmax, tilewright.gemm_4bit(x, packed, own)

    captured_is_eager(lambda: scale_b.uniform_(0.001, 0.01), products)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [1, 16, 64, 256])
def test_operands_that_torch_has_just_cast(M: int) -> None:
    x = torch.randn(M, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
    one = torch.ones((), device="cuda")

    def products(apart: bool) -> tuple[torch.Tensor, ...]:
        a, b = x.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
        step(apart)
        return a, b, tilewright.scaled_mm(a, b.t(), one, one)

    captured_is_eager(lambda: w.normal_(), products)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("kind", ["4bit", "fp8", "nvfp4"])
@pytest.mark.parametrize("M", [1, 16, 64, 256])
def test_layers_right_after_their_weight_was_written(M: int, kind: str) -> None:
    """Eager calls, with what is written directly ahead of the first of two."""
    makers = {"4bit": tilewright.Linear4bit, "fp8": tilewright.LinearFP8, "nvfp4": tilewright.LinearNVFP4}
    linear = torch.nn.Linear(1024, 4096, device="cuda", dtype=torch.bfloat16)
    layer = makers[kind].from_linear(linear).eval()
    others = []
    for _ in range(4):
        torch.nn.init.normal_(linear.weight)
        others.append(makers[kind].from_linear(linear).eval())
    x = torch.randn(M, 1024, device="cuda", dtype=torch.bfloat16)
    with torch.no_grad():
        wanted = []
        for other in others:
            torch.cuda.synchronize()
            wanted.append(other(x))
        for index in range(REPEATS):
            layer.load_state_dict(others[index % 4].state_dict())
            found = layer(x), layer(x)
            same(found, (wanted[index % 4],) * 2)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [1, 16, 64, 256])
def test_static_weights_give_the_same_bytes(M: int) -> None:
    x = torch.randn(M, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
    (a, scale_a), (b, scale_b) = tilewright.quantize_fp8(x, "row"), tilewright.quantize_fp8(w, "row")
    packed, state = tilewright.quantize_4bit(w)
    torch.cuda.synchronize()
    for _ in range(REPEATS):
        found, wanted = (
            (
                tilewright.gemm_fp8(a, b, scale_a, scale_b, static_weights=static),
                tilewright.gemm_4bit(x, packed, state, static_weights=static),
            )
            for static in (True, False)
        )
        same(found, wanted)
