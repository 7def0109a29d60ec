"""B22: degenerate blocks. A zero block got the scale 1 and its scale byte became the NaN of FP8; tiny inputs gave NaN.

The letters are those of the report. What each kind of value does is the table of docs/numerics.md; tests/cases/
test_numerics.py holds that table.
"""

from __future__ import annotations

import math

import pytest
import torch

import tilewright

from .support import DEVICES

NAN_BYTE = 0x7F


def e2m1(values: torch.Tensor) -> tuple[torch.Tensor, tilewright.QuantState, torch.Tensor]:
    packed, state = tilewright.quantize_4bit(values, quant_type="e2m1")
    return packed, state, tilewright.dequantize_4bit(packed, state)


@pytest.mark.parametrize("device", DEVICES)
def test_a_one_zero_block(device: str) -> None:
    values = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)).clamp(-1, 1).to(device)
    values[0, 0] = 1.0
    values[2, 16:32] = 0
    _, state, back = e2m1(values)
    assert int(state.absmax.max()) <= 0x7E
    assert not back[2, 16:32].any() and torch.isfinite(back).all()


@pytest.mark.parametrize("device", DEVICES)
def test_b_everything_zero(device: str) -> None:
    _, state, back = e2m1(torch.zeros(4, 64, device=device))
    assert state.offset is not None and math.isfinite(float(state.offset)) and float(state.offset) > 0
    assert int(state.absmax.max()) <= 0x7E and not back.any()
    for quant_type in ("nf4", "fp4"):
        assert not tilewright.dequantize_4bit(
            *tilewright.quantize_4bit(torch.zeros(4, 64), quant_type=quant_type)
        ).any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("largest", [3000.0, 2688.0, 2689.0, 1e30])
def test_c_a_large_block_is_not_cut(largest: float, device: str) -> None:
    values = torch.randn(2, 64, generator=torch.Generator().manual_seed(1)).to(device)
    values[1, 5] = largest
    _, state, back = e2m1(values)
    assert abs(float(back[1, 5]) - largest) <= largest / 16
    assert int(state.absmax.max()) <= 0x7E


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("quant_type", ["nf4", "fp4", "e2m1"])
def test_d_tiny_values(quant_type: str, device: str) -> None:
    exponents = torch.linspace(-40, -35, 2048 * 16).view(2048, 16).repeat(1, 4)
    values = (10.0**exponents).to(torch.bfloat16).to(device)
    packed, state = tilewright.quantize_4bit(values, quant_type=quant_type)
    back = tilewright.dequantize_4bit(packed, state)
    assert torch.isfinite(back).all()
    assert float(back.abs().max()) <= 1.1 * float(values.abs().max())
    ones = torch.ones(1, 64, device=device)
    assert torch.isfinite(tilewright.gemm_4bit(ones, packed, state)).all()


@pytest.mark.parametrize("quant_type", ["nf4", "fp4", "e2m1"])
def test_e_a_single_value_among_zeros(quant_type: str) -> None:
    values = torch.zeros(256, 256)
    values[0, 0] = 1.0
    packed, state = tilewright.quantize_4bit(values, quant_type=quant_type)
    back = tilewright.dequantize_4bit(packed, state)
    assert int(back.isnan().sum()) == 0
    assert back[0, 0] == pytest.approx(1.0, rel=1e-3)
    assert int((back != 0).sum()) == 1


@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_g_a_block_of_denormals(quant_type: str) -> None:
    values = torch.full((1, 128), 1e-41)
    values[0, :64] = 0
    packed, state = tilewright.quantize_4bit(values, quant_type=quant_type)
    back = tilewright.dequantize_4bit(packed, state)
    assert torch.isfinite(back).all() and not back[0, :64].any()
    assert float(back.max()) <= 1e-41 * 1.01


def test_scales_of_fp8_weights_share_these_rules() -> None:
    """Zero, tiny and large blocks of the FP8 quantisers, where this version has them."""
    quantize = getattr(tilewright, "quantize_fp8", None)
    if quantize is None:
        pytest.skip("this version has no FP8 quantiser")
    for fill in (0.0, 1e-40, 1e-35):
        values = torch.full((256, 256), fill)
        values[0, 0] = max(fill, 1.0) if fill == 0.0 else fill
        for found in quantize(values):
            if isinstance(found, torch.Tensor):
                assert torch.isfinite(found.float()).all(), fill
