"""The cells of docs/numerics.md: NaN, infinities, zeros of both signs, denormals, overflow, saturation, on every route.

A route is plain torch on the CPU, or on a card each tile that can run the problem, and the fallback.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import tilewright
from tilewright import reference

from .support import DEVICES, LIMITS, ROOT, forced, routes, weight

M, N, K = 5, 72, 512
DTYPES = list(LIMITS)


def problem(
    device: str, dtype: torch.dtype, quant_type: str = "nf4"
) -> tuple[torch.Tensor, torch.Tensor, tilewright.QuantState, torch.Tensor]:
    packed, state, exact = weight(N, K, device, quant_type)
    x = torch.randn(M, K, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    return x, packed, state, exact


def on_every_route(
    device: str, x: torch.Tensor, packed: torch.Tensor, state: tilewright.QuantState,
    check: Callable[[str, torch.Tensor], None], bias: torch.Tensor | None = None,
) -> None:  # fmt: skip
    for route in routes(device, x, packed, state):
        with forced(route):
            check(route, tilewright.gemm_4bit(x, packed, state, bias))


def kind(values: torch.Tensor) -> torch.Tensor:
    """0 finite, 1 and -1 infinite, 2 NaN."""
    found = torch.where(values.isinf(), values.sign(), torch.zeros_like(values))
    return torch.where(values.isnan(), torch.full_like(values, 2), found)


def close(got: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, route: str) -> None:
    error = (got.float() - expected.float()).norm() / expected.float().norm().clamp_min(1e-30)
    assert error <= LIMITS[dtype], (route, float(error))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nan_in_an_activation_reaches_its_row_and_no_other(dtype: torch.dtype, device: str) -> None:
    x, packed, state, exact = problem(device, dtype)
    clean = x.float() @ exact.T
    x[2, 100] = math.nan

    def check(route: str, got: torch.Tensor) -> None:
        assert got[2].isnan().all(), route
        rest = [0, 1, 3, 4]
        close(got[rest], clean[rest], dtype, route)

    on_every_route(device, x, packed, state, check)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("values", [(math.inf,), (-math.inf,), (math.inf, -math.inf), (math.inf, math.nan)], ids=str)
def test_infinite_activations_are_as_in_ieee(values: tuple[float, ...], dtype: torch.dtype, device: str) -> None:
    """Infinity times a nonzero weight is infinite, times a zero weight NaN; opposite ones cancel to NaN."""
    x, packed, state, exact = problem(device, dtype)
    for at, value in enumerate(values):
        x[1, 7 + 64 * at] = value
    expected = x.double().cpu() @ exact.double().cpu().T

    def check(route: str, got: torch.Tensor) -> None:
        assert torch.equal(kind(got).cpu().double(), kind(expected)), route

    on_every_route(device, x, packed, state, check)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_zeros_of_both_signs_give_zero(dtype: torch.dtype, device: str) -> None:
    """The sign of a zero result is not specified."""
    _, packed, state, _ = problem(device, dtype)
    for zero in (0.0, -0.0):
        x = torch.full((M, K), zero, device=device, dtype=dtype)
        bias = torch.full((N,), -zero, device=device, dtype=dtype)
        on_every_route(device, x, packed, state, lambda route, got: _all_zero(route, got), bias)


def _all_zero(route: str, got: torch.Tensor) -> None:
    assert bool((got == 0).all()), route


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("dtype", "tiny"), [(torch.float16, 2.0**-24), (torch.bfloat16, 2.0**-130), (torch.float32, 2.0**-130)]
)
def test_denormal_activations_count(dtype: torch.dtype, tiny: float, device: str) -> None:
    """They are not flushed: the products of float16 are exact, those of the others may end as denormals of fp32."""
    _, packed, state, exact = problem(device, dtype)
    x = torch.full((M, K), tiny, device=device, dtype=dtype)
    assert bool((x != 0).all())
    scaled = tilewright.QuantState(state.shape, state.quant_type, state.blocksize, state.absmax * 1024)
    expected = x.double() @ (exact.double() * 1024).T
    step = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps

    def check(route: str, got: torch.Tensor) -> None:
        off = (got.double() - expected).abs()
        allowed = 4 * step + 0.02 * expected.abs() + 0.02 * tiny * 1024
        assert bool((off <= allowed).all()), (route, float(off.max()), float(expected.abs().max()))
        assert bool((got != 0).any()), route

    on_every_route(device, x, packed, scaled, check)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_overflow_of_a_result_is_infinite_and_never_saturates(dtype: torch.dtype, device: str) -> None:
    largest = torch.finfo(dtype).max
    packed = torch.full((N * K // 2,), 0xFF, dtype=torch.uint8, device=device)  # the code of 1.0
    state = tilewright.QuantState((N, K), "nf4", 64, torch.ones(N * K // 64, device=device))
    x = torch.zeros((M, K), device=device, dtype=dtype)
    x[0, :2] = largest
    x[1, :2] = -largest
    x[2, :1] = largest

    def check(route: str, got: torch.Tensor) -> None:
        assert bool((got[0] == math.inf).all() and (got[1] == -math.inf).all()), route
        assert bool((got[2] == largest).all()) and not bool(got[3:].any()), route

    on_every_route(device, x, packed, state, check)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("quant_type", ["nf4", "fp4", "e2m1"])
def test_a_weight_that_is_not_finite_reaches_its_column_and_no_other(
    quant_type: str, value: float, device: str
) -> None:
    values = torch.randn(N, K, generator=torch.Generator().manual_seed(4)) / K**0.5
    values[9, 77] = value
    packed, state = tilewright.quantize_4bit(values.to(device), quant_type=quant_type)
    back = tilewright.dequantize_4bit(packed, state)
    size = state.blocksize
    block = slice(77 // size * size, 77 // size * size + size)
    assert not torch.isfinite(back[9, 77])
    mask = torch.ones_like(back, dtype=torch.bool)
    mask[9, block] = False
    assert bool(torch.isfinite(back[mask]).all())
    x = torch.randn(M, K, generator=torch.Generator().manual_seed(1)).to(device, torch.bfloat16)
    clean = x.float() @ torch.where(mask, back, torch.zeros_like(back)).T
    rest = [n for n in range(N) if n != 9]

    def check(route: str, got: torch.Tensor) -> None:
        assert not torch.isfinite(got[:, 9]).any(), route
        close(got[:, rest], clean[:, rest], torch.bfloat16, route)

    on_every_route(device, x, packed, state, check)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("byte", [0x7F, 0xFF])
def test_the_nan_byte_of_a_scale_is_nan(byte: int, device: str) -> None:
    x, packed, state, exact = problem(device, torch.float16, "e2m1")
    clean = x.float() @ exact.T
    state.absmax.view(N, K // 16)[3, 5] = byte
    rest = [n for n in range(N) if n != 3]

    def check(route: str, got: torch.Tensor) -> None:
        assert got[:, 3].isnan().all(), route
        close(got[:, rest], clean[:, rest], torch.float16, route)

    on_every_route(device, x, packed, state, check)


@pytest.mark.parametrize("device", DEVICES)
def test_a_scale_below_zero_is_a_negative_factor(device: str) -> None:
    x, packed, state, _ = problem(device, torch.float16, "e2m1")
    state.absmax.view(N, K // 16)[3:9] |= 0x80
    exact = tilewright.dequantize_4bit(packed.cpu(), state.to("cpu")).to(device)
    on_every_route(device, x, packed, state, lambda route, got: close(got, x.float() @ exact.T, torch.float16, route))


@pytest.mark.parametrize("device", DEVICES)
def test_denormal_scales_count(device: str) -> None:
    """e4m3 has denormals down to 2**-9."""
    x, packed, state, _ = problem(device, torch.float32, "e2m1")
    state.absmax.fill_(1)
    state.absmax.view(N, K // 16)[1] = 7
    exact = tilewright.dequantize_4bit(packed.cpu(), state.to("cpu")).to(device)
    on_every_route(device, x, packed, state, lambda route, got: close(got, x @ exact.T, torch.float32, route))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("quant_type", ["nf4", "fp4", "e2m1"])
def test_a_zero_block_adds_nothing(quant_type: str, device: str) -> None:
    values = torch.zeros(N, K)
    values[:, ::128] = torch.randn(N, K // 128, generator=torch.Generator().manual_seed(6))
    values[7] = 0
    packed, state = tilewright.quantize_4bit(values.to(device), quant_type=quant_type)
    x = torch.full((M, K), 6e4, device=device, dtype=torch.float16)
    on_every_route(device, x, packed, state, lambda route, got: _all_zero(route, got[:, 7]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_bias_that_is_not_finite_reaches_its_column(value: float, device: str) -> None:
    x, packed, state, exact = problem(device, torch.bfloat16)
    bias = torch.zeros(N, device=device, dtype=x.dtype)
    bias[70] = value
    clean = x.float() @ exact.T

    def check(route: str, got: torch.Tensor) -> None:
        assert bool((kind(got[:, 70]) == kind(bias[70])).all()), route
        close(got[:, :70], clean[:, :70], torch.bfloat16, route)

    on_every_route(device, x, packed, state, check, bias)


@pytest.mark.parametrize("amax", [6 * 448.0, 6 * 464.0, 6 * 465.0, 6 * 480.0, 1e30])
def test_scales_saturate_at_448_where_the_global_scale_is_given(amax: float) -> None:
    """Rounding would take 464 to 448 and turn 465 into NaN; both saturate, and the codes with them."""
    values = torch.zeros(16)
    values[3] = amax
    codes, scales, _ = reference.quantize_e2m1(values, torch.tensor(1.0))
    assert scales.tolist() == [0x7E]
    assert int(codes[3]) == 7


def test_nested_scales_hold_no_infinity_and_say_so() -> None:
    values = torch.randn(8, 64)
    values[0, 0] = math.inf
    with pytest.raises(ValueError, match="a block whose absmax is not finite, which nested scales cannot hold"):
        tilewright.quantize_4bit(values, nested=True)


@pytest.mark.parametrize("device", DEVICES)
def test_weights_beyond_the_type_of_the_activations(device: str) -> None:
    """Kernels on tensor cores and the fallback round weights to that type: 1e5 is infinite there, and so the result."""
    packed = torch.full((N * K // 2,), 0xFF, dtype=torch.uint8, device=device)
    state = tilewright.QuantState((N, K), "nf4", 64, torch.full((N * K // 64,), 1e5, device=device))
    x = torch.zeros((M, K), device=device, dtype=torch.float16)
    x[:, 0] = 0.25

    def check(route: str, got: torch.Tensor) -> None:
        assert bool(((got == 25_000) | got.isinf() | got.isnan()).all()), (route, got[0, :2].tolist())
        if route == "torch" or route.startswith("simt"):
            assert bool((got == 25_000).all()), route

    on_every_route(device, x, packed, state, check)


def test_the_page_names_every_test_of_this_file() -> None:
    page = (ROOT / "docs/numerics.md").read_text("utf-8")
    for name in [n for n in globals() if n.startswith("test_") and n != "test_the_page_names_every_test_of_this_file"]:
        assert f"`{name}`" in page, name
