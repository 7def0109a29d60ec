"""What a cell of a family is made of on a card: the weight in enough copies, activations, a call, the fp32 product."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import torch

import tilewright

from .records import Cell, Method

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
MAX_COPIES = 48


class Inputs(Protocol):
    """The weight of a cell; cells of one weight share it."""

    copies: list[Any]
    device: torch.device

    def activations(self, cell: Cell, generator: torch.Generator) -> Any: ...

    def call(self, x: Any, copy: Any) -> torch.Tensor:
        """The public op, told that the weight is static, as layers tell it outside of training."""

    def reference(self, x: Any) -> torch.Tensor:
        """The product of the dequantised operands in fp32."""


def _normal(N: int, K: int, method: Method, device: torch.device) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(method.seed)
    return torch.randn(N, K, device=device, generator=generator) / math.sqrt(K)


def _count(method: Method, moved_bytes: int) -> int:
    return min(MAX_COPIES, max(1, math.ceil(method.rotate_bytes / moved_bytes)))


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class Gemm4bit:
    """gemm_4bit: 4-bit codes with their scales, dense activations."""

    def __init__(self, cell: Cell, method: Method, device: torch.device) -> None:
        quant = cell.words.get("quant_type", "nf4")
        weight = _normal(cell.N, cell.K, method, device).to(DTYPES[cell.dtype])
        packed, state = tilewright.quantize_4bit(weight, quant_type=quant, blocksize=cell.blocksize)
        self.dense, self.device = tilewright.dequantize_4bit(packed, state, dtype=torch.float32), device
        if cell.words.get("layout") == "prepacked":
            packed = tilewright.prepack(packed, cell.N, cell.K)
        self.copies: list[Any] = [
            (packed.clone(), replace(state, absmax=state.absmax.clone()))
            for _ in range(_count(method, _bytes(packed) + _bytes(state.absmax)))
        ]

    def activations(self, cell: Cell, generator: torch.Generator) -> torch.Tensor:
        x = torch.randn(cell.M, cell.K, device=self.device, generator=generator)
        return x.to(DTYPES[cell.dtype])

    def call(self, x: torch.Tensor, copy: Any) -> torch.Tensor:
        return tilewright.gemm_4bit(x, *copy, static_weights=True)

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        return x.float() @ self.dense.T


GRANULARITY = {"tensor": ("tensor", "tensor"), "row": ("row", "row"), "block": ("block", "block128x128")}
"""Granularity of the scales of activations and weight, by the family's word."""


class GemmFp8:
    """gemm_fp8 without groups: e4m3 on both sides, scales as the cell's `scaling` says."""

    def __init__(self, cell: Cell, method: Method, device: torch.device) -> None:
        if cell.words.get("grouping", "none") != "none":
            raise ValueError("grouped products are not calibrated")
        self.scaling = cell.words.get("scaling", "tensor")
        self.fast = cell.words.get("accumulation", "accurate") == "fast"
        self.out_dtype = DTYPES[cell.dtype]
        codes, scale = tilewright.quantize_fp8(_normal(cell.N, cell.K, method, device), GRANULARITY[self.scaling][1])
        self.dense, self.device = tilewright.dequantize_fp8(codes, scale), device
        self.copies: list[Any] = [(codes, scale)]
        for _ in range(_count(method, _bytes(codes) + _bytes(scale)) - 1):
            self.copies.append((codes.clone(), scale.clone()))

    def activations(self, cell: Cell, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(cell.M, cell.K, device=self.device, generator=generator)
        return tilewright.quantize_fp8(x, GRANULARITY[self.scaling][0])

    def call(self, x: tuple[torch.Tensor, torch.Tensor], copy: Any) -> torch.Tensor:
        (a, scale_a), (b, scale_b), fast = x, copy, self.fast
        own = (a, b, scale_a, scale_b)
        return tilewright.gemm_fp8(*own, out_dtype=self.out_dtype, fast_accum=fast, static_weights=True)

    def reference(self, x: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return tilewright.dequantize_fp8(*x) @ self.dense.T


FAMILIES: dict[str, Callable[[Cell, Method, torch.device], Inputs]] = {"gemm_4bit": Gemm4bit, "gemm_fp8": GemmFp8}


def key(cell: Cell) -> tuple[object, ...]:
    """Cells of equal keys have one weight."""
    return cell.N, cell.K, cell.dtype, cell.blocksize, tuple(sorted(cell.words.items()))
