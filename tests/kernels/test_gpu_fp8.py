"""Every built tile of gemm_fp8 and gemm_nvfp4, forced through the ops on a GPU; quantisers beside those of the CPU."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

import tilewright
from tilewright import _ops, reference_fp8
from tilewright.fp8 import gemm_fp8, gemm_fp8_grouped, quantize_fp8
from tilewright.nvfp4 import gemm_nvfp4, quantize_nvfp4

pytestmark = pytest.mark.gpu

FP8_TILES = _ops.NATIVE.tile_names("gemm_fp8") if _ops.NATIVE.loaded else ()
NVFP4_TILES = _ops.NATIVE.tile_names("gemm_nvfp4") if _ops.NATIVE.loaded else ()
KINDS = {"tensor": ("tensor", "tensor"), "row": ("row", "row"), "block": ("block", "block128x128")}
SHAPES = [
    (1, 128, 512),
    (5, 130, 384),
    (8, 72, 4096),
    (16, 257, 1024),
    (40, 640, 896),
    (130, 259, 2048),
    (515, 384, 640),
]
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@pytest.fixture(scope="module", autouse=True)
def device() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    if not _ops.NATIVE.loaded:
        pytest.skip("needs the native library")
    torch.manual_seed(7)
    return torch.device("cuda")


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as bytes, on the CPU."""
    return tensor.reshape(-1).contiguous().view(torch.uint8).cpu()


def within(found: torch.Tensor, wanted: torch.Tensor, magnitudes: torch.Tensor, fast: bool) -> None:
    """Each element by its bound: rounding of the result, and of sums of which the tensor core keeps 13 bits or more."""
    room = torch.finfo(found.dtype).eps * wanted.abs() + (2.0**-10 if fast else 2.0**-12) * magnitudes + 1e-6
    worst = ((found.double() - wanted).abs() / room).max()
    assert bool(torch.isfinite(worst)) and float(worst) <= 1.0, float(worst)


def fp8_product(a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """fp64 product of the operands, and that of their magnitudes."""
    first = a.double() * reference_fp8.expand(sa, *a.shape).double()
    second = b.double() * reference_fp8.expand(sb, *b.shape).double()
    return first @ second.T, first.abs() @ second.abs().T


def poisoned(call):  # type: ignore[no-untyped-def]
    """The result twice, each into memory that held NaN; they must be the same, bit for bit. The second call is told
    that the weight, for which the first one waited, is static."""
    first = call(static_weights=False)
    poison = torch.full_like(first, math.nan)
    del poison
    second = call(static_weights=True)
    assert torch.equal(bits(first), bits(second))
    return second


@pytest.mark.parametrize("tile", FP8_TILES)
def test_fp8_tile(tile: str) -> None:
    ran = 0
    for index, (M, N, K) in enumerate(SHAPES):
        for kind in KINDS:
            for fast in (False, True):
                dtype = DTYPES[index % 3]
                a, sa = quantize_fp8(torch.randn(M, K, device="cuda"), KINDS[kind][0], dtype=(E4M3, E5M2)[index % 2])
                b, sb = quantize_fp8(torch.randn(N, K, device="cuda"), KINDS[kind][1])
                bias = torch.randn(N, device="cuda").to(dtype) if index % 2 else None
                wanted, magnitudes = fp8_product(a, b, sa, sb)
                with tilewright.force_tile(tile, "gemm_fp8"):
                    try:
                        found = poisoned(partial(gemm_fp8, a, b, sa, sb, bias, out_dtype=dtype, fast_accum=fast))
                    except RuntimeError as refusal:
                        assert f"the forced tile {tile} cannot run" in str(refusal), str(refusal)  # noqa: PT017
                        continue
                decision = tilewright.last_decision()
                assert decision is not None and (decision.tile, decision.family) == (tile, "gemm_fp8")
                added = 0.0 if bias is None else bias.double()
                within(found, wanted + added, magnitudes, fast and kind != "block")
                ran += 1
    if not ran:
        pytest.skip("not built for this device")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fast", [False, True])
def test_fp8_as_decided(kind: str, fast: bool) -> None:
    for M, N, K in [*SHAPES, (0, 128, 128), (3, 64, 200), (2048, 1024, 512), (33, 8, 144)]:
        a, sa = quantize_fp8(torch.randn(M, K, device="cuda"), KINDS[kind][0])
        b, sb = quantize_fp8(torch.randn(N, K, device="cuda"), KINDS[kind][1])
        found = gemm_fp8(a, b, sa, sb, out_dtype=torch.float32, fast_accum=fast)
        wanted, magnitudes = fp8_product(a, b, sa, sb)
        if M:
            within(found, wanted, magnitudes, fast and kind != "block")
        assert found.shape == (M, N)


def test_fp8_layouts() -> None:
    a, sa = quantize_fp8(torch.randn(20, 256, device="cuda"), "block")
    b, sb = quantize_fp8(torch.randn(136, 256, device="cuda"), "block128x128")
    wanted = gemm_fp8(a, b, sa, sb)
    wide = torch.zeros(20, 320, device="cuda", dtype=torch.uint8).view(E4M3)
    wide[:, :256] = a
    crooked = torch.zeros(20 * 256 + 1, device="cuda", dtype=torch.uint8).view(E4M3)[1:].view(20, 256)
    crooked.copy_(a)
    for other in (wide[:, :256], crooked, a.t().contiguous().t()):
        assert torch.equal(gemm_fp8(other, b, sa, sb), wanted)
    for scale in (sa.contiguous(), sa.repeat_interleave(2, 1)[:, ::2]):
        assert torch.equal(gemm_fp8(a, b, scale, sb), wanted)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = gemm_fp8(a, b, sa, sb)
    graph.replay()
    assert torch.equal(captured, wanted)
    torch.testing.assert_close(tilewright.scaled_mm(a, b.t(), sa, sb.t()), wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("masked", [False, True])
def test_fp8_grouped(kind: str, masked: bool) -> None:
    G, N, K = 5, 264, 512
    counts = [3, 0, 130, 17, 64]
    b, sb = zip(*(quantize_fp8(torch.randn(N, K, device="cuda"), KINDS[kind][1]) for _ in range(G)), strict=True)
    bias = torch.randn(G, N, device="cuda")
    shape = (G, 130, K) if masked else (sum(counts) + 9, K)
    a, sa = quantize_fp8(torch.randn(shape, device="cuda"), KINDS[kind][0])
    limits = torch.tensor(counts, dtype=torch.int32)
    limits = {"group_rows": limits.cuda()} if masked else {"group_ends": limits.cumsum(0).int().cuda()}
    found = gemm_fp8_grouped(a, torch.stack(b), sa, torch.stack(sb), bias=bias, out_dtype=torch.float32, **limits)
    for g, count in enumerate(counts):
        part = (g, slice(count)) if masked else slice(sum(counts[:g]), sum(counts[: g + 1]))
        wanted, magnitudes = fp8_product(a[part], b[g], sa if kind == "tensor" else sa[part], sb[g])
        if count:
            within(found[part], wanted + bias[g].double(), magnitudes, fast=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("granularity", reference_fp8.GRANULARITIES)
def test_quantize_fp8_gives_the_bytes_of_the_cpu(dtype: torch.dtype, granularity: str) -> None:
    for M, K in [(1, 1), (3, 130), (128, 128), (200, 4096), (257, 77), (4, 8192)]:
        x = torch.randn(M, K) * 10.0 ** torch.randint(-6, 5, (M, 1))
        x[0, 0], x[-1, -1] = math.nan, -math.inf
        x[M // 2] = 0.0
        x = x.to(dtype)
        for fp8 in (E4M3, E5M2):
            wanted, scale = quantize_fp8(x, granularity, dtype=fp8)
            found, own = quantize_fp8(x.cuda(), granularity, dtype=fp8)
            assert torch.equal(bits(own), bits(scale)), (M, K)
            assert torch.equal(bits(found), bits(wanted)), (M, K)
            assert own.stride() == scale.stride()
    if granularity == "tensor":
        given = torch.tensor(0.37)
        found, _ = quantize_fp8(x.cuda(), granularity, scale=given.cuda())
        assert torch.equal(bits(found), bits(quantize_fp8(x, granularity, scale=given)[0]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantize_nvfp4_gives_the_bytes_of_the_cpu(dtype: torch.dtype) -> None:
    for M, K in [(1, 16), (3, 80), (128, 64), (200, 4096), (257, 208)]:
        x = torch.randn(M, K) * 10.0 ** torch.randint(-3, 3, (M, 1))
        x[0, 3] = math.inf
        x[M // 2, :16] = 0.0
        x = x.to(dtype)
        for given in (None, torch.tensor(0.01)):
            wanted = quantize_nvfp4(x, global_scale=given)
            found = quantize_nvfp4(x.cuda(), global_scale=None if given is None else given.cuda())
            assert torch.equal(bits(found.global_scale), bits(wanted.global_scale))
            assert torch.equal(found.scales.cpu(), wanted.scales)
            assert torch.equal(found.codes.cpu(), wanted.codes)


@pytest.mark.parametrize("tile", [None, *NVFP4_TILES])
def test_nvfp4_tile(tile: str | None) -> None:
    ran = 0
    for index, (M, N, K) in enumerate(SHAPES):
        dtype = DTYPES[index % 3]
        a, b = quantize_nvfp4(torch.randn(M, K, device="cuda")), quantize_nvfp4(torch.randn(N, K, device="cuda"))
        bias = torch.randn(N, device="cuda").to(dtype) if index % 2 else None
        first = tilewright.dequantize_nvfp4(a).double()
        second = tilewright.dequantize_nvfp4(b).double()
        with tilewright.force_tile(tile, "gemm_nvfp4"):
            try:
                found = poisoned(partial(gemm_nvfp4, a, b, bias, out_dtype=dtype))
            except RuntimeError as refusal:
                assert f"the forced tile {tile} cannot run" in str(refusal), str(refusal)  # noqa: PT017
                continue
        added = 0.0 if bias is None else bias.double()
        decision = tilewright.last_decision()
        in_bf16 = decision is not None and decision.path == "fallback" and dtype == torch.bfloat16
        within(
            found, first @ second.T + added, (2.0 if in_bf16 else 1.0) * (first.abs() @ second.abs().T), fast=in_bf16
        )
        ran += 1
    if not ran:
        pytest.skip("not built for this device")


def test_linear_layers_on_the_gpu() -> None:
    dense = torch.nn.Linear(512, 384).cuda().bfloat16()
    x = torch.randn(6, 512, device="cuda", dtype=torch.bfloat16)
    wanted = dense(x).detach().float()
    for scaling in KINDS:
        layer = tilewright.LinearFP8.from_linear(dense, scaling=scaling)
        found = layer(x).detach().float()
        assert float((found - wanted).norm() / wanted.norm()) < 0.05
    static = tilewright.LinearFP8.from_linear(dense, input_scale=torch.tensor(0.02, device="cuda"))
    assert float((static(x).detach().float() - wanted).norm() / wanted.norm()) < 0.05
    found = tilewright.LinearNVFP4.from_linear(dense)(x).float()
    assert float((found - wanted).norm() / wanted.norm()) < 0.2
