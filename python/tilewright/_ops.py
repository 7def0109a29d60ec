"""The ops torch.ops.tilewright: schemas, CPU kernels, fake kernels. Importing this module registers them.

The native library defines the schemas and the CUDA kernels; where it is missing, both come from here, in plain torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import _checks, _decisions, _library, formats, reference
from ._ops_fp8 import OPS

OptionalTensor = torch.Tensor | None

_GEMM_ARGUMENTS = (
    "(Tensor a, Tensor b, Tensor absmax, int n, int k, int blocksize, int quant_type, Tensor? bias=None, "
    "Tensor? nested_absmax=None, Tensor? nested_code=None, Tensor? offset=None) -> Tensor"
)
_DEQUANTIZE_ARGUMENTS = (
    "(Tensor b, Tensor absmax, int n, int k, int blocksize, int quant_type, int dtype, "
    "Tensor? nested_absmax=None, Tensor? nested_code=None, Tensor? offset=None) -> Tensor"
)
_QUANTIZE_ARGUMENTS = "(Tensor weight, int blocksize, int quant_type) -> (Tensor, Tensor, Tensor)"
SCHEMAS = (
    "gemm_4bit" + _GEMM_ARGUMENTS,
    "_noop_gemm_4bit" + _GEMM_ARGUMENTS,
    "dequantize_4bit" + _DEQUANTIZE_ARGUMENTS,
    "quantize_4bit" + _QUANTIZE_ARGUMENTS,
    "_gemm_4bit_torch" + _GEMM_ARGUMENTS,
    "_dequantize_4bit_torch" + _DEQUANTIZE_ARGUMENTS,
    "_quantize_4bit_torch" + _QUANTIZE_ARGUMENTS,
    *(op.name + op.arguments for op in OPS),
    *(f"_{op.name}_torch{op.arguments}" for op in OPS),
)


def _nested(nested_absmax: OptionalTensor, nested_code: OptionalTensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    if nested_absmax is None or nested_code is None:
        return None
    return nested_absmax.reshape(-1), nested_code


def _gemm_4bit(
    a: torch.Tensor,
    b: torch.Tensor,
    absmax: torch.Tensor,
    n: int,
    k: int,
    blocksize: int,
    quant_type: int,
    bias: OptionalTensor = None,
    nested_absmax: OptionalTensor = None,
    nested_code: OptionalTensor = None,
    offset: OptionalTensor = None,
) -> torch.Tensor:
    _checks.check_gemm_4bit(a, b, bias, n, k)
    _checks.check_weight("gemm_4bit", b, absmax, n, k, blocksize, quant_type, nested_absmax, nested_code, offset)
    _decisions.record_plain_torch(a, n, k)
    nested = _nested(nested_absmax, nested_code)
    weight = reference.dequantize(b, absmax, (n, k), blocksize, quant_type, torch.float32, nested, offset)
    return reference.gemm(a, weight, bias)


def _gemm_4bit_fake(
    a: torch.Tensor,
    b: torch.Tensor,
    absmax: torch.Tensor,
    n: int,
    k: int,
    blocksize: int,
    quant_type: int,
    bias: OptionalTensor = None,
    nested_absmax: OptionalTensor = None,
    nested_code: OptionalTensor = None,
    offset: OptionalTensor = None,
) -> torch.Tensor:
    _checks.check_gemm_4bit(a, b, bias, n, k)
    _checks.check_weight("gemm_4bit", b, absmax, n, k, blocksize, quant_type, nested_absmax, nested_code, offset)
    return a.new_empty((*a.shape[:-1], n))


def _noop_gemm_4bit(
    a: torch.Tensor,
    b: torch.Tensor,
    absmax: torch.Tensor,
    n: int,
    k: int,
    blocksize: int,
    quant_type: int,
    bias: OptionalTensor = None,
    nested_absmax: OptionalTensor = None,
    nested_code: OptionalTensor = None,
    offset: OptionalTensor = None,
) -> torch.Tensor:
    return a.new_empty((a.numel() // k, n))


def _dequantize_4bit(
    b: torch.Tensor,
    absmax: torch.Tensor,
    n: int,
    k: int,
    blocksize: int,
    quant_type: int,
    dtype: int,
    nested_absmax: OptionalTensor = None,
    nested_code: OptionalTensor = None,
    offset: OptionalTensor = None,
) -> torch.Tensor:
    out_dtype = _check_dequantize(b, absmax, n, k, blocksize, quant_type, dtype, nested_absmax, nested_code, offset)
    nested = _nested(nested_absmax, nested_code)
    return reference.dequantize(b, absmax, (n, k), blocksize, quant_type, out_dtype, nested, offset)


def _dequantize_4bit_fake(
    b: torch.Tensor,
    absmax: torch.Tensor,
    n: int,
    k: int,
    blocksize: int,
    quant_type: int,
    dtype: int,
    nested_absmax: OptionalTensor = None,
    nested_code: OptionalTensor = None,
    offset: OptionalTensor = None,
) -> torch.Tensor:
    out_dtype = _check_dequantize(b, absmax, n, k, blocksize, quant_type, dtype, nested_absmax, nested_code, offset)
    return b.new_empty((n, k), dtype=out_dtype)


def _check_dequantize(
    b: torch.Tensor,
    absmax: torch.Tensor,
    n: int,
    k: int,
    blocksize: int,
    quant_type: int,
    dtype: int,
    nested_absmax: OptionalTensor,
    nested_code: OptionalTensor,
    offset: OptionalTensor,
) -> torch.dtype:
    _checks.check_weight("dequantize_4bit", b, absmax, n, k, blocksize, quant_type, nested_absmax, nested_code, offset)
    torch._check(
        0 <= dtype <= 2,
        lambda: f"dequantize_4bit: dtype={dtype}; allowed: 0 (float16), 1 (bfloat16), 2 (float32)",
    )
    return formats.DTYPES[dtype]


def _quantize_4bit(
    weight: torch.Tensor, blocksize: int, quant_type: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _checks.check_quantize(weight, blocksize, quant_type)
    return reference.quantize(weight, blocksize, quant_type)


def _quantize_4bit_fake(
    weight: torch.Tensor, blocksize: int, quant_type: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _checks.check_quantize(weight, blocksize, quant_type)
    numel = weight.numel()
    packed = weight.new_empty(((numel + 1) // 2,), dtype=torch.uint8)
    blocks = (numel + blocksize - 1) // blocksize
    scales = weight.new_empty((blocks,), dtype=torch.uint8 if quant_type == 2 else torch.float32)
    return packed, scales, weight.new_empty(() if quant_type == 2 else (0,), dtype=torch.float32)


_CPU_KERNELS: dict[str, Callable[..., Any]] = {
    "gemm_4bit": _gemm_4bit,
    "_noop_gemm_4bit": _noop_gemm_4bit,
    "dequantize_4bit": _dequantize_4bit,
    "quantize_4bit": _quantize_4bit,
    **{op.name: op.kernel for op in OPS},
}
_IN_TORCH: dict[str, Callable[..., Any]] = {
    "_gemm_4bit_torch": _gemm_4bit,
    "_dequantize_4bit_torch": _dequantize_4bit,
    "_quantize_4bit_torch": _quantize_4bit,
    **{f"_{op.name}_torch": op.kernel for op in OPS},
}
"""What the native library calls where none of its kernels answers."""
_FAKE_KERNELS: dict[str, Callable[..., Any]] = {
    "gemm_4bit": _gemm_4bit_fake,
    "_noop_gemm_4bit": _noop_gemm_4bit,
    "dequantize_4bit": _dequantize_4bit_fake,
    "quantize_4bit": _quantize_4bit_fake,
    "_gemm_4bit_torch": _gemm_4bit_fake,
    "_dequantize_4bit_torch": _dequantize_4bit_fake,
    "_quantize_4bit_torch": _quantize_4bit_fake,
    **{op.name: op.fake for op in OPS},
    **{f"_{op.name}_torch": op.fake for op in OPS},
}
_warned: set[int] = set()


def _in_torch(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, with one warning a device that its kernels do not run on."""

    def run(first: torch.Tensor, *rest: Any) -> Any:
        index = first.device.index if first.device.type == "cuda" else None
        if index is not None and index not in _warned:
            _warned.add(index)
            reason = NATIVE.refusal(index)
            if reason is not None:
                warnings.warn(f"tilewright runs in plain torch: {reason}.", RuntimeWarning, stacklevel=2)
        return kernel(first, *rest)

    return run


def _register(native: _library.Native) -> torch.library.Library:
    library = torch.library.Library("tilewright", "IMPL" if native.loaded else "DEF")
    if not native.loaded:
        for schema in SCHEMAS:
            library.define(schema)
    for name, kernel in _CPU_KERNELS.items():
        library.impl(name, kernel, "CPU")
        if not native.loaded:
            library.impl(name, kernel, "CUDA")
    for name, kernel in _IN_TORCH.items():
        library.impl(name, kernel, "CPU")
        library.impl(name, _in_torch(kernel), "CUDA")
    for name, fake in _FAKE_KERNELS.items():
        torch.library.register_fake(f"tilewright::{name}", fake, lib=library)
    return library


NATIVE = _library.load()
# Deleting a torch.library object unregisters its kernels: it lives as long as this module.
_LIBRARY = _register(NATIVE)
