"""Every tile of the built library, forced through the op on a GPU and compared with fp32 on the CPU.

benchmarks/gpu_check.py does the same at the level of the kernels, over many more shapes.
"""

from __future__ import annotations

import itertools

import pytest
import torch

import tilewright
from tilewright import _ops, gemm_4bit, quantize_4bit
from tilewright.state import QuantState

pytestmark = pytest.mark.gpu

TILES = _ops.NATIVE.tile_names() if _ops.NATIVE.loaded else ()
LIMITS = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float32: 1e-5}
SHAPES = [(1, 16, 512), (3, 1, 512), (17, 65, 512), (33, 127, 1024), (65, 129, 1536), (130, 259, 2048)]
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


def problem(shape: tuple[int, int, int], fmt: tuple[str, int, bool]) -> tuple[torch.Tensor, torch.Tensor, QuantState]:
    """Activations, packed weight and state on the CPU. The weight's rows hold whole blocks or blocks whole rows."""
    M, N, K = shape
    quant_type, blocksize, nested = fmt
    generator = torch.Generator().manual_seed(M * N * K + blocksize)
    weight = torch.randn(N, K, generator=generator)
    packed, state = quantize_4bit(weight, quant_type=quant_type, blocksize=blocksize, nested=nested)
    return torch.randn(M, K, generator=generator), packed, state


def poison(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Leaves NaN in the block that the allocator will hand out for an output of this size."""
    torch.full(shape, float("nan"), dtype=dtype, device="cuda")


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: f"{fmt[0]}-{fmt[1]}{'-nested' if fmt[2] else ''}")
@pytest.mark.parametrize("tile", TILES)
def test_forced_tile(tile: str, fmt: tuple[str, int, bool]) -> None:
    ran = 0
    for shape, dtype in itertools.product(SHAPES, LIMITS):
        x, packed, state = problem(shape, fmt)
        x = x.to(dtype)
        bias = torch.linspace(-1, 1, shape[1]).to(dtype)
        expected = x.float() @ tilewright.dequantize_4bit(packed, state).T + bias.float()
        on_gpu = (x.cuda(), packed.cuda(), state.to("cuda"), bias.cuda())
        results = []
        with tilewright.force_tile(tile):
            for _ in range(2):
                poison((shape[0], shape[1]), dtype)
                try:
                    results.append(gemm_4bit(*on_gpu))
                except RuntimeError as error:
                    if "cannot run" not in str(error):
                        raise
        if not results:  # fp32 on an engine of 16-bit elements
            continue
        ran += 1
        decision = tilewright.last_decision()
        assert decision is not None and decision.tile == tile and decision.forced
        assert torch.equal(results[0], results[1])
        error_norm = (results[0].cpu().float() - expected).norm() / (x.float().norm() * state.shape[0] ** 0.5)
        assert not results[0].isnan().any()
        assert error_norm <= LIMITS[dtype], (shape, dtype)
    if ran == 0:
        pytest.skip("not built for this device")
