"""Bytes of the formats against a scalar reference, and the degenerate inputs."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import DataDependentOutputException

import tilewright
from tilewright import formats, reference

from .scalar_reference import absmax_codes, e2m1_code, e4m3_value, fp4_code, nf4_code, value_of

SMALL = [(1, 1), (7, 13), (3, 65)]
LARGE = [(129, 97), (2, 4128)]
ON_CARD = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
CELLS = [
    (quant_type, blocksize, shape)
    for quant_type in ("nf4", "fp4")
    for blocksize in formats.get_format(quant_type).blocksizes
    for shape in SMALL + (LARGE if blocksize in (64, 4096) else [])
]


def unpack(packed: torch.Tensor, count: int, high_first: bool) -> list[int]:
    pairs = [(byte >> 4, byte & 15) if high_first else (byte & 15, byte >> 4) for byte in packed.tolist()]
    return [code for pair in pairs for code in pair][:count]


@pytest.mark.parametrize(("quant_type", "blocksize", "shape"), CELLS)
def test_absmax_bytes(quant_type: str, blocksize: int, shape: tuple[int, int]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(blocksize))
    packed, state = tilewright.quantize_4bit(weight, quant_type=quant_type, blocksize=blocksize)
    codes, scales = absmax_codes(weight.flatten().tolist(), blocksize, quant_type)
    assert unpack(packed, weight.numel(), high_first=True) == codes
    assert state.absmax.tolist() == scales
    found = tilewright.dequantize_4bit(packed, state).flatten().tolist()
    expected = (
        torch.tensor([value_of(quant_type, c) for c in codes])
        * torch.tensor(scales).repeat_interleave(blocksize)[: len(codes)]
    )
    assert found == expected.tolist()


@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_formats_differ_at_every_blocksize(quant_type: str) -> None:
    other = "fp4" if quant_type == "nf4" else "nf4"
    weight = torch.randn(64, 4096, generator=torch.Generator().manual_seed(1))
    errors = []
    for blocksize in formats.get_format(quant_type).blocksizes:
        found = tilewright.dequantize_4bit(
            *tilewright.quantize_4bit(weight, quant_type=quant_type, blocksize=blocksize)
        )
        wrong = tilewright.dequantize_4bit(*tilewright.quantize_4bit(weight, quant_type=other, blocksize=blocksize))
        assert not torch.equal(found, wrong)
        errors.append((found - weight).norm().item())
    assert errors == sorted(errors)


@given(x=st.floats(-1.0, 1.0, width=32))
@settings(max_examples=200, deadline=None)
def test_codes_of_single_values(x: float) -> None:
    weight = torch.tensor([[x, 1.0]])
    for quant_type, code in (("nf4", nf4_code(x)), ("fp4", fp4_code(x))):
        packed, _ = tilewright.quantize_4bit(weight, quant_type=quant_type, blocksize=32)
        # Thresholds are published rounded: next to one, both neighbours are right.
        near = min(abs(abs(x) - abs(t)) for t in formats.NF4_THRESHOLDS + formats.FP4_THRESHOLDS) < 1e-6
        assert near or packed.tolist()[0] >> 4 == code


# What `x > literal` compares with in the machine code of bitsandbytes 0.50.2 for sm_90, for the four literals that a
# rounding through double would miss.
BITSANDBYTES_MIDPOINTS = {
    0: -0.84809643030166625977,
    8: 0.12025525420904159546,
    12: 0.50166338682174682617,
    14: 0.86147838830947875977,
}


def test_thresholds_are_float32_and_the_kernels() -> None:
    for value in (*formats.NF4_THRESHOLDS, *formats.FP4_THRESHOLDS, *formats.NF4_VALUES):
        assert torch.tensor(value, dtype=torch.float32).item() == value
    for index, value in BITSANDBYTES_MIDPOINTS.items():
        assert torch.tensor(value, dtype=torch.float64).float().item() == formats.NF4_THRESHOLDS[index]
    header = Path(__file__).parents[2] / "csrc_templates/include/tilewright/quantize/quantize_4bit.cuh"
    text = header.read_text("utf-8")
    midpoints = re.search(r"kMidpoints\[15\] = \{(.*?)\};", text, re.DOTALL)
    assert midpoints is not None
    assert tuple(map(float, re.findall(r"(-?[\d.]+)f", midpoints[1]))) == formats.NF4_THRESHOLDS
    assert tuple(map(float, re.findall(r"magnitude > ([\d.]+)f", text))) == formats.FP4_THRESHOLDS


def test_fp4_values_are_rounded_once() -> None:
    values = torch.tensor(formats.FP4_VALUES, dtype=torch.float32)
    exact = [
        Fraction(1, 192),
        Fraction(2, 3),
        Fraction(1),
        Fraction(1, 3),
        Fraction(1, 2),
        Fraction(1, 6),
        Fraction(1, 4),
    ]
    for value, wanted in zip(values[1:8], exact, strict=True):
        others = (torch.nextafter(value, values.new_zeros(())), torch.nextafter(value, values.new_ones(())))
        assert all(abs(Fraction(value.item()) - wanted) <= abs(Fraction(o.item()) - wanted) for o in others)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_CARD)])
@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_values_at_and_beside_a_threshold(quant_type: str, device: str) -> None:
    thresholds = formats.NF4_THRESHOLDS if quant_type == "nf4" else formats.FP4_THRESHOLDS
    at = torch.tensor(thresholds)
    ends = at.new_full((), -2.0), at.new_full((), 2.0)
    beside = torch.stack([torch.nextafter(at, ends[0]), at, torch.nextafter(at, ends[1])], dim=1)
    rows = torch.zeros(len(thresholds), 32)
    rows[:, :3], rows[:, 3] = beside, 1.0
    packed, _ = tilewright.quantize_4bit(rows.to(device), quant_type=quant_type, blocksize=32)
    codes = torch.tensor(unpack(packed.cpu(), rows.numel(), high_first=True)).reshape(rows.shape)[:, :3]
    order = tuple(range(16)) if quant_type == "nf4" else formats.FP4_CODES_BY_MAGNITUDE
    assert codes.tolist() == [[order[i], order[i], order[i + 1]] for i in range(len(thresholds))]


def test_e2m1_bytes() -> None:
    weight = torch.randn(5, 48, generator=torch.Generator().manual_seed(3))
    packed, state = tilewright.quantize_4bit(weight, quant_type="e2m1")
    assert state.offset is not None
    scale = [e4m3_value(byte) * state.offset.item() for byte in state.absmax.tolist()]
    codes = unpack(packed, weight.numel(), high_first=False)
    values = weight.flatten().tolist()
    assert codes == [e2m1_code(v / scale[i // 16]) for i, v in enumerate(values)]
    for start in range(0, len(values), 16):
        amax = max(map(abs, values[start : start + 16]))
        assert scale[start // 16] == pytest.approx(amax / 6, rel=1 / 16)


def test_e2m1_ties_go_to_the_even_code() -> None:
    ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    weight = torch.tensor([[*ties, *[-t for t in ties], 6.0, 0.0]]) * 448
    packed, state = tilewright.quantize_4bit(weight, quant_type="e2m1")
    assert (state.offset, state.absmax.tolist()) == (torch.tensor(1.0), [0x7E])
    assert unpack(packed, 14, high_first=False) == [0, 2, 2, 4, 4, 6, 6, 8, 10, 10, 12, 12, 14, 14]


def test_nested_code_map() -> None:
    code = formats.nested_code_values()
    assert (len(code), code[0], code[-1], code[127]) == (256, pytest.approx(-0.99297, abs=1e-5), 1.0, 0.0)
    assert list(code) == sorted(set(code))
    assert [-value for value in code[126::-1]] == list(code[128:255])


@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
@pytest.mark.parametrize("shape", [(1, 64), (100, 65), (257, 64), (513, 128)])
def test_nested_absmax(quant_type: str, shape: tuple[int, int]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    _, plain = tilewright.quantize_4bit(weight, quant_type=quant_type)
    packed, state = tilewright.quantize_4bit(weight, quant_type=quant_type, nested=True)
    assert state.nested_absmax is not None and state.nested_code is not None and state.offset is not None
    groups = torch.arange(plain.absmax.numel()) // 256
    rebuilt = state.nested_code[state.absmax.long()] * state.nested_absmax[groups] + state.offset
    step = state.nested_absmax[groups] * 0.0071
    assert ((rebuilt - plain.absmax).abs() <= step + 1e-7).all()
    found = tilewright.dequantize_4bit(packed, state)
    blocks = rebuilt.repeat_interleave(64)[: weight.numel()].view(shape)
    codes = [value_of(quant_type, code) for code in unpack(packed, weight.numel(), high_first=True)]
    assert torch.equal(found, torch.tensor(codes).view(shape) * blocks)


@pytest.mark.parametrize("quant_type", ["nf4", "fp4", "e2m1"])
@pytest.mark.parametrize("dtype", formats.DTYPES)
def test_degenerate_weights(quant_type: str, dtype: torch.dtype) -> None:
    """Zero blocks, zero tensors, tiny and large values: finite scales, finite results, zeros stay zeros."""
    zero_block = torch.ones(2, 64)
    zero_block[0, :16] = 0
    tiny = torch.linspace(1e-35, 9e-40, 1024).view(16, 64)
    for weight in (torch.zeros(4, 64), zero_block, tiny, torch.full((1, 64), 3000.0), torch.eye(256)):
        typed = weight.to(dtype)
        packed, state = tilewright.quantize_4bit(typed, quant_type=quant_type)
        if quant_type == "e2m1":
            assert (state.absmax <= 0x7E).all()
        found = tilewright.dequantize_4bit(packed, state)
        assert torch.isfinite(found).all()
        assert (found[typed == 0] == 0).all()
        largest = typed.float().abs().max()
        assert (found - typed.float()).abs().max() <= largest * 0.26 + 1e-38


@pytest.mark.parametrize("quant_type", ["nf4", "fp4", "e2m1"])
@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_non_finite_values_reach_their_own_rows_only(quant_type: str, poison: float) -> None:
    weight = torch.randn(4, 128, generator=torch.Generator().manual_seed(7))
    weight[2, 77] = poison
    packed, state = tilewright.quantize_4bit(weight, quant_type=quant_type)
    out = tilewright.gemm_4bit(torch.ones(3, 128), packed, state)
    assert not torch.isfinite(out[:, 2]).any()
    assert torch.isfinite(out[:, [0, 1, 3]]).all()


def test_nested_scales_refuse_non_finite_weights() -> None:
    weight = torch.ones(1, 64)
    weight[0, 0] = math.inf
    with pytest.raises(ValueError, match="not finite"):
        tilewright.quantize_4bit(weight, nested=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quant_type": "nf5"}, "quant_type='nf5'; allowed: nf4, fp4, e2m1"),
        ({"blocksize": 48}, "blocksize=48; allowed for nf4: 32, 64"),
        ({"quant_type": "e2m1", "blocksize": 64}, "blocksize=64; allowed for e2m1: 16"),
        ({"quant_type": "e2m1", "nested": True}, "nested=True"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tilewright.quantize_4bit(torch.ones(2, 64), **options)  # type: ignore[arg-type]


def test_wrong_weights() -> None:
    with pytest.raises(ValueError, match="weight has 1 dimensions; expected 2"):
        tilewright.quantize_4bit(torch.ones(64))
    with pytest.raises(RuntimeError, match="weight has dtype float64; allowed: float16, bfloat16, float32"):
        tilewright.quantize_4bit(torch.ones(2, 64, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="k=24; e2m1 needs a multiple of 16"):
        tilewright.quantize_4bit(torch.ones(2, 24), quant_type="e2m1")


def test_result_does_not_depend_on_strides_or_repetition() -> None:
    weight = torch.randn(64, 129, generator=torch.Generator().manual_seed(9))
    view = weight.t()
    first, state = tilewright.quantize_4bit(view)
    second, same = tilewright.quantize_4bit(view.contiguous())
    assert torch.equal(first, second)
    assert torch.equal(state.absmax, same.absmax)


def test_tracing_leaves_no_trace_behind() -> None:
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(11))
    before = tilewright.quantize_4bit(weight, nested=True)
    with torch._subclasses.FakeTensorMode() as mode, pytest.raises(DataDependentOutputException):
        tilewright.quantize_4bit(mode.from_tensor(weight), nested=True)
    after = tilewright.quantize_4bit(weight, nested=True)
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1].absmax, after[1].absmax)


VALUES = {
    "fp4": (0, 0.0625 / 12, 8 / 12, 1, 4 / 12, 6 / 12, 2 / 12, 3 / 12),
    "e2m1": (0, 0.5, 1, 1.5, 2, 3, 4, 6),
}


@pytest.mark.parametrize("quant_type", ["nf4", "fp4", "e2m1"])
def test_every_code_stands_for_its_value(quant_type: str) -> None:
    """Codes 0 to 15 with scale 1."""
    codes = torch.arange(16, dtype=torch.uint8)
    high_first = quant_type != "e2m1"
    packed = (codes[0::2] << 4 | codes[1::2]) if high_first else (codes[1::2] << 4 | codes[0::2])
    if quant_type == "e2m1":
        state = tilewright.QuantState(
            (1, 16), "e2m1", 16, torch.tensor([0x38], dtype=torch.uint8), offset=torch.tensor(1.0)
        )
    else:
        state = tilewright.QuantState((1, 16), quant_type, 32, torch.ones(1))
    found = tilewright.dequantize_4bit(packed, state).flatten()
    if quant_type == "nf4":
        # Quantiles of the normal distribution, scaled to 1: seven below zero, zero, and eight above.
        assert (float(found[0]), float(found[7]), float(found[15])) == (-1.0, 0.0, 1.0)
        steps = (found[1:] - found[:-1]).tolist()
        assert steps[:6] == sorted(steps[:6], reverse=True) and steps[8:] == sorted(steps[8:])
        normal = torch.distributions.Normal(0.0, 1.0)
        offset = 0.9677083
        upper = normal.icdf(torch.linspace(offset, 0.5, 9)[:-1])
        lower = normal.icdf(torch.linspace(offset, 0.5, 8)[:-1])
        wanted = torch.cat([-lower, torch.zeros(1), upper.flip(0)]) / upper[0]
        torch.testing.assert_close(found, wanted.float(), atol=2e-6, rtol=0)
    else:
        magnitudes = torch.tensor(VALUES[quant_type])
        assert torch.equal(found, torch.cat([magnitudes, -magnitudes]))


@pytest.mark.parametrize(("quant_type", "blocksize"), [("nf4", 32), ("fp4", 256), ("e2m1", 16)])
def test_pieces_that_a_weight_is_worked_on_in_do_not_show(
    quant_type: str, blocksize: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = torch.randn(37, 112, generator=torch.Generator().manual_seed(8)) * torch.arange(1.0, 38)[:, None]
    whole = reference.quantize(weight, blocksize, formats.get_format(quant_type).code)
    packed, scales, offset = whole
    shape = (37, 112)
    code = formats.get_format(quant_type).code
    back = reference.dequantize(packed, scales, shape, blocksize, code, torch.float32, None, offset)
    for pieces in (1, 512, 1000):
        monkeypatch.setattr(reference, "_CHUNK_ELEMENTS", pieces)
        again = reference.quantize(weight, blocksize, code)
        assert all(torch.equal(a, b) for a, b in zip(whole, again, strict=True))
        found = reference.dequantize(packed, scales, shape, blocksize, code, torch.float32, None, offset)
        assert torch.equal(found, back)
