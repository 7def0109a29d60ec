"""B17: no rows launch a grid of zero, whose error a later op reports; rows on grid.y end at 65535."""

from __future__ import annotations

import re

import pytest
import torch

import tilewright

from .support import DEVICES, ROOT, forced, needs_gpu, nrmse, routes, weight


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(0, 4096), (2, 0, 4096), (0,), (0, 0, 4096)])
def test_no_rows(shape: tuple[int, ...], device: str) -> None:
    K = shape[-1] or 4096
    packed, state, exact = weight(32, K, device)
    x = torch.zeros((*shape[:-1], K) if len(shape) > 1 else (0, K), device=device, dtype=torch.bfloat16)
    x.requires_grad_()
    bias = torch.zeros(32, device=device, dtype=torch.bfloat16, requires_grad=True)
    out = tilewright.gemm_4bit(x, packed, state, bias)
    assert (out.shape, out.dtype, out.device.type) == ((*x.shape[:-1], 32), torch.bfloat16, device)
    out.sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape
    assert bias.grad is not None and not bias.grad.any()
    # Nothing was left behind: the next call and the next question to the device are answered.
    ones = torch.ones(1, K, device=device)
    assert nrmse(tilewright.gemm_4bit(ones, packed, state), ones @ exact.T) < 1e-5
    if device == "cuda":
        torch.cuda.synchronize()


def test_no_columns() -> None:
    packed, state = tilewright.quantize_4bit(torch.empty(0, 64))
    assert tilewright.gemm_4bit(torch.ones(3, 64), packed, state).shape == (3, 0)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [65_535, 65_536, 131_073])
def test_many_rows_on_every_kernel(M: int) -> None:
    packed, state, exact = weight(64, 64, "cuda")
    x = torch.randn(M, 64, device="cuda", dtype=torch.float16)
    expected = x.float() @ exact.T
    for route in routes("cuda", x, packed, state):
        with forced(route):
            got = tilewright.gemm_4bit(x, packed, state)
        assert nrmse(got, expected) < 2e-3, route
        assert nrmse(got[-1], expected[-1]) < 1e-2, route


def test_many_rows_in_plain_torch() -> None:
    packed, state, exact = weight(8, 64)
    x = torch.randn(65_537, 64)
    torch.testing.assert_close(tilewright.gemm_4bit(x, packed, state)[-2:], x[-2:] @ exact.T)


def test_rows_are_on_the_x_axis_of_every_grid() -> None:
    """y and z of a grid end at 65535: no launch of the sources uses them."""
    launches = 0
    for file in (ROOT / "csrc_templates/include/tilewright").rglob("*.cuh"):
        text = re.sub(r"//.*", "", file.read_text("utf-8"))
        launches += text.count("dim3(")
        assert not re.search(r"blockIdx\.[yz]|gridDim\.[yz]", text), file
    assert launches
