"""B23: the sum is rounded to float16 before the scale is applied: inf, though the result is small."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import tilewright
from tilewright import _ops
from tilewright._ops_4bit import Gemm4bit

from .support import DEVICES, forced, routes

K = 4096


def problem(device: str, scale: float = 1e-3) -> tuple[torch.Tensor, torch.Tensor, tilewright.QuantState]:
    """Activations and codes of 6, global scale as given: the sum of codes is 147456."""
    packed = torch.full((64 * K // 2,), 0x77, dtype=torch.uint8, device=device)
    scales = torch.full((64 * K // 16,), 0x38, dtype=torch.uint8, device=device)  # 1.0
    offset = torch.tensor(scale, device=device)
    state = tilewright.QuantState((64, K), "e2m1", 16, scales, offset=offset)
    return torch.full((3, K), 6.0, dtype=torch.float16, device=device), packed, state


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bias", [None, 0.0, 8.0])
def test_the_scale_comes_before_the_rounding_on_every_route(bias: float | None, device: str) -> None:
    x, packed, state = problem(device)
    added = None if bias is None else torch.full((64,), bias, dtype=x.dtype, device=device)
    wanted = 147.456 + (bias or 0.0)
    for route in routes(device, x, packed, state):
        with forced(route):
            got = tilewright.gemm_4bit(x, packed, state, added)
        assert ((got.float() - wanted).abs() <= 0.125 * 1.01).all(), (route, got.flatten()[:3])


@pytest.mark.parametrize("device", DEVICES)
def test_a_true_overflow_is_infinite_as_in_torch(device: str) -> None:
    x, packed, state = problem(device, scale=1.0)
    for route in routes(device, x, packed, state):
        with forced(route):
            assert torch.isinf(tilewright.gemm_4bit(x, packed, state)).all(), route
        with forced(route):
            wide = tilewright.gemm_4bit(x.bfloat16(), packed, state)
        assert torch.isfinite(wide).all() and abs(float(wide[0, 0]) - 147_456) <= 1024


def test_every_route_takes_the_same_list_of_scales() -> None:
    """One schema for kernels and plain torch: no branch can forget a scale that another one applies."""
    schemas = [s for s in _ops.SCHEMAS if s.startswith(("gemm_4bit", "_noop_gemm_4bit"))]
    assert len({s.split("(", 1)[1] for s in schemas}) == 1
    wanted = ["a", "b", "absmax", "n", "k", "blocksize", "quant_type", "bias", "nested_absmax", "nested_code", "offset"]
    assert [field.name for field in dataclasses.fields(Gemm4bit)] == [*wanted, "static_weights"]
