"""NVFP4 on the CPU: exact codes and scales, the layout of scales against the kernels' header, products, refusals."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright import reference_nvfp4
from tilewright.nvfp4 import dequantize_nvfp4, gemm_nvfp4, quantize_nvfp4

ROOT = Path(__file__).parents[2]
op = torch.ops.tilewright
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E4M3 = torch.float8_e4m3fn


def nearest(value: float) -> int:
    """The e2m1 code of a value, rounded to nearest even and saturated; the sign in bit 3."""
    magnitude = min(abs(value), 6.0)
    code = min(range(8), key=lambda c: (abs(MAGNITUDES[c] - magnitude), c % 2))
    return code | (8 if value < 0 else 0)


def unpacked(packed: torch.Tensor) -> list[int]:
    """Codes in the order of K."""
    return torch.stack((packed & 15, packed >> 4), dim=-1).reshape(-1).tolist()


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """nvfp4/scale_layout.h, compiled for the host."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("layout")
    source = folder / "layout.cpp"
    source.write_text(
        '#include "tilewright/nvfp4/scale_layout.h"\n'
        'extern "C" long long bytes(long long rows, long long k) { return tilewright::nvfp4::scale_bytes(rows, k); }\n'
        'extern "C" long long offset(long long row, long long group, long long k) {\n'
        "  return tilewright::nvfp4::scale_offset(row, group, k);\n}\n"
    )
    include = f"-I{ROOT / 'csrc_templates/include'}"
    command = ["g++", "-std=c++17", "-shared", "-fPIC", include, str(source), "-o", str(folder / "layout.so")]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(folder / "layout.so"))
    for function, count in (("bytes", 2), ("offset", 3)):
        getattr(library, function).restype = ctypes.c_longlong
        getattr(library, function).argtypes = [ctypes.c_longlong] * count
    return library


@pytest.mark.parametrize(("rows", "k"), [(1, 16), (5, 64), (128, 64), (129, 80), (300, 208), (256, 1024)])
def test_the_layout_is_that_of_the_kernels(header: ctypes.CDLL, rows: int, k: int) -> None:
    groups = k // 16
    plain = (torch.arange(rows * groups) % 255 + 1).to(torch.uint8).view(rows, groups)
    laid_out = reference_nvfp4.swizzle(plain)
    assert laid_out.numel() == header.bytes(rows, k) == reference_nvfp4.scale_bytes(rows, k)
    places = [[header.offset(r, g, k) for g in range(groups)] for r in range(rows)]
    flat = torch.tensor(places).reshape(-1)
    assert torch.equal(laid_out[flat], plain.reshape(-1))
    padding = torch.ones(laid_out.numel(), dtype=torch.bool)
    padding[flat] = False
    assert padding.sum() == laid_out.numel() - plain.numel()
    assert not laid_out[padding].any()
    back = reference_nvfp4.unswizzle(laid_out, rows, k)
    assert torch.equal(back.view(torch.uint8), plain)


def test_padding_is_never_read() -> None:
    torch.manual_seed(0)
    x, w = quantize_nvfp4(torch.randn(3, 80)), quantize_nvfp4(torch.randn(7, 80))
    wanted = gemm_nvfp4(x, w, out_dtype=torch.float32)
    marked = torch.full_like(x.scales, 0x7F)
    plain = reference_nvfp4.unswizzle(x.scales, 3, 80)
    rows, groups = torch.meshgrid(torch.arange(3), torch.arange(5), indexing="ij")
    where = reference_nvfp4.swizzle(torch.ones(3, 5, dtype=torch.uint8)) == 1
    marked[where] = x.scales[where]
    poisoned = tilewright.NVFP4Tensor(x.codes, marked, x.global_scale)
    assert plain.shape == (rows.shape[0], groups.shape[1])
    assert torch.equal(gemm_nvfp4(poisoned, w, out_dtype=torch.float32), wanted)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=16, max_size=16), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_group_by_the_definition(values: list[float], given_scale: bool) -> None:
    x = torch.tensor([values])
    found = quantize_nvfp4(x, global_scale=torch.tensor(0.125) if given_scale else None)
    amax = torch.tensor(max(abs(v) for v in values))
    measured = (amax / 2688).clamp_min(2.0**-126) if amax > 0 else torch.tensor(1.0)
    scale = torch.tensor(0.125) if given_scale else measured
    assert found.global_scale == scale
    wanted = (amax / 6 / scale).clamp_max(448.0).to(E4M3)
    assert found.scales[0] == wanted.view(torch.uint8)
    effective = wanted.float() * scale
    if effective == 0:
        assert unpacked(found.codes) == [0] * 16
    else:
        assert unpacked(found.codes) == [nearest(v) for v in (x / effective).reshape(-1).tolist()]


def test_midpoints_round_to_the_even_code() -> None:
    middles = [(low + high) / 2 for low, high in pairwise(MAGNITUDES)]
    beside = torch.nextafter(torch.tensor(middles), torch.tensor(0.0)).tolist()
    points = [6.0, *middles, *beside, -2.5]
    found = quantize_nvfp4(torch.tensor([points]), global_scale=torch.tensor(1.0))
    assert found.scales[0] == 0x38
    assert unpacked(found.codes) == [7, 0, 2, 2, 4, 4, 6, 6, *range(7), 12]


def test_zeros_and_what_is_not_finite() -> None:
    x = torch.zeros(3, 32)
    x[0, 3], x[1, 20], x[2, 0] = math.nan, -math.inf, 12.0
    found = quantize_nvfp4(x)
    assert found.global_scale == torch.tensor(12.0) / 2688
    scales = reference_nvfp4.unswizzle(found.scales, 3, 32).view(torch.uint8)
    assert scales.tolist() == [[0x7F, 0], [0, 0x7F], [0x7E, 0]]
    back = dequantize_nvfp4(found)
    assert back.isnan().nonzero()[:, 0].unique().tolist() == [0, 1]
    assert back[2, 0] == 448 * 6 * found.global_scale
    assert not dequantize_nvfp4(quantize_nvfp4(torch.zeros(2, 16))).any()
    assert quantize_nvfp4(torch.zeros(2, 16)).global_scale == 1.0
    lost = dequantize_nvfp4(quantize_nvfp4(torch.ones(1, 16), global_scale=torch.tensor(math.nan)))
    assert lost.isnan().all()


def test_overflow_of_a_given_scale_saturates() -> None:
    found = quantize_nvfp4(torch.full((1, 16), 1e30), global_scale=torch.tensor(1.0))
    assert dequantize_nvfp4(found).tolist() == [[448.0 * 6.0] * 16]


def test_same_codes_as_the_weight_format() -> None:
    weight = torch.randn(20, 96)
    packed, state = tilewright.quantize_4bit(weight, quant_type="e2m1")
    found = quantize_nvfp4(weight)
    assert torch.equal(found.codes.reshape(-1), packed)
    assert torch.equal(found.global_scale, state.offset.reshape(()))
    plain = reference_nvfp4.unswizzle(found.scales, 20, 96).view(torch.uint8)
    assert torch.equal(plain.reshape(-1), state.absmax)
    assert dequantize_nvfp4(found).allclose(tilewright.dequantize_4bit(packed, state), rtol=1e-6)


@given(
    st.integers(1, 9),
    st.integers(1, 140),
    st.integers(1, 20),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
    st.booleans(),
    st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_products_against_float64(
    M: int, N: int, groups: int, out_dtype: torch.dtype, with_bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    K = 16 * groups
    a, b = quantize_nvfp4(torch.randn(M, K)), quantize_nvfp4(torch.randn(N, K))
    bias = torch.randn(N).to(out_dtype) if with_bias else None
    found = gemm_nvfp4(a, b, bias, out_dtype=out_dtype)
    wanted = dequantize_nvfp4(a).double() @ dequantize_nvfp4(b).double().T
    wanted = wanted if bias is None else wanted + bias.double()
    room = torch.finfo(out_dtype).eps * wanted.abs() + 1e-5 * K
    assert bool(((found.double() - wanted).abs() <= room).all())


def test_every_wrong_argument_is_named() -> None:
    a, b = quantize_nvfp4(torch.randn(2, 64)), quantize_nvfp4(torch.randn(4, 64))
    good = [a.codes, b.codes, a.scales, b.scales, a.global_scale, b.global_scale]
    cases = [
        (0, a.codes.float(), "a has dtype float32; allowed: uint8"),
        (1, b.codes[0], "b has 1 dimensions; expected 2"),
        (1, b.codes[:, :8], "a has K=64 and b has K=16; b is [N, K / 2]"),
        (
            2,
            a.scales[1:],
            "scale_a has 511 elements; expected 512 (2 rows by 4 scales, padded to 128 by 4 and swizzled)",
        ),
        (3, b.scales.float(), "scale_b has dtype float32; allowed: uint8, float8_e4m3fn"),
        (4, torch.ones(2), "global_a has 2 elements; expected 1"),
        (5, torch.ones(1).half(), "global_b has dtype float16; allowed: float32"),
    ]
    for place, wrong, text in cases:
        arguments = [*good[:place], wrong, *good[place + 1 :]]
        with pytest.raises(RuntimeError, match=re.escape(f"gemm_nvfp4: {text}")):
            op.gemm_nvfp4(*arguments)
    with pytest.raises(RuntimeError, match="K=8; expected a multiple of 16"):
        op.gemm_nvfp4(a.codes[:, :4], b.codes[:, :4], *good[2:])
    with pytest.raises(RuntimeError, match="bias has dtype float32; allowed: bfloat16"):
        op.gemm_nvfp4(*good, torch.ones(4))
    with pytest.raises(RuntimeError, match="out_dtype=7; allowed"):
        op.gemm_nvfp4(*good, None, 7)
    for x, text in (
        (torch.ones(2, 24), "K=24; expected a multiple of 16"),
        (torch.ones(2, 16).double(), "x has dtype float64"),
        (torch.ones(16), "x has 1 dimensions; expected 2"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(f"quantize_nvfp4: {text}")):
            op.quantize_nvfp4(x)
    with pytest.raises(RuntimeError, match="global_scale has 2 elements; expected 1"):
        op.quantize_nvfp4(torch.ones(2, 16), torch.ones(2))
    assert op.gemm_nvfp4(a.codes[:0], b.codes, a.scales[:0], *good[3:]).shape == (0, 4)


def test_linear() -> None:
    torch.manual_seed(1)
    dense = torch.nn.Linear(256, 96)
    layer = tilewright.LinearNVFP4.from_linear(dense)
    x = torch.randn(2, 5, 256)
    with torch.no_grad():
        wanted = dense(x)
    found = layer(x).detach()
    assert float((found - wanted).norm() / wanted.norm()) < 0.2
    rows = quantize_nvfp4(x)
    exact = dequantize_nvfp4(rows) @ layer.dequantized().T + dense.bias.detach()
    torch.testing.assert_close(found.view(10, 96), exact)
    x.requires_grad_()
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.dequantized().sum(0).expand(2, 5, 256))
    torch.testing.assert_close(layer.bias.grad, torch.full((96,), 10.0))
    half = layer.half()
    assert (half.weight_global.dtype, half.bias.dtype) == (torch.float32, torch.float16)
    assert half(x.detach().half()).dtype == torch.float16


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch itself makes an autograd function
def test_gradients_under_autocast_and_compiled() -> None:
    layer = tilewright.LinearNVFP4.from_linear(torch.nn.Linear(64, 32, bias=False))
    x = torch.randn(4, 64, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32
    torch.testing.assert_close(x.grad, layer.dequantized().sum(0).expand(4, 64), rtol=2e-2, atol=2e-2)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    twin = x.detach().clone().requires_grad_()
    compiled(twin).sum().backward()
    torch.testing.assert_close(twin.grad, layer.dequantized().sum(0).expand(4, 64))
    y = layer(x)
    layer.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_opcheck_and_compile() -> None:
    a, b = quantize_nvfp4(torch.randn(3, 64)), quantize_nvfp4(torch.randn(5, 64))
    arguments = (a.codes, b.codes, a.scales, b.scales, a.global_scale, b.global_scale)
    torch.library.opcheck(op.gemm_nvfp4.default, arguments)
    torch.library.opcheck(op.quantize_nvfp4.default, (torch.randn(3, 64),))
    layer = tilewright.LinearNVFP4.from_linear(torch.nn.Linear(64, 32))
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    for M in (2, 130):
        x = torch.randn(M, 64)
        with torch.no_grad():
            assert torch.equal(compiled(x), layer(x))


def test_convert() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(256, 208), torch.nn.Linear(208, 60), torch.nn.Linear(60, 60))
    report = tilewright.convert(model, format="nvfp4")
    assert report.converted == ("0", "1")
    assert report.skipped == {"2": "in_features=60; e2m1 needs a multiple of 16"}
    assert isinstance(model[1], tilewright.LinearNVFP4)
    assert model(torch.randn(3, 256)).shape == (3, 60)
    assert tilewright.convert(model, include="1").skipped["1"] == "is nvfp4 already"
