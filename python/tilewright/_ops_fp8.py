"""The FP8 and NVFP4 ops in plain torch. `_ops` registers them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from . import _checks_fp8, _decisions, reference_fp8, reference_nvfp4
from ._op import Op, OptionalTensor
from .reference_fp8 import FP8_TYPES


@dataclass(eq=False)
class _GemmFp8:
    a: torch.Tensor
    b: torch.Tensor
    scale_a: torch.Tensor
    scale_b: torch.Tensor
    bias: OptionalTensor = None
    out_dtype: int = 1
    fast_accum: bool = False
    static_weights: bool = False

    def __post_init__(self) -> None:
        own = (self.a, self.b, self.scale_a, self.scale_b, self.bias, self.out_dtype)
        self.kind, self.dtype = _checks_fp8.check_gemm_fp8(*own)

    def compute(self) -> torch.Tensor:
        (M, K), N = self.a.shape, self.b.shape[0]
        _decisions.record_plain_torch(self.a, N, K, "gemm_fp8", M, self.dtype)
        per_row = self.scale_b.reshape(N, 1) if self.kind == 1 else self.scale_b
        return reference_fp8.gemm(self.a, self.b, self.scale_a, per_row, self.bias, self.dtype)

    def empty(self) -> torch.Tensor:
        return self.a.new_empty((self.a.shape[0], self.b.shape[0]), dtype=self.dtype)


@dataclass(eq=False)
class _GemmFp8Grouped:
    a: torch.Tensor
    b: torch.Tensor
    scale_a: torch.Tensor
    scale_b: torch.Tensor
    group_ends: OptionalTensor = None
    group_rows: OptionalTensor = None
    bias: OptionalTensor = None
    out_dtype: int = 1
    fast_accum: bool = False
    static_weights: bool = False

    def __post_init__(self) -> None:
        own = (self.a, self.b, self.scale_a, self.scale_b, self.group_ends, self.group_rows, self.bias, self.out_dtype)
        self.kind, self.dtype = _checks_fp8.check_gemm_fp8_grouped(*own)

    def compute(self) -> torch.Tensor:
        G, N, K = self.b.shape
        _decisions.record_plain_torch(self.a, N, K, "gemm_fp8", self.a.numel() // K, self.dtype)
        per_row = self.scale_b.reshape(G, N, 1) if self.kind == 1 else self.scale_b
        limits = (self.group_ends, self.group_rows)
        return reference_fp8.gemm_grouped(self.a, self.b, self.scale_a, per_row, *limits, self.bias, self.dtype)

    def empty(self) -> torch.Tensor:
        return self.a.new_empty((*self.a.shape[:-1], self.b.shape[1]), dtype=self.dtype)


@dataclass(eq=False)
class _QuantizeFp8:
    x: torch.Tensor
    granularity: int
    fp8_type: int = 0
    scale: OptionalTensor = None

    def __post_init__(self) -> None:
        _checks_fp8.check_quantize_fp8(self.x, self.granularity, self.fp8_type, self.scale)

    def compute(self) -> tuple[torch.Tensor, torch.Tensor]:
        return reference_fp8.quantize(self.x, self.granularity, self.fp8_type, self.scale)

    def empty(self) -> tuple[torch.Tensor, torch.Tensor]:
        codes = self.x.new_empty(self.x.shape, dtype=FP8_TYPES[self.fp8_type])
        return codes, reference_fp8.empty_scale(self.x, self.granularity)


@dataclass(eq=False)
class _GemmNvfp4:
    a: torch.Tensor
    b: torch.Tensor
    scale_a: torch.Tensor
    scale_b: torch.Tensor
    global_a: torch.Tensor
    global_b: torch.Tensor
    bias: OptionalTensor = None
    out_dtype: int = 1
    static_weights: bool = False

    def __post_init__(self) -> None:
        self.parts = (self.a, self.b, self.scale_a, self.scale_b, self.global_a, self.global_b, self.bias)
        self.dtype = _checks_fp8.check_gemm_nvfp4(*self.parts, self.out_dtype)

    def compute(self) -> torch.Tensor:
        (M, half), N = self.a.shape, self.b.shape[0]
        _decisions.record_plain_torch(self.a, N, 2 * half, "gemm_nvfp4", M, self.dtype)
        return reference_nvfp4.gemm(*self.parts, self.dtype)

    def empty(self) -> torch.Tensor:
        return self.a.new_empty((self.a.shape[0], self.b.shape[0]), dtype=self.dtype)


@dataclass(eq=False)
class _QuantizeNvfp4:
    x: torch.Tensor
    global_scale: OptionalTensor = None

    def __post_init__(self) -> None:
        _checks_fp8.check_quantize_nvfp4(self.x, self.global_scale)

    def compute(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return reference_nvfp4.quantize(self.x, self.global_scale)

    def empty(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        M, K = self.x.shape
        codes = self.x.new_empty((M, K // 2), dtype=torch.uint8)
        scales = self.x.new_empty((reference_nvfp4.scale_bytes(M, K),), dtype=torch.uint8)
        return codes, scales, self.x.new_empty((), dtype=torch.float32)


OPS = (
    Op(
        "gemm_fp8",
        "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias=None, int out_dtype=1, "
        "bool fast_accum=False, bool static_weights=False) -> Tensor",
        _GemmFp8,
    ),
    Op(
        "gemm_fp8_grouped",
        "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? group_ends=None, Tensor? group_rows=None, "
        "Tensor? bias=None, int out_dtype=1, bool fast_accum=False, bool static_weights=False) -> Tensor",
        _GemmFp8Grouped,
    ),
    Op(
        "quantize_fp8",
        "(Tensor x, int granularity, int fp8_type=0, Tensor? scale=None) -> (Tensor, Tensor)",
        _QuantizeFp8,
    ),
    Op(
        "gemm_nvfp4",
        "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor global_a, Tensor global_b, Tensor? bias=None, "
        "int out_dtype=1, bool static_weights=False) -> Tensor",
        _GemmNvfp4,
    ),
    Op(
        "quantize_nvfp4",
        "(Tensor x, Tensor? global_scale=None) -> (Tensor, Tensor, Tensor)",
        _QuantizeNvfp4,
    ),
)
