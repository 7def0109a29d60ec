"""Where no kernel of the library runs, plain torch answers and says so once a device."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tilewright import _library, _ops


class Refusing(_library.Native):
    """A library whose kernels run on no device but the first."""

    def refusal(self, index: int) -> str | None:
        return None if index == 0 else f"cuda:{index} is of a kind that nobody built for"


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ops, "NATIVE", Refusing(Path("/x/_native.so"), object(), ""))
    monkeypatch.setattr(_ops, "_warned", set())


def on(device: str) -> Any:
    """Something that stands on a CUDA device, for a kernel that does not look at it."""
    return SimpleNamespace(device=torch.device(device))


@pytest.mark.usefixtures("native")
def test_one_warning_a_device() -> None:
    run = _ops._in_torch(lambda *arguments: len(arguments))
    with pytest.warns(RuntimeWarning, match="plain torch: cuda:1 is of a kind that nobody built for") as caught:
        assert [run(on("cuda:1"), 2, 3) for _ in range(3)] == [3, 3, 3]
    assert len(caught) == 1
    with pytest.warns(RuntimeWarning, match="cuda:2"):
        run(on("cuda:2"))


@pytest.mark.usefixtures("native")
def test_no_warning_where_kernels_run_and_on_the_cpu() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _ops._in_torch(lambda *arguments: 1)(on("cuda:0")) == 1
        assert _ops._in_torch(lambda *arguments: 1)(on("cpu")) == 1


def test_the_ops_in_torch_are_those_of_the_cpu() -> None:
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    packed, absmax, _ = torch.ops.tilewright._quantize_4bit_torch(weight, 64, 0)
    x = torch.ones(2, 64)
    arguments = (packed, absmax, 8, 64, 64, 0)
    product = torch.ops.tilewright._gemm_4bit_torch(x, *arguments)
    assert torch.equal(product, torch.ops.tilewright.gemm_4bit(x, *arguments))
    dense = torch.ops.tilewright._dequantize_4bit_torch(*arguments, 2)
    torch.testing.assert_close(product, x @ dense.t())
