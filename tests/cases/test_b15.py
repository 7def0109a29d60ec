"""B15: products of sizes in 32 bits. M*N = 3e9 made a grid of zero; offsets wrapped at 2**31 elements.

On a card: results past 2**31 and 2**32 elements are compared in their last rows and columns (benchmarks/gpu_limits.py
does more of it). Without one, the sources are searched for products in 32 bits.
"""

from __future__ import annotations

import re

import pytest
import torch

import tilewright
from tilewright import _ops

from .support import ROOT, needs_gpu

SIZES = r"(?:args\.|in\.|w\.|call\.problem\.|problem\.|p\.)?(?:m|n|k|M|N|K|numel|lda)"


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("M", [8191, 8192, 8193])
def test_around_two_to_the_31(M: int) -> None:
    N, K = 262_144, 64
    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("needs 24 GiB of device memory")
    packed, state = tilewright.quantize_4bit(torch.randn(N, K, device="cuda"))
    exact = tilewright.dequantize_4bit(packed, state)
    x = torch.randn(M, K, device="cuda", dtype=torch.bfloat16)
    got = tilewright.gemm_4bit(x, packed, state)
    for rows_, columns in (
        (slice(-3, None), slice(-300, None)),
        (slice(0, 3), slice(0, 300)),
        (slice(-1, None), slice(0, 9)),
    ):
        expected = x[rows_].float() @ exact[columns].T
        # The terms of a lone element may cancel; what rounding can do to it is set by their size.
        terms = x[rows_].float().norm(dim=1, keepdim=True) * exact[columns].norm(dim=1)
        room = 2.0**-7 * (expected.abs() + terms)
        assert ((got[rows_, columns].float() - expected).abs() <= room).all()


def test_more_elements_than_the_op_takes_are_refused_before_anything_is_allocated() -> None:
    text = r"n=1048577, k=1048576; allowed: n >= 0, k >= 1, n \* k <= 2\*\*40"
    with pytest.raises(RuntimeError, match=text):
        torch.ops.tilewright.gemm_4bit(
            torch.empty(1, 1 << 20, device="meta"), torch.empty(1, dtype=torch.uint8, device="meta"),
            torch.empty(1, device="meta"), (1 << 20) + 1, 1 << 20, 64, 0,
        )  # fmt: skip


def test_shapes_past_32_bits_are_computed_without_wrapping() -> None:
    out = torch.ops.tilewright.gemm_4bit(
        torch.empty(23_491, 64, dtype=torch.bfloat16, device="meta"),
        torch.empty(262_144 * 32, dtype=torch.uint8, device="meta"), torch.empty(262_144, device="meta"),
        262_144, 64, 64, 0,
    )  # fmt: skip
    assert out.shape == (23_491, 262_144) and out.numel() > 2**32
    assert _ops.SCHEMAS


def test_no_product_of_sizes_is_made_in_32_bits() -> None:
    """Sizes are int64_t in every argument struct, and no int is made of a product of two of them."""
    for struct in (ROOT / "csrc_templates/include/tilewright").rglob("args.h"):
        text = struct.read_text("utf-8")
        assert re.search(r"int64_t [\w, ]*\bm\b|int64_t numel|int64_t m\b", text) or "quantize" in str(struct), struct
    narrow = re.compile(rf"(?:\bint|int32_t|unsigned|uint32_t)(?:>\(|\s+\w+\s*=\s*){SIZES}\s*\*\s*{SIZES}\b")
    for file in (ROOT / "csrc_templates").rglob("*.*"):
        if file.suffix in (".cuh", ".h", ".cpp", ".cu") and "emulator" not in file.parts:
            assert not narrow.search(re.sub(r"//.*", "", file.read_text("utf-8"))), file
