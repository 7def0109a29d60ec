"""One wrong argument at a time, given to the 4-bit ops themselves: which one it is, what it is, what is allowed."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import tilewright

N, K, BLOCKSIZE = 12, 4096, 64
GROUPS = 3  # of 256 among 768 blocks
OPS = torch.ops.tilewright


def nf4(**changes: Any) -> dict[str, Any]:
    """Arguments of gemm_4bit for a nested weight, with some of them changed."""
    given = {
        "a": torch.zeros(2, K), "b": torch.zeros(N * K // 2, dtype=torch.uint8),
        "absmax": torch.zeros(N * K // BLOCKSIZE, dtype=torch.uint8), "n": N, "k": K, "blocksize": BLOCKSIZE,
        "quant_type": 0, "nested_absmax": torch.zeros(GROUPS), "nested_code": torch.zeros(256),
        "offset": torch.zeros(()),
    }  # fmt: skip
    return given | changes


def e2m1(**changes: Any) -> dict[str, Any]:
    """The same for e2m1."""
    scales = torch.zeros(N * K // 16, dtype=torch.uint8)
    rest = {"nested_absmax": None, "nested_code": None, "offset": torch.zeros(())}
    return nf4(quant_type=2, blocksize=16, absmax=scales, **rest) | changes


def plain(**changes: Any) -> dict[str, Any]:
    """The same for a weight whose absmax is not nested."""
    rest = {"nested_absmax": None, "nested_code": None, "offset": None}
    return nf4(absmax=torch.zeros(N * K // BLOCKSIZE), **rest) | changes


META = torch.device("meta")
BIG = (1 << 20) + 64
WRONG = {
    "quant_type": (nf4(quant_type=3), "quant_type=3; allowed: 0 (nf4), 1 (fp4), 2 (e2m1)"),
    "quant_type below": (nf4(quant_type=-1), "quant_type=-1; allowed: 0 (nf4), 1 (fp4), 2 (e2m1)"),
    "blocksize": (nf4(blocksize=48), "blocksize=48; allowed for nf4: 32, 64"),
    "blocksize of e2m1": (e2m1(blocksize=64), "blocksize=64; allowed for e2m1: 16"),
    "n": (nf4(n=-1), "n=-1, k=4096; allowed: n >= 0"),
    "k": (nf4(k=0, a=torch.zeros(2, 0)), "n=12, k=0; allowed: n >= 0, k >= 1"),
    "n * k": (nf4(n=1 << 20, k=BIG, a=torch.zeros(1, BIG)), "n * k <= 2**40"),
    "k of e2m1": (e2m1(k=K + 8, a=torch.zeros(2, K + 8)), "k=4104; e2m1 needs a multiple of 16"),
    "b's type": (nf4(b=torch.zeros(N * K // 2)), "b has dtype float32; allowed: uint8"),
    "b's length": (nf4(b=torch.zeros(9, dtype=torch.uint8)), "b has 9 elements; expected 24576 (ceil(n * k / 2) bytes"),
    "absmax's type": (nf4(absmax=torch.zeros(768)), "absmax has dtype float32; allowed: uint8"),
    "absmax's length": (nf4(absmax=torch.zeros(767, dtype=torch.uint8)), "absmax has 767 elements; expected 768"),
    "plain absmax": (plain(absmax=torch.zeros(768).half()), "absmax has dtype float16; allowed: float32"),
    "plain with code": (plain(nested_code=torch.zeros(256)), "nested_code is given; it must be None without"),
    "plain with offset": (plain(offset=torch.zeros(())), "offset is given; it must be None without nested_absmax"),
    "nested type": (nf4(nested_absmax=torch.zeros(3).half()), "nested_absmax has dtype float16; allowed: float32"),
    "nested length": (nf4(nested_absmax=torch.zeros(4)), "nested_absmax has 4 elements; expected 3 (one per 256"),
    "no code": (nf4(nested_code=None), "nested_code is missing; it is required with nested_absmax"),
    "code's type": (nf4(nested_code=torch.zeros(256).half()), "nested_code has dtype float16; allowed: float32"),
    "code's length": (nf4(nested_code=torch.zeros(255)), "nested_code has 255 elements; expected 256 (256 codes)"),
    "no offset": (nf4(offset=None), "offset is missing; it is required with nested_absmax"),
    "offset's type": (nf4(offset=torch.zeros(()).half()), "offset has dtype float16; allowed: float32"),
    "offset's length": (nf4(offset=torch.zeros(2)), "offset has 2 elements; expected 1 (one value)"),
    "e2m1 scales": (e2m1(absmax=torch.zeros(N * K // 16)), "absmax has dtype float32; allowed: uint8, float8_e4m3fn"),
    "e2m1 count": (e2m1(absmax=torch.zeros(5, dtype=torch.uint8)), "absmax has 5 elements; expected 3072 (n * k / 16)"),
    "no global scale": (e2m1(offset=None), "offset is missing; it is required for e2m1 (the global scale)"),
    "e2m1 nested": (e2m1(nested_absmax=torch.zeros(3)), "nested_absmax is given; it must be None for e2m1"),
    "e2m1 code": (e2m1(nested_code=torch.zeros(256)), "nested_code is given; it must be None for e2m1"),
    "a's type": (nf4(a=torch.zeros(2, K).double()), "a has dtype float64; allowed: float16, bfloat16, float32"),
    "a's K": (nf4(a=torch.zeros(2, K - 1)), "the last dimension of a is 4095; expected k=4096"),
    "a scalar": (nf4(a=torch.zeros(())), "the last dimension of a is 1; expected k=4096"),
    "bias's type": (nf4(bias=torch.zeros(N).half()), "bias has dtype float16; allowed: float32"),
    "bias's length": (nf4(bias=torch.zeros(N + 1)), "bias has 13 elements; expected 12 (n)"),
    "absmax elsewhere": (nf4(absmax=torch.zeros(768, dtype=torch.uint8, device=META)), "absmax is on meta; all"),
    "nested elsewhere": (nf4(nested_absmax=torch.zeros(3, device=META)), "nested_absmax is on meta; all tensors"),
    "code elsewhere": (nf4(nested_code=torch.zeros(256, device=META)), "nested_code is on meta; all tensors"),
    "offset elsewhere": (nf4(offset=torch.zeros((), device=META)), "offset is on meta; all tensors"),
    "bias elsewhere": (nf4(bias=torch.zeros(N, device=META)), "bias is on meta; all tensors"),
}  # fmt: skip


def test_the_arguments_that_are_changed_are_right_themselves() -> None:
    for given in (nf4(), e2m1(), plain()):
        assert OPS.gemm_4bit(**given).shape == (2, N)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(name: str) -> None:
    given, text = WRONG[name]
    with pytest.raises(RuntimeError, match=re.escape(text)):
        OPS.gemm_4bit(**given)


@pytest.mark.parametrize("name", [n for n, (given, _) in WRONG.items() if "bias" not in n and not n.startswith("a")])
def test_dequantize_names_it_too(name: str) -> None:
    given, text = WRONG[name]
    rest = {key: value for key, value in given.items() if key not in ("a", "bias")}
    with pytest.raises(RuntimeError, match=re.escape(text)):
        OPS.dequantize_4bit(**rest, dtype=0)


@pytest.mark.parametrize(
    ("weight", "blocksize", "quant_type", "text"),
    [
        (torch.zeros(4, 64), 48, 0, "blocksize=48; allowed for nf4"),
        (torch.zeros(4, 64), 64, 3, "quant_type=3; allowed"),
        (torch.zeros(4, 72), 16, 2, "k=72; e2m1 needs a multiple of 16"),
        (torch.zeros(4, 64).double(), 64, 0, "weight has dtype float64; allowed: float16, bfloat16, float32"),
        (torch.zeros(()), 16, 2, "k=1; e2m1 needs a multiple of 16"),
    ],
)
def test_what_quantize_4bit_refuses(weight: torch.Tensor, blocksize: int, quant_type: int, text: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(text)):
        OPS.quantize_4bit(weight, blocksize, quant_type)


def test_the_largest_weight_is_one_of_two_to_the_forty_elements() -> None:
    """On meta, where it takes no memory."""
    count = 1 << 40
    scales = torch.empty(count // 4096, device="meta")
    codes = torch.empty(count // 2, dtype=torch.uint8, device="meta")
    out = OPS.gemm_4bit(torch.empty(1, 1 << 20, device="meta"), codes, scales, 1 << 20, 1 << 20, 4096, 0)
    assert out.shape == (1, 1 << 20)


def test_scales_that_are_all_the_same_nest_to_the_code_of_zero() -> None:
    """Their difference to the mean is zero, and so is what it is scaled by."""
    codes, nested_absmax, table, offset = tilewright.reference.quantize_nested(torch.full((300,), 0.5))
    assert float(offset) == 0.5 and not nested_absmax.any()
    assert {float(table[int(code)]) for code in codes} == {0.0}
