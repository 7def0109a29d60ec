"""Random calls of gemm_fp8, gemm_fp8_grouped, scaled_mm and quantize_fp8."""

from __future__ import annotations

import random
from dataclasses import dataclass

import bounds
import fuzz_pool
import torch
from fuzz_gemm_4bit import refusal, route
from fuzz_pool import DTYPES, Outcome, Poison

import tilewright
from tilewright import reference_fp8

KINDS = ("tensor", "row", "block")
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
NORM_LIMITS = {False: 2.0**-9, True: 2.0**-7}
"""Of results in fp32, by fast_accum; the unit of the type of the result is added."""


@dataclass
class Weight:
    """Codes [..., N, K]; by kind of scaling their scales, the values in fp32, and the norms of the rows of those."""

    codes: torch.Tensor
    scales: dict[str, torch.Tensor]
    exact: dict[str, torch.Tensor]
    norms: dict[str, torch.Tensor]


def code_buffers(device: torch.device, count: int) -> dict[torch.dtype, torch.Tensor]:
    """Flat finite codes of both types, spread like a normal distribution."""
    values = torch.randn(count, device=device)
    return {FP8[0]: (values * 60).clamp(-448, 448).to(FP8[0]), FP8[1]: (values * 60).to(FP8[1])}


def block_sizes(N: int, K: int) -> tuple[int, int]:
    """Blocks of 128 x 128."""
    return -(-N // 128), -(-K // 128)


class Pool:
    """Operands and scales of FP8 products.

    Rows of the two sides are independent: with equal ones every term of a sum is positive, and what tensor cores cut
    off each time they add is no longer small beside the sum.
    """

    def __init__(self, device: torch.device, count: int) -> None:
        self.device = device
        self.codes = code_buffers(device, count)
        self.weights = code_buffers(device, count)[FP8[0]]
        self.factors = 0.5 + torch.rand(fuzz_pool.SIZE // 8, device=device)

    def scale(self, rng: random.Random, shape: tuple[int, ...], size: float, odds: float = 0.2) -> torch.Tensor:
        """Scales of `shape` around `size`; now and then with strides of their own."""
        count = 1
        for n in shape:
            count *= n
        start = rng.randrange(self.factors.numel() - 2 * count - 1)
        kind = rng.random()
        if kind < odds and len(shape) == 2:
            return (self.factors[start : start + count] * size).view(shape[1], shape[0]).t()
        if kind < 1.5 * odds and len(shape) >= 1:
            return (self.factors[start : start + 2 * count] * size).view(*shape[:-1], shape[-1] * 2)[..., ::2]
        return (self.factors[start : start + count] * size).view(shape)

    def weight(self, rng: random.Random, groups: int, N: int, K: int) -> Weight:
        """A weight, or a stack of `groups` of them (0: none)."""
        lead = (groups,) if groups else ()
        rows = max(1, groups) * (N + (rng.choice([0, 0, 3]) if groups else 0))
        codes = fuzz_pool.view(rng, self.weights, rows, K)
        if groups:
            if not codes.is_contiguous():
                codes = codes.contiguous()
            codes = codes.view(groups, rows // groups, K)[:, :N]
        values = codes.float()
        size = 1 / (60 * K**0.5)
        n_blocks, k_blocks = block_sizes(N, K)
        scales = {
            "tensor": self.scale(rng, lead, size),
            "row": self.scale(rng, (*lead, N) if groups else rng.choice([(N,), (N, 1), (1, N)]), size),
            "block": self.scale(rng, (*lead, n_blocks, k_blocks), size),
        }
        wide = scales["block"].repeat_interleave(128, -1)[..., :K].repeat_interleave(128, -2)[..., :N, :]
        exact = {
            "tensor": values * scales["tensor"].reshape(*lead, 1, 1),
            "row": values * scales["row"].reshape(*lead, N, 1),
            "block": values * wide,
        }
        return Weight(codes, scales, exact, {kind: e.norm(dim=-1) for kind, e in exact.items()})


class GemmFp8:
    """gemm_fp8 and scaled_mm against fp32 products of the same operands."""

    def __init__(self, rng: random.Random, device: torch.device, weights: int) -> None:
        self.pool = Pool(device, fuzz_pool.SIZE)
        self.device = device
        self.poison = Poison(device)
        self.weights = [self._make(rng) for _ in range(weights)]

    def _make(self, rng: random.Random) -> Weight:
        N = fuzz_pool.near(rng, [1, 8, 16, 64, 127, 128, 256, 257, 512, 1000, 1536, 4096])
        K = fuzz_pool.near(rng, [16, 64, 128, 256, 384, 512, 1024, 2048, 4096, 7168], 16)
        if rng.random() < 0.6:
            K = -(-K // 128) * 128
        return self.pool.weight(rng, 0, N, K)

    def call(self, rng: random.Random) -> Outcome:
        """One call."""
        w = rng.choice(self.weights)
        N, K = w.codes.shape
        kind, dtype, a_type, fast = rng.choice(KINDS), rng.choice(DTYPES), rng.choice(FP8), rng.random() < 0.5
        a = fuzz_pool.view(rng, self.pool.codes[a_type], fuzz_pool.row_count(rng), K)
        M = a.shape[0]
        shape = {"tensor": rng.choice([(), (1,), (1, 1)]), "row": rng.choice([(M,), (M, 1)])}
        scale = self.pool.scale(rng, shape.get(kind, (M, -(-K // 128))), 1 / 60)
        bias = torch.randn(N, device=self.device).to(dtype) if rng.random() < 0.5 else None
        about = f"a {list(a.shape)} {a.stride()} {a_type}, b {N}x{K} {w.codes.stride()}, {kind} {dtype} fast={fast}"
        if rng.random() < 0.02:
            return refusal(lambda: tilewright.gemm_fp8(a[:, 1:], w.codes, scale, w.scales[kind], bias), about)

        ahead = fuzz_pool.Ahead(rng, w.scales[kind], w.codes)

        def run() -> torch.Tensor:
            b_scale, b = ahead.write()
            static = ahead.static
            if adapter:
                own = (a, b.t(), scale, b_scale.t(), bias, None, dtype, fast)
                return tilewright.scaled_mm(*own, static_weights=static)
            options = {"fast_accum": fast, "static_weights": static}
            return tilewright.gemm_fp8(a, b, scale, b_scale, bias, out_dtype=dtype, **options)

        adapter = rng.random() < 0.1
        self.poison.spread(((M, N), dtype))
        got = run()
        self.poison.look(got)
        assert got.shape == (M, N) and got.dtype == dtype, about
        if got.numel() == 0:
            return Outcome(None, about, ("empty",))
        rows = scaled_rows(a, scale, kind)
        exact = rows @ w.exact[kind].T
        spread = rows.norm(dim=1, keepdim=True) * w.norms[kind]
        ratio = product_ratio(got, exact, spread, K, fast and kind != "block", bias)
        if rng.random() < 0.05:
            ratio = torch.maximum(ratio, bounds.bytes_differ(got, run()))
        return Outcome(ratio, about, (route(), f"{kind}, {'fast' if fast and kind != 'block' else 'accurate'}"))


def scaled_rows(a: torch.Tensor, scale: torch.Tensor, kind: str) -> torch.Tensor:
    """a [..., K] times its scales, in fp32."""
    K = a.shape[-1]
    if kind == "block":
        return a.float() * scale.repeat_interleave(128, -1)[..., :K]
    return a.float() * (scale.reshape(()) if kind == "tensor" else scale.reshape(*a.shape[:-1], 1))


def product_ratio(
    got: torch.Tensor, exact: torch.Tensor, spread: torch.Tensor, K: int, fast: bool, bias: torch.Tensor | None
) -> torch.Tensor:
    """Error over the limit of a result [M, N]."""
    # Without a kernel, products for bf16 results are taken of operands in bf16.
    unit = 2 * bounds.UNIT[torch.bfloat16] if route() == "fallback" and got.dtype == torch.bfloat16 else 2.0**-24
    return torch.maximum(
        bounds.over_limit(got, exact, spread, K, unit, bounds.fp8_sums(fast, K), bias),
        bounds.norm_over_limit(got, exact, spread, K, NORM_LIMITS[fast] + 2 * bounds.UNIT[got.dtype], bias),
    )


class GemmFp8Grouped:
    """gemm_fp8_grouped, contiguous and masked; rows of no group are not looked at."""

    def __init__(self, rng: random.Random, device: torch.device, weights: int) -> None:
        self.pool = Pool(device, fuzz_pool.SIZE)
        self.device = device
        self.poison = Poison(device)
        self.weights = [self._make(rng) for _ in range(max(8, weights // 4))]

    def _make(self, rng: random.Random) -> Weight:
        N = fuzz_pool.near(rng, [8, 64, 128, 256, 257, 512, 1024])
        K = fuzz_pool.near(rng, [64, 128, 256, 512, 1024, 2048], 16)
        if rng.random() < 0.7:
            K = -(-K // 128) * 128
        return self.pool.weight(rng, rng.choice([1, 2, 3, 5, 8]), N, K)

    def call(self, rng: random.Random) -> Outcome:
        """One call."""
        w = rng.choice(self.weights)
        G, N, K = w.codes.shape
        kind, dtype, a_type, fast = rng.choice(KINDS), rng.choice(DTYPES), rng.choice(FP8), rng.random() < 0.5
        masked = rng.random() < 0.5
        counts = [rng.choice([0, 1, 3, 16, 64, 100, 129, 200]) for _ in range(G)]
        M = max(1, *counts) + rng.randint(0, 9) if masked else sum(counts) + rng.choice([0, 0, 5, 130])
        a = fuzz_pool.view(rng, self.pool.codes[a_type], G * M if masked else M, K)
        lead: tuple[int, ...] = (M,)
        if masked:
            a = (a if a.is_contiguous() else a.contiguous()).view(G, M, K)
            lead = (G, M)
        shapes = {"tensor": (), "row": (*lead, 1), "block": (*lead, -(-K // 128))}
        scale = self.pool.scale(rng, shapes[kind], 1 / 60)
        bias = torch.randn(G, N, device=self.device).to(dtype) if rng.random() < 0.5 else None
        ends = [sum(counts[: g + 1]) for g in range(G)]
        limits = torch.tensor(counts if masked else ends, dtype=torch.int32).to(self.device)
        about = f"a {list(a.shape)} {a_type}, b {G}x{N}x{K}, {kind} {dtype} fast={fast} masked={masked} {counts}"
        ahead = fuzz_pool.Ahead(rng, w.scales[kind], w.codes)
        self.poison.spread(((*lead, N), dtype))
        b_scale, b = ahead.write()
        got = tilewright.gemm_fp8_grouped(
            a, b, scale, b_scale, bias=bias, out_dtype=dtype, fast_accum=fast, static_weights=ahead.static,
            **{"group_rows" if masked else "group_ends": limits},
        )  # fmt: skip
        self.poison.look(got)
        assert got.shape == (*lead, N) and got.dtype == dtype, about
        rows, found, exact, spread, added = scaled_rows(a, scale, kind), [], [], [], []
        for g, count in enumerate(counts):
            if count:
                part = (g, slice(count)) if masked else (slice(ends[g] - count, ends[g]),)
                found.append(got[part])
                exact.append(rows[part] @ w.exact[kind][g].T)
                spread.append(rows[part].norm(dim=1, keepdim=True) * w.norms[kind][g])
                added.append(bias[g].expand(count, N) if bias is not None else None)
        if not found:
            return Outcome(None, about, ("empty",))
        flat = None if bias is None else torch.cat([b for b in added if b is not None])
        whole = (torch.cat(found), torch.cat(exact), torch.cat(spread))
        ratio = product_ratio(*whole, K, fast and kind != "block", flat)
        return Outcome(ratio, about, (route(), f"{kind}, {'masked' if masked else 'contiguous'}"))


class QuantizeFp8:
    """quantize_fp8: the bytes of plain torch."""

    def __init__(self, rng: random.Random, device: torch.device, weights: int) -> None:
        self.device = device
        self.poison = Poison(device)
        generator = torch.Generator(device).manual_seed(rng.randrange(1 << 30))
        values = fuzz_pool.wild(fuzz_pool.SIZE // 4, device, generator)
        self.flat = {d: values.to(d) for d in DTYPES}

    def call(self, rng: random.Random) -> Outcome:
        """One call."""
        dtype, fp8 = rng.choice(DTYPES), rng.choice(FP8)
        granularity = rng.choice(reference_fp8.GRANULARITIES)
        rows = rng.choice([0, 1, 2, 7, 64, 127, 128, 129, 300])
        columns = fuzz_pool.near(rng, [1, 16, 77, 128, 130, 512, 1000, 4096])
        x = fuzz_pool.view(rng, self.flat[dtype], rows, columns)
        scale = None
        if granularity == "tensor" and rng.random() < 0.4:
            scale = torch.full((), rng.choice([0.37, 1e-3, 100.0, 2.0**-126]), device=self.device)
        about = f"x {list(x.shape)} {x.stride()} {dtype}, {granularity} {fp8} scale={scale is not None}"
        number, fp8_type = reference_fp8.GRANULARITIES.index(granularity), FP8.index(fp8)
        shape = reference_fp8.scale_shape(rows, columns, number)
        self.poison.spread(((rows, columns), fp8), (shape, torch.float32))
        codes, own = tilewright.quantize_fp8(x, granularity, dtype=fp8, scale=scale)
        self.poison.look(codes)
        wanted, wanted_scale = reference_fp8.quantize(x, number, fp8_type, scale)
        assert own.stride() == wanted_scale.stride(), about
        ratio = bounds.bytes_differ(codes, wanted) + bounds.bytes_differ(own, wanted_scale)
        return Outcome(ratio, about, (granularity,))
