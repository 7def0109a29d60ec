"""B20: the last block is shorter than the others, and its absmax was taken over memory nobody had written."""

from __future__ import annotations

import math

import pytest
import torch

import tilewright

from .support import DEVICES, forced, nrmse, routes

SHAPES = [(1, 1), (7, 13), (3, 65), (129, 97)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fill", [1e30, math.nan, math.inf])
@pytest.mark.parametrize("blocksize", [64, 4096])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_the_tail_is_of_its_own_elements(
    shape: tuple[int, int], blocksize: int, fill: float, quant_type: str, device: str
) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(device)
    found = []
    for _ in range(2):
        blocks = [torch.full((n,), fill, device=device) for n in (64, 4096, 16_384, 70_000)]
        del blocks
        found.append(tilewright.quantize_4bit(values, quant_type=quant_type, blocksize=blocksize))
    (packed, state), (again, state_again) = found
    assert torch.equal(packed, again) and torch.equal(state.absmax, state_again.absmax)
    tail = values.flatten()[(values.numel() - 1) // blocksize * blocksize :]
    assert float(state.absmax[-1]) == float(tail.abs().max())
    back = tilewright.dequantize_4bit(packed, state)
    assert torch.isfinite(back).all()
    assert float((back - values).abs().max()) <= float(values.abs().max()) * (0.2 if quant_type == "nf4" else 0.34)


@pytest.mark.parametrize("blocks", [1, 255, 257, 513])
def test_the_second_level_has_a_tail_too(blocks: int) -> None:
    values = torch.randn(1, 64 * blocks, generator=torch.Generator().manual_seed(blocks))
    _, plain = tilewright.quantize_4bit(values)
    packed, state = tilewright.quantize_4bit(values, nested=True)
    assert state.nested_absmax is not None and state.offset is not None
    assert state.nested_absmax.numel() == -(-blocks // 256)
    last = plain.absmax[(blocks - 1) // 256 * 256 :] - state.offset
    assert float(state.nested_absmax[-1]) == float(last.abs().max())
    assert torch.isfinite(tilewright.dequantize_4bit(packed, state)).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("blocksize", [64, 128, 4096])
def test_blocks_that_span_rows(blocksize: int, device: str) -> None:
    values = torch.randn(5, 4096 + 32, generator=torch.Generator().manual_seed(3)).to(device)
    packed, state = tilewright.quantize_4bit(values, blocksize=blocksize)
    exact = tilewright.dequantize_4bit(packed, state)
    x = torch.randn(3, 4128, device=device)
    for route in routes(device, x, packed, state):
        with forced(route):
            assert nrmse(tilewright.gemm_4bit(x, packed, state), x @ exact.T) < 1e-5, route
