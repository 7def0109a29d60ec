"""prepack, unpack, and what takes prepacked codes."""

from __future__ import annotations

import copy

import pytest
import torch

import tilewright


@pytest.fixture
def weight() -> torch.Tensor:
    return torch.randn(48, 192, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(("n", "k"), [(16, 64), (48, 192), (32, 1024)])
def test_unpack_gives_back_what_was_packed(n: int, k: int) -> None:
    packed = torch.randint(0, 256, (n * k // 2,), dtype=torch.uint8)
    prepacked = tilewright.prepack(packed, n, k)
    assert prepacked.shape == (n // 16, k // 64, 512)
    assert torch.equal(tilewright.unpack(prepacked), packed)
    assert tilewright.prepack(prepacked, n, k) is prepacked
    assert tilewright.unpack(packed) is packed


def test_a_lane_owns_its_bytes_of_two_rows() -> None:
    n, k = 32, 128
    rows = torch.arange(n * k // 2).remainder(251).to(torch.uint8).view(n, k // 2)
    prepacked = tilewright.prepack(rows.flatten(), n, k)
    for group, block, g, t in [(0, 0, 0, 0), (1, 0, 3, 2), (0, 1, 7, 3), (1, 1, 5, 1)]:
        own = prepacked[group, block, 16 * (4 * g + t) :][:16]
        for half in range(2):
            row = rows[16 * group + 8 * half + g, 32 * block :]
            assert own[8 * half : 8 * half + 8].tolist() == [row[4 * w + t].item() for w in range(8)]


@pytest.mark.parametrize(("n", "k"), [(40, 64), (48, 96), (0, 64)])
def test_shapes_that_cannot_be_prepacked(n: int, k: int) -> None:
    assert not tilewright.can_prepack(n, k)
    with pytest.raises(ValueError, match="multiple of 16"):
        tilewright.prepack(torch.zeros(n * k // 2, dtype=torch.uint8), n, k)


def test_prepack_refuses_what_is_no_packed_weight() -> None:
    with pytest.raises(ValueError, match="expected uint8 of 512"):
        tilewright.prepack(torch.zeros(511, dtype=torch.uint8), 16, 64)
    with pytest.raises(ValueError, match=r"packed is torch\.int8"):
        tilewright.prepack(torch.zeros(512, dtype=torch.int8), 16, 64)


@pytest.mark.parametrize(("quant_type", "nested"), [("nf4", False), ("nf4", True), ("fp4", False), ("e2m1", False)])
def test_both_layouts_give_the_same_results(weight: torch.Tensor, quant_type: str, nested: bool) -> None:
    packed, state = tilewright.quantize_4bit(weight, quant_type=quant_type, nested=nested)
    prepacked = tilewright.prepack(packed, *state.shape)
    x = torch.randn(3, 192)
    assert torch.equal(tilewright.gemm_4bit(x, prepacked, state), tilewright.gemm_4bit(x, packed, state))
    assert torch.equal(tilewright.dequantize_4bit(prepacked, state), tilewright.dequantize_4bit(packed, state))


def test_three_dimensions_must_be_the_prepacked_ones(weight: torch.Tensor) -> None:
    packed, state = tilewright.quantize_4bit(weight)
    with pytest.raises(RuntimeError, match=r"b has shape \[3, 6, 256\]; in three dimensions it is prepacked"):
        tilewright.gemm_4bit(torch.randn(1, 192), packed.view(3, 6, 256), state)


def test_linear_saves_the_packed_layout(weight: torch.Tensor) -> None:
    linear = torch.nn.Linear(192, 48)
    plain = tilewright.Linear4bit.from_linear(linear)
    fast = tilewright.Linear4bit.from_linear(linear, prepack=True)
    assert fast.weight.dim() == 3
    saved = fast.state_dict()
    assert all(torch.equal(saved[name], value) for name, value in plain.state_dict().items())
    x = torch.randn(5, 192)
    assert torch.equal(fast(x), plain(x))
    other = tilewright.Linear4bit.from_linear(torch.nn.Linear(192, 48), prepack=True)
    other.load_state_dict(saved)
    assert other.weight.dim() == 3
    assert torch.equal(other(x), plain(x))
    assert torch.equal(copy.deepcopy(fast)(x), plain(x))


def test_linear_keeps_a_shape_that_cannot_be_prepacked() -> None:
    linear = tilewright.Linear4bit.from_linear(torch.nn.Linear(100, 30), prepack=True)
    assert linear.weight.dim() == 1


def test_gradients_flow_through_prepacked_codes(weight: torch.Tensor) -> None:
    packed, state = tilewright.quantize_4bit(weight)
    grads = []
    for codes in (packed, tilewright.prepack(packed, *state.shape)):
        x = torch.ones(2, 192, requires_grad=True)
        tilewright.gemm_4bit(x, codes, state).sum().backward()
        grads.append(x.grad)
    assert grads[0] is not None and grads[1] is not None and torch.equal(grads[0], grads[1])


def test_convert_and_checkpoint_of_prepacked_layers() -> None:
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.Linear(64, 10))
    plain = copy.deepcopy(model)
    tilewright.convert(model, prepack=True)
    tilewright.convert(plain)
    assert model[0].weight.dim() == 3 and model[1].weight.dim() == 1
    x = torch.randn(2, 128)
    assert torch.equal(model(x), plain(x))
    saved, wanted = (tilewright.checkpoint.to_bitsandbytes(m[0]) for m in (model, plain))
    assert all(torch.equal(saved[name], value) for name, value in wanted.items())


def test_explain_and_the_last_decision_know_the_layout(weight: torch.Tensor) -> None:
    packed, state = tilewright.quantize_4bit(weight)
    for codes, layout in ((packed, "packed"), (tilewright.prepack(packed, *state.shape), "prepacked")):
        tilewright.gemm_4bit(torch.randn(3, 192), codes, state)
        found = tilewright.last_decision("cpu")
        assert found is not None and found.layout == layout
        reasons = tilewright.explain(3, 4096, 4096, arch="sm90", layout=layout)
        assert f"layout={layout}" in str(reasons) and reasons.tile is not None
    assert tilewright.explain(3, 4096, 4096, arch="sm80").tile is not None
    assert tilewright.explain(3, 4096, 4096, arch="sm80", layout="prepacked").tile is None
    with pytest.raises(ValueError, match="layout is 'plain'; allowed: packed, prepacked"):
        tilewright.explain(3, 4096, 4096, arch="sm90", layout="plain")
