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
        *((name, ctypes.c_int32) for name in ("device", "arch", "path", "tile", "by", "dtype")),
    )


def load(path: str) -> ctypes.CDLL:
    """The library, its ops registered for CPU tensors, as an H200."""
    library = ctypes.CDLL(path)
    for name in ("tilewright_register_torch", "tilewright_tile_name", "tilewright_arch_name", "tilewright_arch_for"):
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
        *((name, ctypes.c_int32) for name in ("dtype", "quant_type", "blocksize", "choice")),
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
        b"sm90", 132, (N, K - 8, 1, 9, 2, 0, 64, other), (*weight_, 1, 1, 0, 0, 64, other),
        (*weight_, 1, 2, 2, 0, 64, tile), (*weight_, 4, 4, 2, 0, 64, -2), (*weight_, 5, 8, 2, 0, 64, other),
        (*weight_, 1, 9, 2, 0, 128, tile), (*weight_, 1, 9, 2, 1, 64, other), (N + 8, K, 1, 9, 2, 0, 64, other),
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
    good = (*weight_, 1, 2, 2, 0, 64, tile)
    for code, arch, *entries in (
        (0, b"sm90", (*weight_, 1, 1, 2, 0, 64, wgmma)),  # takes no fp32
        (0, b"sm90", (*weight_, 1, 1, 2, 0, 64, len(names))),
        (0, b"sm90", (*weight_, 1, 1, 2, 0, 64, -3)),
        (0, b"sm90", (*weight_, 2, 1, 2, 0, 64, tile)),
        (0, b"sm90", (*weight_, 1, 1 << 40, 2, 0, 64, tile)),  # beyond what the rules were proved for
        (1, b"sm90", good, good),
        (1, b"sm90", good, (*weight_, 2, 3, 2, 0, 64, tile)),
        (1, b"sm90", (*weight_, 5, 6, 2, 0, 64, tile), good),
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


check_values()
check_layouts()
check_nested()
check_refusals()
check_force()
check_tuned()
check_quantize()
check_memory()
check_images()
print("done")
