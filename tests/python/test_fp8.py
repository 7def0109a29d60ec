"""FP8 on the CPU: exact codes and scales, products against float64, every refusal."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright import reference_fp8
from tilewright.fp8 import dequantize_fp8, gemm_fp8, gemm_fp8_grouped, quantize_fp8, scaled_mm

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FORMATS = {E4M3: (4, 3, 7, 448.0), E5M2: (5, 2, 15, 57344.0)}
op = torch.ops.tilewright


def values_of(dtype: torch.dtype) -> list[float]:
    """The finite values of a type by code, computed from its layout."""
    exponent_bits, mantissa_bits, bias, limit = FORMATS[dtype]
    found = []
    for code in range(128):
        exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        fraction = mantissa / (1 << mantissa_bits)
        value = 2.0 ** (exponent - bias) * (1 + fraction) if exponent else 2.0 ** (1 - bias) * fraction
        if value <= limit and exponent < (1 << exponent_bits):
            found.append(value)
    return found


def nearest(value: float, dtype: torch.dtype) -> int:
    """The code of a finite value, rounded to nearest even and saturated; the sign in bit 7."""
    magnitudes = values_of(dtype)
    magnitude = min(abs(value), magnitudes[-1])
    code = min(range(len(magnitudes)), key=lambda c: (abs(magnitudes[c] - magnitude), c % 2))
    return code | (0x80 if math.copysign(1.0, value) < 0 else 0)


def codes(tensor: torch.Tensor) -> list[int]:
    """The bytes of a tensor."""
    return [int(byte) for byte in tensor.view(torch.uint8).reshape(-1)]


@pytest.mark.parametrize("dtype", FORMATS)
def test_values_and_midpoints_round_to_nearest_even(dtype: torch.dtype) -> None:
    magnitudes = values_of(dtype)
    middles = [(low + high) / 2 for low, high in pairwise(magnitudes)]
    beside = [math.nextafter(m, target) for m in middles for target in (0.0, math.inf)]
    points = torch.tensor([*magnitudes, *middles, *beside], dtype=torch.float64)
    points = torch.cat([points, -points]).float()
    found, scale = quantize_fp8(points[None], "tensor", dtype=dtype, scale=torch.tensor(1.0))
    assert scale.item() == 1.0
    assert codes(found) == [nearest(v, dtype) for v in points.tolist()]


@pytest.mark.parametrize("dtype", FORMATS)
def test_saturation_and_what_is_not_finite(dtype: torch.dtype) -> None:
    limit = FORMATS[dtype][3]
    x = torch.tensor([[limit * 1.1, -limit * 1e30, math.inf, -math.inf, math.nan, -0.0, 3e-39]])
    found, _ = quantize_fp8(x, "tensor", dtype=dtype, scale=torch.tensor(1.0))
    top = len(values_of(dtype)) - 1
    assert codes(found) == [top, top | 0x80, 0x7F, 0x7F, 0x7F, 0x80, 0]


@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40),
    st.sampled_from(list(FORMATS)),
)
@settings(max_examples=150, deadline=None)
def test_a_row_by_the_definition(row: list[float], dtype: torch.dtype) -> None:
    x = torch.tensor([row])
    found, scale = quantize_fp8(x, "row", dtype=dtype)
    amax = max(abs(v) for v in row)
    wanted = max(float(torch.tensor(amax) / torch.tensor(FORMATS[dtype][3])), 2.0**-126) if amax else 1.0
    assert scale.item() == wanted
    scaled = (x / torch.tensor(wanted)).reshape(-1).tolist()
    assert codes(found) == [nearest(v, dtype) for v in scaled]


@given(st.integers(1, 5), st.integers(1, 300), st.integers(0, 3), st.integers(0, 2**31))
@settings(max_examples=80, deadline=None)
def test_every_granularity_scales_its_own_group(M: int, K: int, granularity: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(M, K, generator=generator) * 10.0 ** torch.randint(-20, 20, (M, K), generator=generator)
    found, scale = op.quantize_fp8(x, granularity)
    height, width = [(M, K), (1, K), (1, 128), (128, 128)][granularity]
    for i in range(-(-M // height)):
        for j in range(-(-K // width)):
            group = x[i * height : (i + 1) * height, j * width : (j + 1) * width].abs().amax()
            own = scale if granularity == 0 else scale[i, j]
            assert own == (group / 448).clamp_min(2.0**-126)
    assert tuple(scale.shape) == reference_fp8.scale_shape(M, K, granularity)
    error = (dequantize_fp8(found, scale) - x).abs() / x.abs().clamp_min(1e-30)
    large = x.abs() > reference_fp8.expand(scale, M, K) * 2.0**-5
    assert bool((error[large] <= 2.0**-4).all())


def test_groups_of_zeros_and_of_what_is_not_finite() -> None:
    x = torch.zeros(3, 256)
    x[1, 3], x[1, 5], x[2, 200] = math.nan, math.inf, 2.0
    found, scale = quantize_fp8(x, "block")
    assert scale.tolist() == [[1.0, 1.0], [1.0, 1.0], [1.0, torch.tensor(2.0).div(448).item()]]
    assert found.float().isnan().nonzero().tolist() == [[1, 3], [1, 5]]
    assert found[2, 200].float() == 448.0


def test_scales_of_1x128_lie_outer_dimension_first() -> None:
    _, scale = quantize_fp8(torch.randn(6, 384), "block")
    assert (tuple(scale.shape), scale.stride()) == ((6, 3), (1, 6))


def test_leading_dimensions_and_stacks_of_weights() -> None:
    x = torch.randn(2, 3, 256)
    for granularity, shape in (("tensor", ()), ("row", (2, 3, 1)), ("block", (2, 3, 2))):
        found, scale = quantize_fp8(x, granularity)
        assert (found.shape, tuple(scale.shape)) == (x.shape, shape)
    found, scale = quantize_fp8(torch.randn(4, 130, 256), "block128x128")
    assert (tuple(found.shape), tuple(scale.shape)) == ((4, 130, 256), (4, 2, 2))


def test_wrong_options_of_quantize() -> None:
    x = torch.ones(2, 4)
    for arguments, options, text in (
        ((x, "column"), {}, "granularity='column'; allowed: tensor, row, block, block128x128"),
        ((x,), {"dtype": torch.float16}, "dtype=torch.float16; allowed: torch.float8_e4m3fn, torch.float8_e5m2"),
        ((x[None, None], "block128x128"), {}, "x has 4 dimensions; expected 2 or 3 for block128x128"),
        ((torch.tensor(1.0),), {}, "x has no dimensions"),
    ):
        with pytest.raises(ValueError, match=re.escape(text)):
            quantize_fp8(*arguments, **options)
    for arguments, text in (
        ((x.double(), 1), "x has dtype float64; allowed: float16, bfloat16, float32"),
        ((x[0], 1), "x has 1 dimensions; expected 2"),
        ((x, 4), "granularity=4; allowed: 0 (tensor), 1 (row), 2 (block), 3 (block128x128)"),
        ((x, 1, 2), "fp8_type=2; allowed: 0 (e4m3), 1 (e5m2)"),
        ((x, 1, 0, torch.ones(1)), "scale is given; it must be None unless granularity is 0"),
        ((x, 0, 0, torch.ones(2)), "scale has 2 elements; expected 1"),
        ((x, 0, 0, torch.ones(1).double()), "scale has dtype float64; allowed: float32"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(text)):
            op.quantize_fp8(*arguments)


KINDS = {"tensor": ("tensor", "tensor"), "row": ("row", "row"), "block": ("block", "block128x128")}


def product(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    """a b^T in float64, the scales applied to the operands."""
    first = a.double() * reference_fp8.expand(scale_a, *a.shape).double()
    return first @ (b.double() * reference_fp8.expand(scale_b, *b.shape).double()).T


@given(
    st.integers(1, 9),
    st.integers(1, 140),
    st.integers(1, 300),
    st.sampled_from(list(KINDS)),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
    st.booleans(),
    st.integers(0, 2**31),
)
@settings(max_examples=80, deadline=None)
def test_products_against_float64(
    M: int, N: int, K: int, kind: str, out_dtype: torch.dtype, with_bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    a, scale_a = quantize_fp8(torch.randn(M, K), KINDS[kind][0], dtype=E5M2 if seed % 2 else E4M3)
    b, scale_b = quantize_fp8(torch.randn(N, K), KINDS[kind][1])
    bias = torch.randn(N).to(out_dtype) if with_bias else None
    found = gemm_fp8(a, b, scale_a, scale_b, bias, out_dtype=out_dtype, fast_accum=bool(seed % 3))
    wanted = product(a, b, scale_a, scale_b) + (0.0 if bias is None else bias.double())
    room = torch.finfo(out_dtype).eps * wanted.abs() + 1e-5 * math.sqrt(K) + 1e-4
    assert found.dtype == out_dtype
    assert bool(((found.double() - wanted).abs() <= room).all())


def test_shapes_that_scales_may_have() -> None:
    a, b = torch.randn(3, 64).to(E4M3), torch.randn(5, 64).to(E4M3)
    rows, columns = torch.rand(3) + 0.5, torch.rand(5) + 0.5
    wanted = gemm_fp8(a, b, rows[:, None], columns[:, None], out_dtype=torch.float32)
    for first in (rows, rows[:, None]):
        for second in (columns, columns[:, None], columns[None]):
            assert torch.equal(gemm_fp8(a, b, first, second, out_dtype=torch.float32), wanted)
    one = gemm_fp8(a, b, torch.tensor(2.0), torch.ones(1, 1), out_dtype=torch.float32)
    torch.testing.assert_close(one, 2 * a.float() @ b.float().T)
    x = a.view(3, 1, 64)
    assert torch.equal(gemm_fp8(x, b, rows.view(3, 1, 1), columns, out_dtype=torch.float32).view(3, 5), wanted)


def test_scales_that_are_no_numbers_do_what_arithmetic_does() -> None:
    a, b = torch.ones(2, 32).to(E4M3), torch.ones(4, 32).to(E4M3)
    columns = torch.tensor([1.0, math.nan, math.inf, -math.inf])
    found = gemm_fp8(a, b, torch.tensor([1.0, 0.0]), columns, out_dtype=torch.float32)
    torch.testing.assert_close(found[0], torch.tensor([32.0, math.nan, math.inf, -math.inf]), equal_nan=True)
    assert found[1, 0] == 0.0
    assert found[1, 1:].isnan().all()


def test_empty_products() -> None:
    b = torch.ones(4, 32).to(E4M3)
    one = torch.tensor(1.0)
    assert gemm_fp8(torch.empty(0, 32).to(E4M3), b, one, one).shape == (0, 4)
    assert gemm_fp8(torch.empty(0, 32).to(E4M3), b, torch.ones(0, 1), torch.ones(4)).shape == (0, 4)
    assert gemm_fp8(b, torch.empty(0, 32).to(E4M3), one, one).shape == (4, 0)


def test_every_wrong_argument_is_named() -> None:
    a, b, one = torch.ones(2, 256).to(E4M3), torch.ones(4, 256).to(E4M3), torch.tensor(1.0)
    kinds = "allowed: one value each (per tensor), [M, 1] and [1, N] (per row)"
    cases = [
        ((a.float(), b, one, one), "a has dtype float32; allowed: float8_e4m3fn, float8_e5m2"),
        ((a, b.to(E5M2), one, one), "b has dtype float8_e5m2; allowed: float8_e4m3fn"),
        ((a[0], b, one, one), "a has 1 dimensions; expected 2"),
        ((a, b[:, :128], one, one), "a has K=256 and b has K=128; b is [N, K]"),
        ((a[:, :0], b[:, :0], one, one), "K=0; allowed: at least 1"),
        ((a, b, one.double(), one), "scale_a has dtype float64; allowed: float32"),
        ((a, b, one, one.half()), "scale_b has dtype float16; allowed: float32"),
        ((a, b, torch.ones(2, 1), one), f"scale_a is [2, 1] and scale_b is [] for M=2, N=4, K=256; {kinds}"),
        ((a, b, torch.ones(2, 2), torch.ones(2, 2)), "scale_a is [2, 2] and scale_b is [2, 2]"),
        ((a, b, torch.ones(2, 2), torch.ones(4)), "scale_a is [2, 2] and scale_b is [4]"),
        ((a, b, torch.ones(2, 1), torch.ones(4, 2)), "scale_a is [2, 1] and scale_b is [4, 2]"),
        ((a, b, one, one, torch.ones(4)), "bias has dtype float32; allowed: bfloat16"),
        ((a, b, one, one, torch.ones(3).bfloat16()), "bias is [3]; expected [4]"),
        ((a, b, one, one, None, 3), "out_dtype=3; allowed: 0 (float16), 1 (bfloat16), 2 (float32)"),
    ]
    for arguments, text in cases:
        with pytest.raises(RuntimeError, match=re.escape(f"gemm_fp8: {text}")):
            op.gemm_fp8(*arguments)
    assert torch.ops.tilewright.gemm_fp8(a, b, torch.ones(2, 2), torch.ones(1, 2)).shape == (2, 4)
    with pytest.raises(RuntimeError, match="all tensors must be on one device"):
        op.gemm_fp8(a, b.to("meta"), one, one)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("masked", [False, True])
def test_grouped_products_are_products_of_the_groups(kind: str, masked: bool) -> None:
    torch.manual_seed(5)
    G, N, K = 3, 40, 256
    b, scale_b = zip(*(quantize_fp8(torch.randn(N, K), KINDS[kind][1]) for _ in range(G)), strict=True)
    bias = torch.randn(G, N)
    counts = [4, 0, 7]
    if masked:
        a, scale_a = quantize_fp8(torch.randn(G, 8, K), KINDS[kind][0])
        limits = {"group_rows": torch.tensor(counts, dtype=torch.int32)}
        parts = [(a[g, :c], scale_a if kind == "tensor" else scale_a[g, :c]) for g, c in enumerate(counts)]
    else:
        a, scale_a = quantize_fp8(torch.randn(13, K), KINDS[kind][0])
        ends = torch.tensor(counts, dtype=torch.int32).cumsum(0).int()
        limits = {"group_ends": ends}
        first = [0, *ends.tolist()]
        parts = [
            (a[first[g] : first[g + 1]], scale_a if kind == "tensor" else scale_a[first[g] : first[g + 1]])
            for g in range(G)
        ]
    found = gemm_fp8_grouped(
        a, torch.stack(b), scale_a, torch.stack(scale_b), bias=bias, out_dtype=torch.float32, **limits
    )
    assert found.shape == (*a.shape[:-1], N)
    for g, (rows, scale) in enumerate(parts):
        wanted = gemm_fp8(rows, b[g], scale, scale_b[g], bias[g], out_dtype=torch.float32)
        own = found[g, : counts[g]] if masked else found[sum(counts[:g]) : sum(counts[: g + 1])]
        torch.testing.assert_close(own, wanted)


def test_wrong_arguments_of_grouped_products() -> None:
    a, b = torch.ones(6, 128).to(E4M3), torch.ones(2, 4, 128).to(E4M3)
    ends, one, per_group = torch.tensor([2, 6], dtype=torch.int32), torch.tensor(1.0), torch.ones(2)
    cases = [
        ((a, b, one, per_group), "give either group_ends (contiguous) or group_rows (masked)"),
        ((a, b, one, per_group, ends, ends), "give either group_ends (contiguous) or group_rows (masked)"),
        ((a, b, one, per_group, ends.long()), "group_ends has dtype int64; allowed: int32"),
        ((a, b, one, per_group, ends[:1]), "group_ends has 1 elements; expected 2 (one a group)"),
        ((a, b[0], one, per_group, ends), "b has 2 dimensions; expected 3"),
        ((a, b[:0], one, per_group[:0], ends[:0]), "b has 0 groups; allowed: at least 1"),
        ((a, b, one, per_group, None, ends), "a has 2 dimensions; expected 3"),
        ((a.view(3, 2, 128), b, one, per_group, None, ends), "a has 3 groups and b has 2"),
        ((a, b, one, one, ends), "scale_a is [] and scale_b is [] for G=2, N=4, K=128"),
        ((a, b, one, per_group, ends, None, torch.ones(4).bfloat16()), "bias is [4]; expected [2, 4]"),
    ]
    for arguments, text in cases:
        with pytest.raises(RuntimeError, match=re.escape(f"gemm_fp8_grouped: {text}")):
            op.gemm_fp8_grouped(*arguments)


def test_scaled_mm_takes_the_arguments_of_torch() -> None:
    torch.manual_seed(2)
    a, b = torch.randn(32, 64).to(E4M3), torch.randn(48, 64).to(E4M3).t()
    one, two = torch.tensor(0.5), torch.tensor(2.0)
    bias = torch.randn(48).bfloat16()
    for options in ({}, {"bias": bias}, {"out_dtype": torch.bfloat16, "use_fast_accum": True}):
        wanted = torch._scaled_mm(a, b, one, two, **{"out_dtype": torch.bfloat16, **options})
        torch.testing.assert_close(scaled_mm(a, b, one, two, **options), wanted, rtol=2e-2, atol=2e-2)
    rows, columns = torch.rand(32, 1) + 0.5, torch.rand(1, 48) + 0.5
    found = scaled_mm(a, b, rows, columns, out_dtype=torch.float32)
    torch.testing.assert_close(found, (a.float() * rows) @ (b.float() * columns))
    blocks = scaled_mm(a, b, torch.ones(32, 1), torch.ones(1, 1), out_dtype=torch.float32)
    torch.testing.assert_close(blocks, a.float() @ b.float())
    with pytest.raises(ValueError, match="scale_result is given"):
        scaled_mm(a, b, one, two, None, one)


@pytest.mark.parametrize("scaling", ["tensor", "row", "block"])
def test_linear(scaling: str) -> None:
    torch.manual_seed(1)
    dense = torch.nn.Linear(272, 96)
    layer = tilewright.LinearFP8.from_linear(dense, scaling=scaling)
    x = torch.randn(2, 5, 272, requires_grad=True)
    found = layer(x)
    wanted = dense(x).detach()
    assert float((found.detach() - wanted).norm() / wanted.norm()) < 0.05
    found.sum().backward()
    weight = dequantize_fp8(layer.weight, layer.weight_scale)
    torch.testing.assert_close(x.grad, weight.sum(0).expand(2, 5, 272))
    torch.testing.assert_close(layer.bias.grad, torch.full((96,), 10.0))
    half = layer.to(torch.bfloat16)
    assert (half.weight.dtype, half.weight_scale.dtype, half.bias.dtype) == (E4M3, torch.float32, torch.bfloat16)
    assert half(x.detach().bfloat16()).dtype == torch.bfloat16
    again = tilewright.LinearFP8(layer.weight, layer.weight_scale, layer.bias)
    assert again.scaling == scaling
    assert f"scaling={scaling}" in repr(again)


def test_linear_with_a_scale_for_every_input() -> None:
    dense = torch.nn.Linear(64, 32, bias=False)
    layer = tilewright.LinearFP8.from_linear(dense, scaling="tensor", input_scale=torch.tensor(0.25))
    x = torch.full((3, 64), 1000.0)
    weight = dequantize_fp8(layer.weight, layer.weight_scale)
    torch.testing.assert_close(layer(x), torch.full((3, 64), 448.0 * 0.25) @ weight.T)
    rows = tilewright.LinearFP8.from_linear(dense, scaling="row", input_scale=torch.tensor(0.25))
    weight = dequantize_fp8(rows.weight, rows.weight_scale)
    torch.testing.assert_close(rows(x), torch.full((3, 64), 448.0 * 0.25) @ weight.T)
    with pytest.raises(ValueError, match="input_scale is given; it must be None for scaling='block'"):
        tilewright.LinearFP8.from_linear(dense, scaling="block", input_scale=torch.tensor(0.25))
    with pytest.raises(ValueError, match="scaling='column'; allowed: tensor, row, block"):
        tilewright.LinearFP8.from_linear(dense, scaling="column")
    with pytest.raises(ValueError, match=re.escape("weight_scale is [3] for a weight [32, 64]")):
        tilewright.LinearFP8(layer.weight, torch.ones(3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch itself makes an autograd function
def test_compiled_and_exported() -> None:
    layer = tilewright.LinearFP8.from_linear(torch.nn.Linear(128, 64))
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.no_grad():
        for M in (2, 3, 17):
            x = torch.randn(M, 128)
            assert torch.equal(compiled(x), layer(x))
        exported = torch.export.export(layer, (torch.randn(4, 128),), dynamic_shapes=({0: torch.export.Dim("M")},))
        x = torch.randn(9, 128)
        assert torch.equal(exported.module()(x), layer(x))
    x = torch.randn(4, 128, requires_grad=True)
    torch.compile(layer, fullgraph=True, backend="aot_eager")(x).sum().backward()
    weight = dequantize_fp8(layer.weight, layer.weight_scale)
    torch.testing.assert_close(x.grad, weight.sum(0).expand(4, 128))


def test_opcheck() -> None:
    a, scale_a = quantize_fp8(torch.randn(3, 128), "block")
    b, scale_b = quantize_fp8(torch.randn(5, 128), "block128x128")
    # The others write to their arguments with arithmetic that FP8 does not have.
    checks = ("test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(op.gemm_fp8.default, (a, b, scale_a, scale_b), test_utils=checks)
    torch.library.opcheck(op.quantize_fp8.default, (torch.randn(3, 130), 2))
    grouped = (a, b[None], scale_a, scale_b[None], torch.tensor([3], dtype=torch.int32))
    torch.library.opcheck(op.gemm_fp8_grouped.default, grouped, test_utils="test_faketensor")
    decision = tilewright.last_decision("cpu")
    assert decision is not None
    assert (decision.family, decision.path) == ("gemm_fp8", "torch")


@pytest.mark.parametrize("scaling", ["tensor", "row", "block"])
def test_convert(scaling: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(256, 200), torch.nn.ReLU(), torch.nn.Linear(200, 60))
    x = torch.randn(4, 256)
    wanted = model(x).detach()
    report = tilewright.convert(model, format="fp8", scaling=scaling)
    assert report.converted == ("0", "2")
    assert isinstance(model[2], tilewright.LinearFP8)
    assert model[0].scaling == scaling
    assert report.bytes_after < 0.3 * report.bytes_before
    assert float((model(x).detach() - wanted).norm() / wanted.norm()) < 0.08
    assert tilewright.convert(model).skipped == {"0": "is fp8 already", "2": "is fp8 already"}
    with pytest.raises(ValueError, match="format='fp6'; allowed: 4bit, fp8, nvfp4"):
        tilewright.convert(model, format="fp6")
    with pytest.raises(ValueError, match="scaling='column'; allowed: tensor, row, block"):
        tilewright.convert(model, format="fp8", scaling="column")


def test_explain() -> None:
    found = tilewright.explain(4096, 4096, 4096, arch="sm90", family="gemm_fp8", scaling="block")
    assert found.tile is not None
    assert found.rules["path"] == "custom"
    assert tilewright.explain(64, 4096, 4096, arch="sm80", family="gemm_fp8").tile is None
    assert tilewright.explain(64, 4096, 4096, arch="sm120", family="gemm_nvfp4").tile is not None
    with pytest.raises(ValueError, match="family='gemm_fp6'; allowed: gemm_4bit, gemm_fp8, gemm_nvfp4"):
        tilewright.explain(64, 4096, 4096, arch="sm80", family="gemm_fp6")
    with pytest.raises(ValueError, match="scaling"):
        tilewright.explain(64, 4096, 4096, arch="sm90", family="gemm_fp8", scaling="column")
