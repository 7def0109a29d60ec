"""The ops with random shapes, strides, offsets, dtypes and options: right, or a RuntimeError that names an argument."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import pytest
import torch

import tilewright
from tilewright import formats

COUNT = int(os.environ.get("TILEWRIGHT_FUZZ_OPS", "600"))
LIMITS = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float32: 1e-5}
OTHER_DTYPES = [torch.float64, torch.int8, torch.int32, torch.bool, torch.complex64]
ARGUMENTS = ("a", "b", "absmax", "bias", "nested_absmax", "nested_code", "offset", "last dimension", "n=", "k=",
             "blocksize", "quant_type")  # fmt: skip


def restride(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """The same values, laid out otherwise."""
    kind = rng.randrange(6)
    if kind == 0 or tensor.dim() == 0:
        return tensor
    if kind == 1:
        offset = rng.randint(1, 9)
        return torch.zeros(tensor.numel() + offset, dtype=tensor.dtype)[offset:].view(tensor.shape).copy_(tensor)
    if kind == 2:
        wide = torch.zeros((*tensor.shape[:-1], tensor.shape[-1] + rng.randint(1, 20)), dtype=tensor.dtype)
        return wide[..., : tensor.shape[-1]].copy_(tensor)
    if kind == 3:
        step = rng.randint(2, 3)
        return torch.zeros((*tensor.shape[:-1], tensor.shape[-1] * step), dtype=tensor.dtype)[..., ::step].copy_(tensor)
    if kind == 4 and tensor.dim() >= 2:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    return tensor.flip(0).contiguous().flip(0)


def case(rng: random.Random) -> dict[str, Any]:
    """A call that must be answered."""
    fmt = rng.choice(formats.FORMATS)
    blocksize = rng.choice(fmt.blocksizes)
    N = rng.choice([1, 2, 7, 16, 33, 64, 65])
    K = (
        rng.choice([16, 48, 64, 128, 256])
        if fmt.name == "e2m1"
        else rng.choice([1, 3, 31, 32, 63, 64, 65, 100, 128, 257])
    )
    nested = fmt.name != "e2m1" and rng.random() < 0.3
    values = torch.randn(N, K) / math.sqrt(K)
    packed, state = tilewright.quantize_4bit(
        restride(rng, values), quant_type=fmt.name, blocksize=blocksize, nested=nested
    )
    dtype = rng.choice(list(LIMITS))
    leading = rng.choice([(), (1,), (3,), (0,), (2, 3), (2, 0, 3), (1, 1, 5)])
    return {
        "a": restride(rng, torch.randn(*leading, K).to(dtype)), "b": restride(rng, packed),
        "absmax": restride(rng, state.absmax), "n": N, "k": K, "blocksize": blocksize, "quant_type": fmt.code,
        "bias": restride(rng, torch.randn(N).to(dtype)) if rng.random() < 0.5 else None,
        "nested_absmax": state.nested_absmax, "nested_code": state.nested_code, "offset": state.offset,
    }  # fmt: skip


def spoil(rng: random.Random, call: dict[str, Any]) -> dict[str, Any]:
    """One argument changed, perhaps to something impossible."""
    name = rng.choice([n for n in call if call[n] is not None] + ["bias", "nested_absmax", "nested_code", "offset"])
    value = call[name]
    if isinstance(value, int):
        return call | {name: rng.choice([0, -1, 1, value + 1, value * 2, 1 << 40, -(1 << 62), (1 << 63) - 1])}
    if value is None:
        return call | {name: torch.ones(rng.choice([0, 1, 5, 256]))}
    kind = rng.randrange(5)
    if kind == 0:
        return call | {name: value.to(rng.choice(OTHER_DTYPES))}
    if kind == 1:
        return call | {name: value.flatten()[: rng.randint(0, value.numel())]}
    if kind == 2:
        return call | {name: value.to("meta")}
    if kind == 3:
        return call | {name: torch.cat([value.flatten(), value.flatten()])}
    return call | {name: None} if name not in ("a", "b", "absmax") else call | {name: value[..., None]}


def test_random_calls_are_right_whatever_their_layout() -> None:
    rng = random.Random(1)
    torch.manual_seed(1)
    for number in range(COUNT):
        call = case(rng)
        got = torch.ops.tilewright.gemm_4bit(**call)
        assert got.shape == (*call["a"].shape[:-1], call["n"]) and got.dtype == call["a"].dtype, number
        scales = {k: call[k] for k in ("nested_absmax", "nested_code", "offset")}
        exact = torch.ops.tilewright.dequantize_4bit(
            call["b"], call["absmax"], call["n"], call["k"], call["blocksize"], call["quant_type"], 2, **scales
        )  # fmt: skip
        expected = call["a"].double() @ exact.double().T
        size = (call["a"].double().norm(dim=-1, keepdim=True) * exact.double().norm(dim=-1)).norm()
        if call["bias"] is not None:
            expected = expected + call["bias"].double()
            size = size + call["bias"].double().norm()
        assert (got.double() - expected).norm() <= LIMITS[got.dtype] * max(float(size), 1e-30), (
            number,
            call["a"].shape,
        )


def test_spoilt_calls_are_right_or_refused_by_name() -> None:
    rng = random.Random(2)
    torch.manual_seed(2)
    refused = 0
    for number in range(COUNT):
        call = spoil(rng, case(rng))
        try:
            got = torch.ops.tilewright.gemm_4bit(**call)
        except RuntimeError as error:
            refused += 1
            text = str(error).splitlines()[0]
            assert text.startswith("gemm_4bit: ") or "tilewright::gemm_4bit" in text, (number, text)
            assert any(name in text for name in ARGUMENTS), (number, text)
        else:
            assert got.shape[-1] == call["n"], number
    assert refused > COUNT // 3


@pytest.mark.parametrize("op", ["quantize_4bit", "dequantize_4bit"])
def test_the_other_ops_with_nonsense(op: str) -> None:
    rng = random.Random(3)
    for number in range(COUNT // 3):
        numbers = [rng.choice([-1, 0, 1, 2, 3, 16, 32, 63, 64, 4096, 1 << 40, -(1 << 62)]) for _ in range(5)]
        tensor = restride(rng, torch.randn(rng.choice([0, 1, 5, 64]), rng.choice([0, 1, 32, 64])))
        try:
            if op == "quantize_4bit":
                torch.ops.tilewright.quantize_4bit(tensor, numbers[0], numbers[1])
            else:
                packed = tensor.to(torch.uint8)
                torch.ops.tilewright.dequantize_4bit(packed, tensor, *numbers)
        except RuntimeError as error:
            if f"{op}: " not in str(error):
                pytest.fail(f"{number}: {error}")
