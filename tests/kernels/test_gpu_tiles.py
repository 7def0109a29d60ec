"""Every tile of the built library, forced through the op on a GPU and compared with fp32 products.

benchmarks/gpu_check.py does the same at the level of the kernels, over many more shapes.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import pytest
import torch

import tilewright
from tilewright import _ops, gemm_4bit, quantize_4bit
from tilewright.state import QuantState

pytestmark = pytest.mark.gpu

TILES = _ops.NATIVE.tile_names() if _ops.NATIVE.loaded else ()
LIMITS = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float32: 1e-5}
SHAPES = [(1, 16, 512), (3, 1, 512), (17, 65, 512), (33, 127, 1024), (65, 129, 1536), (130, 259, 2048), (7, 272, 2048)]
FORMATS = [
    *itertools.product(("nf4", "fp4"), (32, 64, 512, 4096), (False, True)),
    ("e2m1", 16, False),
]


@pytest.fixture(scope="module", autouse=True)
def device() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    if not _ops.NATIVE.loaded:
        pytest.skip("needs the native library")
    return torch.device("cuda")


@dataclass(frozen=True)
class Problem:
    """Everything on the GPU; `weight` is the fp32 value of the packed weight, from plain torch."""

    x: torch.Tensor
    packed: torch.Tensor
    state: QuantState
    weight: torch.Tensor


@functools.cache
def problem(shape: tuple[int, int, int], fmt: tuple[str, int, bool]) -> Problem:
    """The weight's rows hold whole blocks, or blocks whole rows."""
    M, N, K = shape
    quant_type, blocksize, nested = fmt
    generator = torch.Generator().manual_seed(M * N * K + blocksize)
    weight = torch.randn(N, K, generator=generator)
    packed, state = quantize_4bit(weight, quant_type=quant_type, blocksize=blocksize, nested=nested)
    exact = tilewright.dequantize_4bit(packed, state)
    x = torch.randn(M, K, generator=generator)
    return Problem(x.cuda(), packed.cuda(), state.to("cuda"), exact.cuda())


def poison(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Leaves NaN in the block that the allocator will hand out for an output of this size."""
    torch.full(shape, float("nan"), dtype=dtype, device="cuda")


def run_forced(
    tile: str, given: Problem, packed: torch.Tensor, dtype: torch.dtype, bias: torch.Tensor
) -> torch.Tensor | None:
    """Two runs over poisoned outputs that must agree to the bit; None if the tile cannot answer the problem. The second
    one is told that the weight, for which the first one waited, is static."""
    x = given.x.to(dtype)
    results = []
    with tilewright.force_tile(tile):
        for static in (False, True):
            poison((x.shape[0], bias.shape[0]), dtype)
            try:
                results.append(gemm_4bit(x, packed, given.state, bias, static_weights=static))
            except RuntimeError as error:
                if "cannot run" not in str(error) and "does not take prepacked" not in str(error):
                    raise
                return None
    assert torch.equal(results[0], results[1])
    return results[0]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: f"{fmt[0]}-{fmt[1]}{'-nested' if fmt[2] else ''}")
@pytest.mark.parametrize("tile", TILES)
def test_forced_tile(tile: str, fmt: tuple[str, int, bool]) -> None:
    ran = 0
    for shape, dtype, prepacked in itertools.product(SHAPES, LIMITS, (False, True)):
        given = problem(shape, fmt)
        packed = given.packed
        if prepacked:
            if not tilewright.can_prepack(*shape[1:]):
                continue
            packed = tilewright.prepack(packed, *shape[1:])
        bias = torch.linspace(-1, 1, shape[1], device="cuda").to(dtype)
        got = run_forced(tile, given, packed, dtype, bias)
        if got is None:  # more rows or columns than the tile takes, fp32 on an engine of 16-bit elements, or the layout
            continue
        ran += 1
        decision = tilewright.last_decision()
        assert decision is not None and decision.tile == tile and decision.forced
        expected = given.x.to(dtype).float() @ given.weight.T + bias.float()
        error = (got.float() - expected).norm() / (given.x.norm() * shape[1] ** 0.5)
        assert not got.isnan().any()
        assert error <= LIMITS[dtype], (shape, dtype, prepacked)
    if ran == 0:
        pytest.skip("not built for this device, or takes none of the problems")
