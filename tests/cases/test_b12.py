"""B12: a grid by floor division. N=32 launched nothing, N=96 left columns unwritten, and nobody said so."""

from __future__ import annotations

import math
import re

import pytest
import torch

import tilewright

from .support import DEVICES, ROOT, forced, poison, routes, rows, weight

COLUMNS = [8, 32, 64, 96, 103, 104, 136, 1000]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("N", COLUMNS)
@pytest.mark.parametrize("M", [1, 16])
def test_no_column_keeps_what_was_there_before(M: int, N: int, device: str) -> None:
    packed, state, exact = weight(N, 1024, device, blocksize=32)
    x = rows(M, 1024, torch.float16, device)
    expected = x.float() @ exact.T
    terms = x.float().norm(dim=1, keepdim=True) * exact.norm(dim=1)
    for route in routes(device, x, packed, state):
        with forced(route):
            poison((M, N), x.dtype, device)
            got = tilewright.gemm_4bit(x, packed, state)
        worst = (got.float() - expected).abs().max() / terms.max()
        assert not got.isnan().any() and worst < 2e-3, (route, got.isnan().any(0).nonzero().flatten().tolist())


@pytest.mark.parametrize("edge", [32, 64, 128, 192, 256])
def test_columns_around_the_edge_of_a_tile(edge: int) -> None:
    for N in (edge - 1, edge, edge + 1):
        packed, state, exact = weight(N, 128)
        x = rows(3, 128, torch.float32)
        torch.testing.assert_close(tilewright.gemm_4bit(x, packed, state), x @ exact.T)


def test_sizes_of_grids_are_divided_upwards() -> None:
    """In the host code of every engine, a size of the problem is divided by a size of the tile through ceil_div."""
    checked = 0
    for file in (ROOT / "csrc_templates/include/tilewright").rglob("*.cuh"):
        text = re.sub(r"//.*", "", file.read_text("utf-8"))
        checked += len(re.findall(r"ceil_div\((?:args|in)\.[mn], Config::k\w+\)", text))
        # Rows of contiguous groups: a tile more for each group covers what the division leaves.
        text = text.replace("args.m / Config::kMt + args.groups", "")
        assert not re.search(r"\bargs\.[mn] / Config::k[MN]", text), file
    assert checked >= 4


def test_the_division_upwards_is_exact_at_the_edges() -> None:
    """As the header computes it, in 64 bits."""
    for size in (1, 2, 63, 64, 65, 2**31 - 1, 2**31, 2**40):
        for by in (1, 8, 64, 192):
            assert (size + by - 1) // by == math.ceil(size / by) or size > 2**52
