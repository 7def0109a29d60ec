"""B13: one row of a table written by hand differs from its neighbours: blocksize 4096 ran another format."""

from __future__ import annotations

import itertools

import pytest
import torch

import tilewright
from tilewright import formats

from .support import DEVICES, LIMITS, forced, nrmse, routes, rows

BLOCKSIZES = formats.get_format("nf4").blocksizes


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("blocksize", "dtype"), list(itertools.product(BLOCKSIZES, LIMITS)), ids=str)
def test_every_cell_is_of_its_own_format(blocksize: int, dtype: torch.dtype, device: str) -> None:
    values = torch.randn(8, 4096, generator=torch.Generator().manual_seed(blocksize))
    x = rows(3, 4096, dtype, device)
    found = {}
    for name in ("nf4", "fp4"):
        packed, state = tilewright.quantize_4bit(values.to(device, dtype), quant_type=name, blocksize=blocksize)
        plain, plain_state = tilewright.quantize_4bit(values.to(dtype), quant_type=name, blocksize=blocksize)
        assert torch.equal(packed.cpu(), plain) and torch.equal(state.absmax.cpu(), plain_state.absmax)
        exact = tilewright.dequantize_4bit(plain, plain_state).to(device)
        assert torch.equal(tilewright.dequantize_4bit(packed, state), exact)
        for route in routes(device, x, packed, state):
            with forced(route):
                assert nrmse(tilewright.gemm_4bit(x, packed, state), x.float() @ exact.T) <= LIMITS[dtype], route
        found[name] = exact
    assert not torch.equal(found["nf4"], found["fp4"])


def test_the_error_grows_smoothly_with_the_blocksize() -> None:
    values = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0))
    for name in ("nf4", "fp4"):
        errors = []
        for blocksize in BLOCKSIZES:
            packed, state = tilewright.quantize_4bit(values, quant_type=name, blocksize=blocksize)
            errors.append(nrmse(tilewright.dequantize_4bit(packed, state), values))
        ratios = [b / a for a, b in itertools.pairwise(errors)]
        assert all(1.0 < r < 1.35 for r in ratios), (name, errors)
