"""Two cards: every op on the one that is not current, both at once, and tensors on different ones refused by name."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilewright
from tilewright import _ops

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.device_count() < 2 or not _ops.NATIVE.loaded,
        reason="needs two cards and the native library",
    ),
]
M, N, K, G = 48, 384, 512, 3
Tensors = dict[str, torch.Tensor]


def seeded(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@functools.cache
def tensors() -> dict[str, tuple[Callable[..., Any], Tensors, dict[str, Any]]]:
    """Each op with its tensors, on the CPU, and its other arguments."""
    ops = torch.ops.tilewright
    x, weight = seeded(M, K), seeded(N, K, seed=1)
    packed, state = tilewright.quantize_4bit(weight, nested=True)
    assert state.nested_absmax is not None and state.nested_code is not None and state.offset is not None
    four = {"b": packed, "absmax": state.absmax, "nested_absmax": state.nested_absmax,
            "nested_code": state.nested_code, "offset": state.offset}  # fmt: skip
    sizes = {"n": N, "k": K, "blocksize": 64, "quant_type": 0}
    a, scale_a = tilewright.quantize_fp8(x, "row")
    b, scale_b = tilewright.quantize_fp8(weight, "row")
    fp8 = {"a": a, "b": b, "scale_a": scale_a, "scale_b": scale_b, "bias": seeded(N).bfloat16()}
    grouped = {"a": a, "b": torch.stack([b] * G), "scale_a": scale_a, "scale_b": torch.stack([scale_b] * G),
               "group_ends": torch.tensor([5, 5, M], dtype=torch.int32)}  # fmt: skip
    first, second = tilewright.quantize_nvfp4(x), tilewright.quantize_nvfp4(weight)
    nvfp4 = {"a": first.codes, "b": second.codes, "scale_a": first.scales, "scale_b": second.scales,
             "global_a": first.global_scale, "global_b": second.global_scale}  # fmt: skip
    return {
        "gemm_4bit": (ops.gemm_4bit, {"a": x.half(), "bias": seeded(N).half(), **four}, sizes),
        "dequantize_4bit": (ops.dequantize_4bit, four, {**sizes, "dtype": 1}),
        "quantize_4bit": (ops.quantize_4bit, {"weight": weight}, {"blocksize": 64, "quant_type": 0}),
        "gemm_fp8": (ops.gemm_fp8, fp8, {"fast_accum": True}),
        "gemm_fp8_grouped": (ops.gemm_fp8_grouped, grouped, {}),
        "quantize_fp8": (ops.quantize_fp8, {"x": x, "scale": torch.tensor(0.3)}, {"granularity": 0}),
        "gemm_nvfp4": (ops.gemm_nvfp4, nvfp4, {}),
        "quantize_nvfp4": (ops.quantize_nvfp4, {"x": x, "global_scale": torch.tensor(0.1)}, {}),
    }


NAMES = ("gemm_4bit", "dequantize_4bit", "quantize_4bit", "gemm_fp8", "gemm_fp8_grouped", "quantize_fp8",
         "gemm_nvfp4", "quantize_nvfp4")  # fmt: skip


def call(name: str, card: str, stray: str | None = None, other: str = "cuda:0") -> list[torch.Tensor]:
    """An op with all its tensors on one card, but for a stray one."""
    op, given, rest = tensors()[name]
    moved = {key: value.to(other if key == stray else card) for key, value in given.items()}
    out = op(**moved, **rest)
    return [out] if isinstance(out, torch.Tensor) else list(out)


def same(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    """Whether the bytes are equal."""
    pairs = zip(found, wanted, strict=True)
    return all(
        torch.equal(f.cpu().reshape(-1).view(torch.uint8), w.cpu().reshape(-1).view(torch.uint8)) for f, w in pairs
    )


def test_every_op_is_here() -> None:
    assert set(tensors()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_on_the_card_that_is_not_current(name: str) -> None:
    assert torch.cuda.current_device() == 0
    second = call(name, "cuda:1")
    assert torch.cuda.current_device() == 0
    assert all(out.device == torch.device("cuda:1") for out in second)
    torch.cuda.synchronize(1)
    first = call(name, "cuda:0")
    with torch.cuda.device(1):
        from_there = call(name, "cuda:0")
        assert torch.cuda.current_device() == 1
    assert same(second, first) and same(from_there, first)


@pytest.mark.parametrize("name", NAMES)
def test_tensors_on_different_cards_are_refused_by_name(name: str) -> None:
    _, given, _ = tensors()[name]
    if len(given) == 1:
        pytest.skip("it takes one tensor")
    for stray in list(given)[1:]:
        with pytest.raises(RuntimeError, match=r"on cuda:[01].*on cuda:[01]; all tensors must be on one device"):
            call(name, "cuda:1", stray)
    assert same(call(name, "cuda:1"), call(name, "cuda:0"))


@pytest.mark.parametrize("name", ["gemm_4bit", "gemm_fp8", "quantize_fp8", "quantize_nvfp4"])
def test_a_stream_of_the_other_card_and_its_graph(name: str) -> None:
    """On a side stream of the card that is not current; captured there, replayed on another stream."""
    op, given, rest = tensors()[name]
    moved = {key: value.to("cuda:1") for key, value in given.items()}
    wanted = call(name, "cuda:0")
    torch.cuda.synchronize(1)
    with torch.cuda.device(1):
        graph, stream, other = torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            found = op(**moved, **rest)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            captured = op(**moved, **rest)
        with torch.cuda.stream(other):
            graph.replay()
        other.synchronize()
    for result in (found, captured):
        assert same([result] if isinstance(result, torch.Tensor) else list(result), wanted)


def test_both_cards_at_once() -> None:
    """Eight threads a card, every op, in orders of their own."""
    wanted = {name: call(name, "cuda:0") for name in NAMES}
    moved = {}
    for card in ("cuda:0", "cuda:1"):
        for name, (op, given, rest) in tensors().items():
            moved[card, name] = (op, {key: value.to(card) for key, value in given.items()}, rest)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    barrier, wrong = threading.Barrier(16), []

    def work(number: int) -> None:
        barrier.wait()
        card = number % 2
        with torch.cuda.stream(torch.cuda.Stream(card)):
            # Half of the threads keep the other card current.
            torch.cuda.set_device(card if number % 4 < 2 else 1 - card)
            for turn in range(24):
                name = NAMES[(number + turn) % len(NAMES)]
                op, given, rest = moved[f"cuda:{card}", name]
                out = op(**given, **rest)
                torch.cuda.synchronize(card)
                if not same([out] if isinstance(out, torch.Tensor) else list(out), wanted[name]):
                    wrong.append((number, name))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_layers_and_gradients_on_the_other_card() -> None:
    dense = torch.nn.Linear(K, N)
    made = {
        "four": tilewright.Linear4bit.from_linear(dense),
        "fp8": tilewright.LinearFP8.from_linear(dense),
        "nvfp4": tilewright.LinearNVFP4.from_linear(dense),
    }
    for name, layer in made.items():
        grads = []
        for card in ("cuda:1", "cuda:0"):
            x = seeded(M, K).to(card, torch.bfloat16).requires_grad_()
            out = layer.to(card)(x)
            assert out.device == torch.device(card) and torch.cuda.current_device() == 0
            out.float().square().sum().backward()
            assert x.grad is not None and x.grad.device == torch.device(card)
            grads.append(x.grad.cpu())
        assert torch.equal(*grads), name


def test_a_prepacked_weight_moves_between_cards() -> None:
    packed, state = tilewright.quantize_4bit(seeded(N, K))
    there = tilewright.prepack(packed.to("cuda:1"), N, K)
    x = seeded(M, K).bfloat16()
    found = tilewright.gemm_4bit(x.to("cuda:1"), there, state.to("cuda:1"))
    assert torch.equal(found.cpu(), tilewright.gemm_4bit(x.to("cuda:0"), there.to("cuda:0"), state.to("cuda:0")).cpu())
