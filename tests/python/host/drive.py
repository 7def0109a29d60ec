"""Drives the binding built for CPU tensors: `python drive.py LIBRARY`.

Imports torch and not tilewright, whose ops it registers.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

CODES = torch.tensor(
    [
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
        0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ]
)  # fmt: skip
N, K = 40, 128


class Record(ctypes.Structure):
    """DecisionRecord of binding_control.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("serial", "m", "n", "k")),
        *((name, ctypes.c_int32) for name in ("device", "arch", "path", "tile", "by", "dtype", "family", "layout")),
    )


def load(path: str) -> ctypes.CDLL:
    """The library, its ops registered for CPU tensors, as an H200."""
    library = ctypes.CDLL(path)
    texts = ("register_torch", "tile_name", "arch_name", "arch_for", "family_name", "family_tile_name")
    for name in (f"tilewright_{text}" for text in texts):
        getattr(library, name).restype = ctypes.c_char_p
    library.lda_of_last_launch.restype = ctypes.c_int64
    assert library.tilewright_register_torch() is None
    assert library.tilewright_register_torch() is None  # a second import must not fail
    library.setup(9, 0, 132)
    return library


library = load(sys.argv[1])
gemm = torch.ops.tilewright.gemm_4bit.default
dequantize = torch.ops.tilewright.dequantize_4bit.default
generator = torch.Generator().manual_seed(0)
packed = torch.randint(0, 256, (N * K // 2,), dtype=torch.uint8, generator=generator)
absmax = torch.rand(N * K // 64, generator=generator) + 0.5
codes = torch.stack([packed >> 4, packed & 15], dim=1).flatten().int()
weight = CODES[codes].view(N, K) * absmax.repeat_interleave(64).view(N, K)


def last() -> Record:
    """The last decision of this thread."""
    record = Record()
    library.tilewright_last_decision(ctypes.byref(record))
    return record


def same(x: torch.Tensor, bias: torch.Tensor | None = None) -> Record:
    """Checks one call against torch and returns its decision."""
    before = last().serial
    torch.testing.assert_close(gemm(x, packed, absmax, N, K, 64, 0, bias), F.linear(x, weight, bias))
    record = last()
    assert record.serial == before + (1 if x.numel() else 0)
    return record


def refused(pattern: str, *arguments: object) -> None:
    """Checks that a call raises, and with which text."""
    with pytest.raises(RuntimeError, match=pattern):
        gemm(*arguments)


def check_values() -> None:
    """Both paths, with and without bias, and what the record says."""
    bias = torch.randn(N, generator=generator)
    few = same(torch.randn(3, K), bias)
    assert (few.m, few.n, few.k, few.path, few.by, few.dtype) == (3, N, K, 1, 0, 2)
    assert library.tilewright_arch_name(few.arch) == b"sm90"
    many = same(torch.randn(2000, K), bias)
    assert (many.m, many.path, many.tile) == (2000, 0, -1)
    same(torch.randn(2000, K))
    torch.testing.assert_close(dequantize(packed, absmax, N, K, 64, 0, 2), weight)


def check_layouts() -> None:
    """Rows that can be walked in place are; the others are copied."""
    same(torch.randn(2, 256)[:, :K])
    assert library.lda_of_last_launch() == 256
    same(torch.randn(2, 1, 1, 256)[..., :K])
    assert library.lda_of_last_launch() == 256
    for x in (
        torch.randn(K),
        torch.randn(1, 2, 2, K),
        torch.randn(2, 4, 256)[:, ::2, :K],
        torch.randn(2, 3, 256)[..., 1 : K + 1],
        torch.randn(K, 3).t(),
        torch.randn(1, K).expand(3, K),
        torch.randn(3 * K + 1)[1:].view(3, K),
        torch.randn(3, 2 * K)[:, ::2],
    ):
        same(x)
    for shape in ((0, K), (2, 0, K)):
        same(torch.empty(shape))
    shifted = torch.zeros(packed.numel() + 1, dtype=torch.uint8)[1:]
    shifted.copy_(packed)
    x = torch.randn(2, K)
    strided = torch.stack([absmax, absmax], dim=1)[:, 1]
    torch.testing.assert_close(gemm(x, shifted, strided, N, K, 64, 0), x @ weight.t())
    assert gemm(x, packed[:0], absmax[:0], 0, K, 64, 0).shape == (2, 0)


def check_nested() -> None:
    """Quantised absmax."""
    code = torch.linspace(-1, 1, 256)
    bytes_ = torch.randint(0, 256, (N * K // 64,), dtype=torch.uint8)
    outer, offset = torch.tensor([0.25]), torch.tensor(0.75)
    plain = code[bytes_.int()] * outer + offset
    x = torch.randn(3, K)
    found = gemm(x, packed, bytes_, N, K, 64, 0, None, outer, code, offset)
    torch.testing.assert_close(found, gemm(x, packed, plain, N, K, 64, 0))
    refused("nested_code is missing; it is required with nested_absmax", x, packed, bytes_, N, K, 64, 0, None, outer)
    refused("offset is missing", x, packed, bytes_, N, K, 64, 0, None, outer, code)
    refused("nested_absmax has 2 elements; expected 1", x, packed, bytes_, N, K, 64, 0, None, code[:2], code, offset)
    refused("absmax has dtype float32; expected uint8", x, packed, absmax, N, K, 64, 0, None, outer, code, offset)


def check_refusals() -> None:
    """Every argument by name, before anything is launched."""
    x = torch.ones(2, K)
    good = (packed, absmax, N, K, 64, 0)
    refused("a has dtype float64; allowed: float16, bfloat16, float32", x.double(), *good)
    refused("the last dimension of a is 127; expected k=128", x[:, 1:], *good)
    refused("b has dtype float32; expected uint8", x, packed.float(), *good[1:])
    refused("b has 2559 elements; expected 2560", x, packed[1:], *good[1:])
    refused("absmax has dtype float16; expected float32", x, packed, absmax.half(), *good[2:])
    refused("absmax has 79 elements; expected 80", x, packed, absmax[1:], *good[2:])
    refused("n=-1, k=128; allowed: n >= 0", x, packed, absmax, -1, K, 64, 0)
    refused("blocksize=65; allowed: 32, 64", x, packed, absmax, N, K, 65, 0)
    refused("blocksize=64; allowed: 16 for e2m1", x, packed, absmax, N, K, 64, 2)
    refused(r"quant_type=3; allowed: 0 \(nf4\), 1 \(fp4\), 2 \(e2m1\)", x, packed, absmax, N, K, 64, 3)
    refused("bias has dtype float16; expected float32", x, *good, torch.zeros(N).half())
    refused("bias has 1 elements; expected 40", x, *good, torch.zeros(1))
    refused("offset is given; it must be None without nested_absmax", x, *good, None, None, None, torch.zeros(1))
    refused("the tile .* cannot run M=2, N=40, K=128, blocksize=64: its engine does not take", x.half(), *good)
    refused(
        "tile .* is not built. This is a dispatch-table bug; attach .*: tilewright explain 2 40 128",
        x.bfloat16(),
        *good,
    )
    library.tilewright_force_tile(-2)
    refused("dequantize_4bit: the launch failed: not supported", x.half(), *good)
    library.tilewright_force_tile(-1)


def check_force() -> None:
    """A forced tile is used, or refused by name."""
    names = [library.tilewright_tile_name(i).decode() for i in range(library.tilewright_tile_count())]
    assert library.tilewright_tile_name(len(names)) is None
    x = torch.ones(2, K)
    for number, name in enumerate(names):
        assert library.tilewright_force_tile(number) == -1
        if name.startswith("simt"):
            assert (same(x).tile, last().by) == (number, 1)
        else:  # the tensor-core engines take no fp32
            refused(f"the forced tile {name} cannot run M=2, N=40, K=128", x, packed, absmax, N, K, 64, 0)
        library.tilewright_force_tile(-1)
    library.tilewright_force_tile(-2)
    assert (same(x).path, last().by) == (0, 1)
    library.tilewright_force_tile(-1)
    assert (same(x).path, last().by) == (1, 0)


class Entry(ctypes.Structure):
    """TunedEntry of binding_tuned.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n", "k", "m_min", "m_max")),
        *((name, ctypes.c_int32) for name in ("dtype", "quant_type", "layout", "blocksize", "choice")),
    )


def set_tuned(arch: bytes, num_sms: int, *entries: tuple[int, ...]) -> int:
    """Loads a table of entries; returns the code."""
    array = (Entry * len(entries))(*(Entry(*e) for e in entries))
    return int(library.tilewright_set_tuned(arch, num_sms, array, len(entries)))


def check_tuned() -> None:
    """A table decides the problems it holds on the card it names; everything else is left to the rules."""
    names = [library.tilewright_tile_name(i).decode() for i in range(library.tilewright_tile_count())]
    simt = [i for i, name in enumerate(names) if name.startswith("simt")]
    x = torch.ones(9, K)
    ruled = same(x[:1]).tile
    tile = next(i for i in simt if i != ruled)
    other = next(i for i in simt if i not in (ruled, tile))
    weight_ = (N, K)
    # One gap in M, the fallback, and neighbours that differ in one key each.
    assert set_tuned(
        b"sm90", 132, (N, K - 8, 1, 9, 2, 0, 0, 64, other), (*weight_, 1, 1, 0, 0, 0, 64, other),
        (*weight_, 1, 2, 2, 0, 0, 64, tile), (*weight_, 4, 4, 2, 0, 0, 64, -2), (*weight_, 5, 8, 2, 0, 0, 64, other),
        (*weight_, 1, 9, 2, 0, 0, 128, tile), (*weight_, 1, 9, 2, 0, 1, 64, -2), (*weight_, 1, 9, 2, 1, 0, 64, other),
        (N + 8, K, 1, 9, 2, 0, 0, 64, other),
    ) == -1  # fmt: skip
    decided = {m: (same(x[:m]).tile, last().path, last().by) for m in range(1, 10)}
    assert decided[1] == decided[2] == (tile, 1, 2), decided
    assert decided[3][2] == decided[9][2] == 0, decided
    assert decided[4] == (-1, 0, 2)
    assert decided[5] == decided[8] == (other, 1, 2)
    library.tilewright_force_tile(simt[-1])
    assert (same(x[:1]).tile, last().by) == (simt[-1], 1)  # force stands in front
    library.tilewright_force_tile(-1)
    wgmma = next(i for i, name in enumerate(names) if name.startswith("w"))
    good = (*weight_, 1, 2, 2, 0, 0, 64, tile)
    for code, arch, *entries in (
        (0, b"sm90", (*weight_, 1, 1, 2, 0, 0, 64, wgmma)),  # takes no fp32
        (0, b"sm90", (*weight_, 1, 1, 2, 0, 0, 64, len(names))),
        (0, b"sm90", (*weight_, 1, 1, 2, 0, 0, 64, -3)),
        (0, b"sm90", (*weight_, 2, 1, 2, 0, 0, 64, tile)),
        (0, b"sm90", (*weight_, 1, 1 << 40, 2, 0, 0, 64, tile)),  # beyond what the rules were proved for
        (1, b"sm90", good, good),
        (1, b"sm90", good, (*weight_, 2, 3, 2, 0, 0, 64, tile)),
        (1, b"sm90", (*weight_, 5, 6, 2, 0, 0, 64, tile), good),
        (-2, b"sm100", good),  # no image of this build
        (-2, b"sm9", good),
    ):
        assert set_tuned(arch, 132, *entries) == code, (code, entries)
        assert same(x[:1]).by == 2  # the table before stays
    for arch, num_sms in ((b"sm80", 132), (b"sm90", 78)):
        assert set_tuned(arch, num_sms, good) == -1
        assert (same(x[:1]).tile, last().by) == (ruled, 0)
    assert set_tuned(b"sm90", 132, good) == -1
    assert same(x[:1]).by == 2
    assert set_tuned(b"", 0) == -1
    assert same(x[:1]).by == 0


def check_prepacked() -> None:
    """The order of the codes is part of the problem: for the rules, for a forced tile, for a table."""
    names = [library.tilewright_tile_name(i).decode() for i in range(library.tilewright_tile_count())]
    own = {0: torch.zeros(48 * K // 2, dtype=torch.uint8), 1: torch.zeros(3, K // 64, 512, dtype=torch.uint8)}
    rest = (torch.ones(48 * K // 64), 48, K, 64, 0)
    x = torch.ones(2, K)
    decided = {}
    for layout, order in own.items():
        torch.testing.assert_close(gemm(x, order, *rest), torch.full((2, 48), -float(K)))
        assert (last().layout, last().path) == (layout, 1 - layout)  # the kernels for float32 read one order
        refused("its engine does not take this problem", x.half(), order, *rest)
        decided[layout] = last()
        assert (last().layout, last().path) == (layout, 1)
    wide = next(i for i, name in enumerate(names) if name.startswith("w") and i != decided[1].tile)
    simt, mma = (next(i for i, name in enumerate(names) if name.startswith(start)) for start in ("simt", "32x64-128"))
    for number in (simt, mma):
        library.tilewright_force_tile(number)
        values = x if number == simt else x.half()
        refused(f"the forced tile {names[number]} does not take prepacked weights", values, own[1], *rest)
    library.tilewright_force_tile(-1)
    entry = (48, K, 1, 9, 0, 0)
    assert set_tuned(b"sm90", 132, (*entry, 1, 64, wide)) == -1
    for layout, order in own.items():
        refused("its engine does not take this problem", x.half(), order, *rest)
        assert (last().tile, last().by) == ((wide, 2) if layout else (decided[0].tile, 0))
    assert set_tuned(b"sm90", 132, (*entry, 1, 64, mma)) == 0  # reads packed codes alone
    assert set_tuned(b"sm90", 132, (*entry, 0, 64, mma)) == -1
    assert set_tuned(b"", 0) == -1


def check_quantize() -> None:
    """Three results by kernel; e2m1 goes to torch, which this process has not registered."""
    quantize = torch.ops.tilewright.quantize_4bit.default
    found, scales, offset = quantize(torch.randn(5, 33).t(), 32, 0)
    assert (found.tolist(), scales.tolist(), offset.shape) == ([0x77] * 83, [1.0] * 6, (0,))
    assert [t.numel() for t in quantize(torch.empty(0, 64), 64, 1)] == [0, 0, 0]
    for arguments, pattern in (
        ((torch.ones(2, 64), 48, 0), "blocksize=48; allowed: 32, 64"),
        ((torch.ones(2, 64), 64, 3), "quant_type=3; allowed: 0"),
        ((torch.ones(2, 64).double(), 64, 0), "weight has dtype float64; allowed: float16, bfloat16, float32"),
        ((torch.ones(2, 64).half(), 64, 0), "the launch failed: not supported .128 elements, blocksize=64"),
        ((torch.ones(2, 64), 16, 2), "tilewright::_quantize_4bit_torch"),
    ):
        with pytest.raises(RuntimeError, match=pattern):
            quantize(*arguments)


def check_memory() -> None:
    """Handles and heap cells are released on every way out."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    x = torch.ones(50, K)
    for _ in range(200):
        gemm(x, packed, absmax, N, K, 64, 0)
    before = resident()
    for _ in range(3000):
        gemm(x[:1], packed, absmax, N, K, 64, 0, torch.ones(N))
        refused("blocksize=65", x, packed, absmax, N, K, 65, 0, torch.ones(N))
    # 3,000 leaked outputs, handles or cells of the smallest kind would be over a megabyte.
    assert resident() - before < 1 << 20, resident() - before


def check_images() -> None:
    """Which rules serve which device: exact, then family, then a plain image of the same major, then PTX."""
    images = {(9, 0): b"sm90", (8, 0): b"sm80", (8, 6): b"sm80", (8, 9): b"sm89", (12, 0): b"sm120", (12, 1): b"sm120"}
    images |= dict.fromkeys([(9, 1), (10, 0), (10, 7), (11, 0), (13, 0)], b"sm89")
    assert [library.tilewright_image_for(*cc) for cc in ((8, 6), (8, 9), (9, 1), (13, 0), (7, 5))] == [0, 1, 4, 4, -1]
    nothing = [(7, 5), (5, 0)]
    for cc, name in images.items():
        assert library.tilewright_arch_for(*cc) == name, (cc, library.tilewright_arch_for(*cc))
    for cc in nothing:
        assert library.tilewright_arch_for(*cc) is None, cc


def fp8_problem(kind: str, rows: int, n: int, k: int) -> tuple[torch.Tensor, ...]:
    """Operands, scales, and the operands in fp32 with their scales."""
    a = torch.randn(rows, k, generator=generator).to(torch.float8_e4m3fn)
    b = torch.randn(n, k, generator=generator).to(torch.float8_e4m3fn)
    shapes = {
        "tensor": ((), ()),
        "row": ((rows, 1), (1, n)),
        "block": ((rows, -(-k // 128)), (-(-n // 128), -(-k // 128))),
    }
    scale_a, scale_b = (torch.rand(shape, generator=generator) + 0.5 for shape in shapes[kind])
    first, second = scale_a, scale_b.t() if kind == "row" else scale_b
    if kind == "block":
        first = scale_a.repeat_interleave(128, 1)[:, :k]
        second = scale_b.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    return a, b, scale_a, scale_b, a.float() * first, b.float() * second


def check_fp8() -> None:
    """Every kind of scaling, layouts, the fallback, and what the record says."""
    product = torch.ops.tilewright.gemm_fp8.default
    for kind in ("tensor", "row", "block"):
        a, b, scale_a, scale_b, first, second = fp8_problem(kind, 5, 136, 256)
        bias = torch.randn(136)
        wanted = F.linear(first, second, bias)
        wide = torch.zeros(5, 320, dtype=torch.float8_e4m3fn)
        wide[:, :256] = a
        crooked = torch.zeros(5 * 256 + 1, dtype=torch.uint8).view(torch.float8_e4m3fn)[1:].view(5, 256)
        crooked.copy_(a)
        for operand, lda in ((a, 256), (wide[:, :256], 320), (a.t().contiguous().t(), 256), (crooked, 256)):
            torch.testing.assert_close(product(operand, b, scale_a, scale_b, bias, 2), wanted)
            assert library.lda_of_last_launch() == lda
        strided = scale_a.t().contiguous().t() if scale_a.dim() == 2 else scale_a
        torch.testing.assert_close(product(a, b, strided, scale_b, None, 2, True), F.linear(first, second))
        record = last()
        assert (record.family, record.m, record.n, record.k, record.path, record.dtype) == (1, 5, 136, 256, 1, 2)
        assert library.tilewright_family_tile_name(1, record.tile) is not None
    a, b, scale_a, scale_b, first, second = fp8_problem("row", 3, 8, 64)
    torch.testing.assert_close(product(a, b, scale_a[:, 0], scale_b[0], None, 2), F.linear(first, second))
    assert product(a[:0], b, scale_a[:0], scale_b, None, 2).shape == (0, 8)
    # What the engine of the tile refuses, and K that no tile takes, go to torch.
    torch.testing.assert_close(product(a, b, scale_a, scale_b, None, 0), F.linear(first, second).half())
    assert (last().path, last().by, last().tile) == (0, 0, -1)
    global odd_is_static
    for odd_is_static in (True, False):  # what torch answers is handed the argument too
        odd = product(a[:, :40], b[:, :40], scale_a, scale_b, None, 2, False, odd_is_static)
        torch.testing.assert_close(odd, F.linear(first[:, :40], second[:, :40]))
        assert last().path == 0


def check_fp8_groups() -> None:
    """Contiguous and masked groups."""
    product = torch.ops.tilewright.gemm_fp8_grouped.default
    for kind in ("tensor", "row", "block"):
        parts = [fp8_problem(kind, rows, 24, 256) for rows in (3, 1, 4)]
        b = torch.stack([part[1] for part in parts])
        scale_b = torch.stack([part[3] for part in parts])
        bias = torch.randn(3, 24)
        a = torch.cat([part[0] for part in parts])
        scale_a = parts[0][2] if kind == "tensor" else torch.cat([part[2] for part in parts])
        if kind == "tensor":
            parts = [(p[0], p[1], p[2], p[3], p[0].float() * scale_a, p[5]) for p in parts]
        wanted = [F.linear(part[4], part[5], bias[g]) for g, part in enumerate(parts)]
        ends = torch.tensor([3, 4, 8], dtype=torch.int32)
        found = product(a, b, scale_a, scale_b, ends, None, bias, 2)
        torch.testing.assert_close(found, torch.cat(wanted))
        assert (last().family, last().m, last().path) == (1, 8, 1)
        rows = torch.tensor([3, 1, 4], dtype=torch.int32)
        stacked = torch.zeros(3, 4, 256, dtype=torch.float8_e4m3fn)
        scales = scale_a if kind == "tensor" else torch.ones(3, 4, parts[0][2].shape[1])
        for g, part in enumerate(parts):
            stacked[g, : rows[g]] = part[0]
            if kind != "tensor":
                scales[g, : rows[g]] = part[2]
        found = product(stacked, b, scales, scale_b, None, rows, bias, 2)
        for g in range(3):
            torch.testing.assert_close(found[g, : rows[g]], wanted[g])
    check_single_rows()


def check_single_rows() -> None:
    """Masked groups of one row each: whatever the distance between them, and a row that all groups share."""
    product = torch.ops.tilewright.gemm_fp8_grouped.default
    parts = [fp8_problem("row", 1, 24, 256) for _ in range(3)]
    b, scale_b = torch.stack([part[1] for part in parts]), torch.stack([part[3] for part in parts])
    scale_a = torch.stack([part[2] for part in parts])
    apart = torch.zeros(3, 1, 512, dtype=torch.float8_e4m3fn)[..., :256]
    rows = torch.ones(3, dtype=torch.int32)
    for g, part in enumerate(parts):
        apart[g] = part[0]
    found = product(apart, b, scale_a, scale_b, None, rows, None, 2)
    torch.testing.assert_close(found, torch.stack([F.linear(part[4], part[5]) for part in parts]))
    assert last().path == 1
    shared = apart[:1, 0].as_strided((3, 1, 256), (0, 0, 1))
    copied = product(shared.contiguous(), b, scale_a, scale_b, None, rows, None, 2)
    assert torch.equal(product(shared, b, scale_a, scale_b, None, rows, None, 2), copied)
    # The distance between groups of which there is one says nothing.
    alone = b[:1].as_strided((1, 24, 256), (7, 256, 1))
    torch.testing.assert_close(product(apart[:1], alone, scale_a[:1], scale_b[:1], None, rows[:1], None, 2), found[:1])


def check_fp8_refusals() -> None:
    """Every argument by name, before anything is launched."""
    a, b, scale_a, scale_b, *_ = fp8_problem("block", 2, 40, 256)
    one, e5m2 = torch.tensor(1.0), torch.float8_e5m2
    kinds = "allowed: one value each .per tensor., .M, 1. and .1, N. .per row., or .M, ceil.K / 128.. and"
    for arguments, pattern in (
        ((a.float(), b, one, one), "a has dtype float32; allowed: float8_e4m3fn, float8_e5m2"),
        ((a, b.to(e5m2), one, one), "b has dtype float8_e5m2; expected float8_e4m3fn"),
        ((a[0], b, one, one), "a has 1 dimensions; expected 2"),
        ((a[:, 16:], b, one, one), "a has K=240 and b has K=256; b is .N, K."),
        ((a, b, one.double(), one), "scale_a has dtype float64; expected float32"),
        ((a, b, scale_a, one), f"scale_a is .2, 2. and scale_b is .. for M=2, N=40, K=256; {kinds}"),
        ((a, b, scale_a, scale_b, one), "bias has dtype float32; expected bfloat16"),
        ((a, b, scale_a, scale_b, torch.zeros(3), 2), "bias is .3.; expected .40."),
        ((a, b, scale_a, scale_b, None, 3), "out_dtype=3; allowed: 0 .float16., 1 .bfloat16., 2 .float32."),
        ((a, b, scale_a, scale_b), "tile .* is not built. This is a dispatch-table bug; .* --family gemm_fp8 2 40 256"),
    ):
        with pytest.raises(RuntimeError, match=f"gemm_fp8: {pattern}" if "tile" not in pattern else pattern):
            torch.ops.tilewright.gemm_fp8(*arguments)
    with pytest.raises(RuntimeError, match=r"give either group_ends .contiguous. or group_rows .masked."):
        torch.ops.tilewright.gemm_fp8_grouped(a, b[None], scale_a, scale_b[None])


def check_other_families() -> None:
    """Tiles by family, forcing one, and NVFP4."""
    counts = [library.tilewright_family_tile_count(i) for i in range(4)]
    assert counts[0] == library.tilewright_tile_count()
    assert counts[3] == 0
    assert [library.tilewright_family_name(i) for i in range(4)] == [b"gemm_4bit", b"gemm_fp8", b"gemm_nvfp4", None]
    a, b, scale_a, scale_b, first, second = fp8_problem("row", 2, 64, 128)
    ran = 0
    for number in range(counts[1]):
        name = library.tilewright_family_tile_name(1, number).decode()
        assert library.tilewright_force_family_tile(1, number) == -1
        try:
            found = torch.ops.tilewright.gemm_fp8(a, b, scale_a, scale_b, None, 2, True)
            torch.testing.assert_close(found, F.linear(first, second))
            assert (last().tile, last().by, last().family) == (number, 1, 1)
            ran += 1
        except RuntimeError as error:
            assert f"the forced tile {name} cannot run M=2, N=64, K=128, scaling=row" in str(error)  # noqa: PT017
        library.tilewright_force_family_tile(1, -1)
    assert 0 < ran < counts[1]
    codes, scales = torch.zeros(2, 32, dtype=torch.uint8), torch.zeros(512, dtype=torch.uint8)
    globals_ = torch.ones(()), torch.ones(())
    library.tilewright_force_family_tile(2, -2)
    found = torch.ops.tilewright.gemm_nvfp4(codes, codes, scales, scales, *globals_, None, 2)
    assert (found.tolist(), last().family, last().path) == ([[7.0, 7.0]] * 2, 2, 0)
    library.tilewright_force_family_tile(2, -1)
    with pytest.raises(RuntimeError, match="gemm_nvfp4: scale_b has 511 elements; expected 512"):
        torch.ops.tilewright.gemm_nvfp4(codes, codes, scales, scales[1:], *globals_)
    with pytest.raises(RuntimeError, match="gemm_nvfp4: K=8; expected a multiple of 16"):
        torch.ops.tilewright.gemm_nvfp4(codes[:, :4], codes[:, :4], scales, scales, *globals_)


def check_fp8_quantize() -> None:
    """Shapes and strides of what the kernels fill."""
    quantize = torch.ops.tilewright.quantize_fp8.default
    x = torch.randn(200, 300)
    shapes = [(), (200, 1), (200, 3), (2, 3)]
    for granularity, shape in enumerate(shapes):
        codes, scales = quantize(x.t().contiguous().t(), granularity)
        assert (codes.dtype, codes.shape, tuple(scales.shape)) == (torch.float8_e4m3fn, x.shape, shape)
        assert torch.equal(scales.reshape(-1), torch.arange(scales.numel(), dtype=torch.float32))
        assert bool((codes.float() == 1).all())
    assert quantize(x, 2)[1].stride() == (1, 200)
    assert quantize(x, 0, 1, torch.tensor([2.5]))[1] == 2.5
    packed, scales, scale = torch.ops.tilewright.quantize_nvfp4(torch.randn(130, 80))
    assert (packed.shape, scales.shape, scale) == ((130, 40), (256 * 8,), 3.0)
    for arguments, pattern in (
        ((x[0], 0), "x has 1 dimensions; expected 2"),
        ((x, 4), "granularity=4; allowed: 0 .tensor."),
        ((x, 1, 2), "fp8_type=2; allowed: 0 .e4m3., 1 .e5m2."),
        ((x, 1, 0, torch.ones(1)), "scale is given; it must be None unless granularity is 0"),
        ((x.half(), 1), "the launch failed: not supported .x is .200, 300.."),
    ):
        with pytest.raises(RuntimeError, match=f"quantize_fp8: {pattern}"):
            quantize(*arguments)
    with pytest.raises(RuntimeError, match="quantize_nvfp4: K=24; expected a multiple of 16"):
        torch.ops.tilewright.quantize_nvfp4(torch.ones(2, 24))


def check_static_weights() -> None:
    """A launch waits before it reads its weight, unless that is said to be static and no copy of it is made."""
    x = torch.randn(2, K)
    crooked = torch.zeros(packed.numel() + 1, dtype=torch.uint8)[1:]
    strided = torch.stack([absmax, absmax], dim=1)[:, 1]
    a, b, scale_a, scale_b, *_ = fp8_problem("row", 2, 40, 256)
    fp8, grouped = torch.ops.tilewright.gemm_fp8, torch.ops.tilewright.gemm_fp8_grouped
    ends = torch.tensor([2], dtype=torch.int32)
    calls = {
        "4bit": lambda **flag: gemm(x, packed, absmax, N, K, 64, 0, **flag),
        "fp8": lambda **flag: fp8(a, b, scale_a, scale_b, None, 2, **flag),
        "groups": lambda **flag: grouped(a, b[None], scale_a, scale_b, ends, None, None, 2, **flag),
        "4bit, codes copied": lambda **flag: gemm(x, crooked, absmax, N, K, 64, 0, **flag),
        "4bit, scales copied": lambda **flag: gemm(x, packed, strided, N, K, 64, 0, **flag),
        "fp8, codes copied": lambda **flag: fp8(a, b.t().contiguous().t(), scale_a, scale_b, None, 2, **flag),
    }
    for name, call in calls.items():
        for flag, waits in (({}, 1), ({"static_weights": False}, 1), ({"static_weights": True}, "copied" in name)):
            call(**flag)
            assert library.fresh_weights_of_last_launch() == waits, (name, flag)


def fp8_in_torch(a, b, scale_a, scale_b, bias=None, out_dtype=1, fast=False, static=False):  # type: ignore[no-untyped-def]
    """Products with scales per row, as the package registers them."""
    assert (bias, fast, static) == (None, False, odd_is_static)
    dtype = (torch.float16, torch.bfloat16, torch.float32)[out_dtype]
    return F.linear(a.float() * scale_a, b.float() * scale_b.t()).to(dtype)


odd_is_static = False
fallbacks = torch.library.Library("tilewright", "IMPL")
fallbacks.impl("_gemm_fp8_torch", fp8_in_torch, "CPU")
fallbacks.impl("_gemm_nvfp4_torch", lambda a, b, *_: torch.full((a.shape[0], b.shape[0]), 7.0), "CPU")

check_fp8()
check_fp8_groups()
check_static_weights()
check_fp8_refusals()
check_other_families()
check_fp8_quantize()
check_values()
check_layouts()
check_nested()
check_refusals()
check_force()
check_tuned()
check_prepacked()
check_quantize()
check_memory()
check_images()
print("done")
