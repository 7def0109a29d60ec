"""The 4-bit ops in plain torch. `_ops` registers them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from . import _checks, _decisions, formats, reference
from ._op import Op, OptionalTensor
from .layout import layout_of

_GEMM_ARGUMENTS = (
    "(Tensor a, Tensor b, Tensor absmax, int n, int k, int blocksize, int quant_type, Tensor? bias=None, "
    "Tensor? nested_absmax=None, Tensor? nested_code=None, Tensor? offset=None, bool static_weights=False) "
    "-> Tensor"
)


@dataclass(eq=False)
class Gemm4bit:
    """A call of gemm_4bit."""

    a: torch.Tensor
    b: torch.Tensor
    absmax: torch.Tensor
    n: int
    k: int
    blocksize: int
    quant_type: int
    bias: OptionalTensor = None
    nested_absmax: OptionalTensor = None
    nested_code: OptionalTensor = None
    offset: OptionalTensor = None
    static_weights: bool = False

    def __post_init__(self) -> None:
        _checks.check_gemm_4bit(self.a, self.b, self.bias, self.n, self.k)
        own = (self.b, self.absmax, self.n, self.k, self.blocksize, self.quant_type)
        _checks.check_weight("gemm_4bit", *own, self.nested_absmax, self.nested_code, self.offset)

    def compute(self) -> torch.Tensor:
        _decisions.record_plain_torch(self.a, self.n, self.k, layout=layout_of(self.b))
        own = (self.b, self.absmax, (self.n, self.k), self.blocksize, self.quant_type, torch.float32)
        weight = reference.dequantize(*own, _nested(self.nested_absmax, self.nested_code), self.offset)
        return reference.gemm(self.a, weight, self.bias)

    def empty(self) -> torch.Tensor:
        return self.a.new_empty((*self.a.shape[:-1], self.n))


class _Noop(Gemm4bit):
    """What a call costs that does nothing."""

    def __post_init__(self) -> None:
        pass

    def compute(self) -> torch.Tensor:
        return self.empty()

    def empty(self) -> torch.Tensor:
        return self.a.new_empty((self.a.numel() // self.k, self.n))


@dataclass(eq=False)
class _Dequantize4bit:
    b: torch.Tensor
    absmax: torch.Tensor
    n: int
    k: int
    blocksize: int
    quant_type: int
    dtype: int
    nested_absmax: OptionalTensor = None
    nested_code: OptionalTensor = None
    offset: OptionalTensor = None

    def __post_init__(self) -> None:
        own = (self.b, self.absmax, self.n, self.k, self.blocksize, self.quant_type)
        _checks.check_weight("dequantize_4bit", *own, self.nested_absmax, self.nested_code, self.offset)
        torch._check(
            0 <= self.dtype <= 2,
            lambda: f"dequantize_4bit: dtype={self.dtype}; allowed: 0 (float16), 1 (bfloat16), 2 (float32)",
        )

    def compute(self) -> torch.Tensor:
        own = (self.b, self.absmax, (self.n, self.k), self.blocksize, self.quant_type, formats.DTYPES[self.dtype])
        return reference.dequantize(*own, _nested(self.nested_absmax, self.nested_code), self.offset)

    def empty(self) -> torch.Tensor:
        return self.b.new_empty((self.n, self.k), dtype=formats.DTYPES[self.dtype])


@dataclass(eq=False)
class _Quantize4bit:
    weight: torch.Tensor
    blocksize: int
    quant_type: int

    def __post_init__(self) -> None:
        _checks.check_quantize(self.weight, self.blocksize, self.quant_type)

    def compute(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return reference.quantize(self.weight, self.blocksize, self.quant_type)

    def empty(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        numel, e2m1 = self.weight.numel(), self.quant_type == 2
        packed = self.weight.new_empty(((numel + 1) // 2,), dtype=torch.uint8)
        blocks = (numel + self.blocksize - 1) // self.blocksize
        scales = self.weight.new_empty((blocks,), dtype=torch.uint8 if e2m1 else torch.float32)
        return packed, scales, self.weight.new_empty(() if e2m1 else (0,), dtype=torch.float32)


def _nested(nested_absmax: OptionalTensor, nested_code: OptionalTensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    if nested_absmax is None or nested_code is None:
        return None
    return nested_absmax.reshape(-1), nested_code


OPS = (
    Op("gemm_4bit", _GEMM_ARGUMENTS, Gemm4bit),
    Op("_noop_gemm_4bit", _GEMM_ARGUMENTS, _Noop, in_torch=False),
    Op(
        "dequantize_4bit",
        "(Tensor b, Tensor absmax, int n, int k, int blocksize, int quant_type, int dtype, "
        "Tensor? nested_absmax=None, Tensor? nested_code=None, Tensor? offset=None) -> Tensor",
        _Dequantize4bit,
    ),
    Op("quantize_4bit", "(Tensor weight, int blocksize, int quant_type) -> (Tensor, Tensor, Tensor)", _Quantize4bit),
)
