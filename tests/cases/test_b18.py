"""B18: the documented rule for K is weaker than the kernel's: K = 192 read out of bounds and gave wrong numbers."""

from __future__ import annotations

import pytest
import torch

import tilewright
from tilewright_codegen.evaluate import decide, encode_problem, holds
from tilewright_codegen.expr import names

from .support import DEVICES, forced, nrmse, poison, problem, routes, rows, specs, weight

DEPTHS = [32, 64, 96, 128, 160, 192, 200, 4095, 4128]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("K", DEPTHS)
@pytest.mark.parametrize(("M", "N"), [(1, 63), (31, 65), (33, 127), (65, 129)])
def test_right_or_refused(M: int, N: int, K: int, device: str) -> None:
    packed, state, exact = weight(N, K, device)
    x = rows(M, K, torch.float16, device)
    for route in routes(device, x, packed, state):
        with forced(route):
            poison((M, N), x.dtype, device)
            assert nrmse(tilewright.gemm_4bit(x, packed, state), x.float() @ exact.T) < 2e-3, route


@pytest.mark.parametrize("arch", sorted(specs().archs))
def test_the_rules_never_pick_a_tile_for_a_k_it_does_not_take(arch: str) -> None:
    """The multiple that a tile asks for is a condition of its table; the choice is repaired before it is checked."""
    family = specs().families["gemm_4bit"]
    num_sms = specs().archs[arch].profile.sm_counts[0]
    for K in (*DEPTHS, 576, 4160, 11_008, 14_400):
        for M in (1, 5, 17, 33, 65, 129, 300):
            given = problem(family, M, 4096, K, num_sms)
            tile = decide(family, arch, given).tile(family)
            if tile is not None:
                env = encode_problem(family, given)
                assert all(holds(family.layers[-1], c, env) for c in family.tile_by_id[tile].requires), (arch, tile, K)


def test_every_engine_that_walks_k_in_steps_says_so() -> None:
    """simt has a remainder; what the others need stands in `requires` of their tiles."""
    family = specs().families["gemm_4bit"]
    for tile in family.tiles:
        if tile.engine in ("mma_m16n8k16", "wgmma"):
            assert any("K" in names(cond) for cond in tile.requires), tile.id
