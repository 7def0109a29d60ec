"""Linear4bit as a module: state, moves, copies."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import tilewright

FORMATS = [("nf4", False), ("nf4", True), ("fp4", False), ("e2m1", False)]


def make(quant_type: str = "nf4", nested: bool = False) -> tilewright.Linear4bit:
    torch.manual_seed(0)
    return tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 24), quant_type=quant_type, nested=nested)


@pytest.mark.parametrize(("quant_type", "nested"), FORMATS)
def test_state_dict_round_trip(quant_type: str, nested: bool) -> None:
    layer = make(quant_type, nested)
    other = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 24), quant_type=quant_type, nested=nested)
    x = torch.randn(3, 64)
    assert not torch.equal(layer(x), other(x))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(x), other(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_changing_the_dtype_leaves_the_scales_alone(dtype: torch.dtype) -> None:
    layer = make(nested=True)
    before = layer.state
    layer.to(dtype)
    assert layer.bias is not None and layer.bias.dtype == dtype
    after = layer.state
    for name in ("absmax", "nested_absmax", "nested_code", "offset"):
        assert torch.equal(getattr(before, name), getattr(after, name))
        assert getattr(before, name).dtype == getattr(after, name).dtype
    assert layer(torch.randn(2, 64, dtype=dtype)).dtype == dtype


def test_copies_compute_the_same() -> None:
    layer = make()
    x = torch.randn(3, 64)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), layer(x))


def test_the_bias_is_trained_and_the_weight_is_not() -> None:
    layer = make()
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    layer(torch.randn(3, 64)).sum().backward()
    assert layer.bias is not None and torch.equal(layer.bias.grad, torch.full((24,), 3.0))


def test_without_bias_and_in_text() -> None:
    layer = tilewright.Linear4bit.from_linear(torch.nn.Linear(64, 24, bias=False), quant_type="fp4")
    assert layer.bias is None
    text = "in_features=64, out_features=24, bias=False, quant_type=fp4, blocksize=64, nested=False"
    assert layer.extra_repr() == text


def test_meta_device() -> None:
    layer = make().to("meta")
    assert layer(torch.empty(5, 64, device="meta")).shape == (5, 24)
