"""B19: strided tensors read as contiguous; a view at an odd offset faults on a load of 16 bytes."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import tilewright

from .support import DEVICES, forced, nrmse, routes, weight

K, N = 64, 128


def views(device: str) -> dict[str, torch.Tensor]:
    flat = torch.randn(4 * 38 * 256 * 3, generator=torch.Generator().manual_seed(0)).to(device, torch.bfloat16)
    found = {
        "every other row": flat[: 3 * 4 * K].view(3, 4, K)[:, ::2, :],
        "a cut of four dimensions": flat[: 4 * 3 * 38 * 70].view(4, 3, 38, 70)[:, :, 10:15, 3 : 3 + K],
        "transposed": flat[: K * 5].view(K, 5).t(),
        "expanded": flat[:K].expand(7, K),
        "every other column": flat[: 5 * 2 * K].view(5, 2 * K)[:, ::2],
        "four dimensions": flat[: 2 * 3 * 2 * K].view(2, 3, 2, K),
        "permuted": flat[: 4 * 6 * K].view(4, 6, K).transpose(0, 1),
        "rows of one element apart": flat[: K + 5].unfold(0, K, 1),
    }
    for offset in (1, 2, 4, 8):
        found[f"offset {offset}"] = flat[offset : offset + 9 * K].view(9, K)
        found[f"wide rows at offset {offset}"] = flat[: 9 * (K + offset)].view(9, K + offset)[:, offset:]
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", views("cpu"))
def test_activations_as_after_contiguous(name: str, device: str) -> None:
    x = views(device)[name]
    packed, state, exact = weight(N, K, device)
    for route in routes(device, x, packed, state):
        with forced(route):
            got = tilewright.gemm_4bit(x, packed, state)
            assert torch.equal(got, tilewright.gemm_4bit(x.contiguous(), packed, state)), route
            assert nrmse(got, x.float() @ exact.T) < 8e-3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("offset", [1, 2, 4, 8])
@pytest.mark.parametrize("name", ["packed", "absmax", "bias"])
def test_other_tensors_at_an_offset(name: str, offset: int, device: str) -> None:
    packed, state, _ = weight(N, K, device)
    x = torch.randn(5, K, device=device, dtype=torch.bfloat16)
    tensors = {"packed": packed, "absmax": state.absmax, "bias": torch.randn(N, device=device, dtype=x.dtype)}

    def call() -> torch.Tensor:
        return torch.ops.tilewright.gemm_4bit(
            x, tensors["packed"], tensors["absmax"], N, K, state.blocksize, 0, tensors["bias"]
        )  # fmt: skip

    expected = call()
    plain = tensors[name]
    shifted = torch.zeros(plain.numel() + offset, dtype=plain.dtype, device=device)[offset:]
    tensors[name] = shifted.copy_(plain)
    assert torch.equal(call(), expected)
    tensors[name] = torch.stack([plain, plain.flip(0)], dim=1)[:, 0]
    assert torch.equal(call(), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("offset", [1, 4, 8, 16])
def test_e2m1_scales_at_an_offset(offset: int, device: str) -> None:
    x = torch.randn(5, K, device=device, dtype=torch.bfloat16)
    packed, state = tilewright.quantize_4bit(torch.randn(N, K, device=device), quant_type="e2m1")
    plain = state.absmax
    shifted = torch.zeros(plain.numel() + offset, dtype=plain.dtype, device=device)[offset:].view(plain.shape)
    moved = dataclasses.replace(state, absmax=shifted.copy_(plain))
    for route in routes(device, x, packed, state):
        with forced(route):
            assert torch.equal(tilewright.gemm_4bit(x, packed, moved), tilewright.gemm_4bit(x, packed, state)), route


@pytest.mark.parametrize("device", DEVICES)
def test_strided_weights_are_quantised_as_they_are_seen(device: str) -> None:
    values = torch.randn(4, 3, 38, 256, generator=torch.Generator().manual_seed(2)).to(device)
    for view in (values[:, :, 10:15, :].reshape(-1, 256)[::2], values[0, 0].t(), values[0, 0][:, ::2]):
        packed, state = tilewright.quantize_4bit(view, blocksize=256)
        plain, plain_state = tilewright.quantize_4bit(view.contiguous(), blocksize=256)
        assert torch.equal(packed, plain) and torch.equal(state.absmax, plain_state.absmax)


def test_a_weight_handed_over_transposed_is_refused_by_its_shape() -> None:
    packed, state = tilewright.quantize_4bit(torch.randn(K, N))
    with pytest.raises(RuntimeError, match="gemm_4bit: the last dimension of a is 64; expected k=128"):
        tilewright.gemm_4bit(torch.randn(2, K), packed, state)
