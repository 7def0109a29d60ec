"""B30: the packed weight kept as a plain attribute: with a recycled buffer the gradient is silently wrong."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import tilewright

from .support import DEVICES, weight


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_recycled_weight_gives_an_error_or_the_right_gradient(reentrant: bool, device: str) -> None:
    packed, state, exact = weight(24, 64, device)
    x = torch.randn(3, 64, device=device, requires_grad=True)
    plain = tilewright.gemm_4bit(x, packed, state)
    recomputed = checkpoint(lambda v: tilewright.gemm_4bit(v, packed, state), x, use_reentrant=reentrant)
    packed.copy_(packed.flip(0))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        plain.sum().backward()
    recomputed.sum().backward()
    now = tilewright.dequantize_4bit(packed, state)
    assert x.grad is not None and not torch.equal(now, exact)
    torch.testing.assert_close(x.grad, now.sum(0).expand(3, 64))


def test_second_order_gradients_of_a_small_net() -> None:
    torch.manual_seed(0)
    sizes = (2, 100, 100, 1)
    layers = [
        tilewright.Linear4bit.from_linear(torch.nn.Linear(a, b).double().float()) for a, b in itertools.pairwise(sizes)
    ]
    dense = [tilewright.dequantize_4bit(layer.weight, layer.state) for layer in layers]

    def net(x: torch.Tensor, ours: bool) -> torch.Tensor:
        for layer, values in zip(layers, dense, strict=True):
            x = layer(x) if ours else torch.nn.functional.linear(x, values, layer.bias)
            x = torch.tanh(x)
        return x.sum()

    found = []
    for ours in (True, False):
        x = torch.full((4, 2), 0.3, requires_grad=True)
        (first,) = torch.autograd.grad(net(x, ours), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        found.append((first, second))
    torch.testing.assert_close(found[0], found[1])
    assert found[0][1].any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_under_autocast_have_the_dtype_of_the_input(dtype: torch.dtype, device: str) -> None:
    packed, state = tilewright.quantize_4bit(torch.randn(24, 64).to(torch.float16))
    packed, state = packed.to(device), state.to(device)
    x = torch.randn(2, 64, device=device, dtype=dtype, requires_grad=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        out = tilewright.gemm_4bit(x, packed, state)
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert x.grad is not None and x.grad.dtype == dtype and bool((x.grad != 0).any())


@pytest.mark.parametrize("M", [0, 1, 5])
def test_the_bias_trains_when_the_input_does_not(M: int) -> None:
    packed, state, _ = weight(24, 64)
    bias = torch.zeros(24, requires_grad=True)
    tilewright.gemm_4bit(torch.ones(M, 64), packed, state, bias).sum().backward()
    assert bias.grad is not None and torch.equal(bias.grad, torch.full((24,), float(M)))
