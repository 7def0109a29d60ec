"""What `bench` times: gemm_4bit, dense cuBLAS, bitsandbytes, gemlite, each on the same activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from . import _machine
from ._version import __version__
from .gemm import dequantize_4bit, gemm_4bit, quantize_4bit

NAMES = ("tilewright", "dense", "bitsandbytes", "gemlite")
_LIMIT = 0.05
_MOST_COPIES = 48
_GEMLITE_GROUP = 64
Call = Callable[[int], torch.Tensor]


class Weights:
    """Enough copies of one weight [N, K], packed and dense, that calls in turn never meet a warm one."""

    def __init__(
        self, N: int, K: int, quant_type: str, dtype: torch.dtype, device: torch.device, rotated_bytes: float
    ) -> None:
        self.N, self.K, self.quant_type, self.dtype = N, K, quant_type, dtype
        copies = max(2, min(_MOST_COPIES, math.ceil(rotated_bytes / (N * K * 0.57))))
        dense_copies = max(2, min(copies, math.ceil(rotated_bytes / (2 * N * K))))
        self.dense = [torch.randn(N, K, device=device, dtype=dtype) / math.sqrt(K) for _ in range(dense_copies)]
        self.packed = [quantize_4bit(self.dense[i % dense_copies], quant_type=quant_type) for i in range(copies)]
        self._gemlite: list[Any] | None = None

    def gemlite(self) -> list[Any]:
        """int4 layers of gemlite with group 64, one scale and zero point a group; made once."""
        if self._gemlite is None:
            self._gemlite = [_gemlite_layer(weight) for weight in self.dense]
        return self._gemlite


def versions() -> dict[str, str]:
    """Versions of what takes part."""
    found = {name: _machine.package_version(name) for name in ("bitsandbytes", "gemlite")}
    own = {"tilewright": __version__, "torch": torch.__version__}
    return own | {name: version for name, version in found.items() if version is not None}


def calls(weights: Weights, x: torch.Tensor) -> tuple[dict[str, Call], dict[str, str]]:
    """The calls by peer, each taking the number of the call, which picks the copy; and why the others are left out."""
    makers = {"tilewright": _ours, "dense": _dense, "bitsandbytes": _bitsandbytes, "gemlite": _gemlite}
    found: dict[str, Call] = {}
    reasons: dict[str, str] = {}
    for name, make in makers.items():
        try:
            call, wanted = make(weights, x)
            off = float((call(0).float() - wanted).norm() / wanted.norm())
        except ImportError:
            reasons[name] = "it is not installed"
        except Exception as error:  # a peer may fail in its own way on a card or shape; the others still run
            reasons[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        else:
            if off < _LIMIT:
                found[name] = call
            else:
                reasons[name] = f"its result is off by {off:.2g} (relative), at most {_LIMIT} is taken"
    return found, reasons


def _ours(weights: Weights, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
    packed = weights.packed
    return (lambda i: gemm_4bit(x, *packed[i % len(packed)])), x.float() @ dequantize_4bit(*packed[0]).T


def _dense(weights: Weights, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
    dense = weights.dense
    return (lambda i: F.linear(x, dense[i % len(dense)])), x.float() @ dense[0].float().T


def _bitsandbytes(weights: Weights, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
    import bitsandbytes  # noqa: F401  registers the op

    if weights.quant_type == "e2m1":
        raise ValueError("it has no e2m1")
    op = torch.ops.bitsandbytes.gemm_4bit
    packed = [(codes.reshape(-1, 1), state) for codes, state in weights.packed]

    def call(i: int) -> torch.Tensor:
        codes, state = packed[i % len(packed)]
        result: torch.Tensor = op(x, codes, list(state.shape), state.absmax, state.blocksize, state.quant_type)
        return result

    return call, x.float() @ dequantize_4bit(*weights.packed[0]).T


def _gemlite(weights: Weights, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
    layers = weights.gemlite()
    codes, scales, zeros = _int4(weights.dense[0])
    dense = (codes.float() - zeros.float()) * scales.float()
    return (lambda i: layers[i % len(layers)](x)), x.float() @ dense.reshape(weights.N, weights.K).T


def _gemlite_layer(weight: torch.Tensor) -> Any:
    from gemlite.core import DType, GemLiteLinearTriton

    N, K = weight.shape
    kind = DType.FP16 if weight.dtype == torch.float16 else DType.BF16
    layer = GemLiteLinearTriton(4, _GEMLITE_GROUP, K, N, input_dtype=kind, output_dtype=kind)
    codes, scales, zeros = _int4(weight)
    return layer.pack(codes.reshape(N, K), scales, zeros, None)


def _int4(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Asymmetric int4: codes uint8 [groups, 64], scales and zero points [groups, 1] in the weight's dtype."""
    rows = weight.float().reshape(-1, _GEMLITE_GROUP)
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    scales = ((high - low) / 15).to(weight.dtype)
    zeros = (-low / scales.float()).round().to(weight.dtype)
    codes = (rows / scales.float() + zeros.float()).round().clamp(0, 15).to(torch.uint8)
    return codes, scales, zeros
