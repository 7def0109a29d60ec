"""Argument checks of the FP8 and NVFP4 ops on CPU, for fake tensors, and without the native library.

They mirror csrc_templates/src/binding_fp8_checks.cpp. Each raises RuntimeError and names the argument, its value and
what is allowed. The conditions also work on symbolic sizes.
"""

from __future__ import annotations

import torch

from . import formats
from ._checks import OptionalTensor, check_dtype, check_numel, check_same_device
from .reference_fp8 import FP8_TYPES, GRANULARITIES, SCALINGS, blocks
from .reference_nvfp4 import GROUP, scale_bytes

_INPUTS = formats.DTYPES
_KINDS = (
    "one value each (per tensor), [M, 1] and [1, N] (per row), or [M, ceil(K / 128)] and "
    "[ceil(N / 128), ceil(K / 128)] (per block)"
)


def check_gemm_fp8(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, bias: OptionalTensor, out_dtype: int
) -> tuple[int, torch.dtype]:
    """Checks a product; returns the number of its kind of scaling (`SCALINGS`) and the dtype of its result."""
    op = "gemm_fp8"
    dtype = _out_dtype(op, out_dtype)
    _operands(op, a, b, 2)
    M, N, K = a.shape[0], b.shape[0], a.shape[1]
    torch._check(b.shape[1] == K, lambda: f"{op}: a has K={K} and b has K={b.shape[1]}; b is [N, K]")
    torch._check(K >= 1, lambda: f"{op}: K={K}; allowed: at least 1")
    _scale_dtypes(op, scale_a, scale_b)
    kind = scaling_of(tuple(scale_a.shape), tuple(scale_b.shape), M, N, K)
    torch._check(kind >= 0, lambda: _wrong_scales(op, scale_a, scale_b, f"M={M}, N={N}, K={K}", _KINDS))
    _bias(op, bias, dtype, (N,))
    for name, tensor in (("b", b), ("scale_a", scale_a), ("scale_b", scale_b), ("bias", bias)):
        check_same_device(op, "a", a, name, tensor)
    return kind, dtype


def scaling_of(a: tuple[int, ...], b: tuple[int, ...], M: int, N: int, K: int) -> int:
    """Number of the kind of scaling that two scales of these shapes stand for; -1 if none."""
    if all(size == 1 for size in a) and all(size == 1 for size in b):
        return 0
    if a in ((M,), (M, 1)) and b in ((N,), (N, 1), (1, N)):
        return 1
    return 2 if a == (M, blocks(K)) and b == (blocks(N), blocks(K)) else -1


def check_gemm_fp8_grouped(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    group_ends: OptionalTensor,
    group_rows: OptionalTensor,
    bias: OptionalTensor,
    out_dtype: int,
) -> tuple[int, torch.dtype]:
    """Checks a grouped product; the same results as `check_gemm_fp8`."""
    op = "gemm_fp8_grouped"
    dtype = _out_dtype(op, out_dtype)
    both = (group_ends is None) + (group_rows is None)
    torch._check(both == 1, lambda: f"{op}: give either group_ends (contiguous) or group_rows (masked)")
    name, limits = ("group_rows", group_rows) if group_ends is None else ("group_ends", group_ends)
    assert limits is not None
    _operands(op, a, b, 2 if group_rows is None else 3, 3)
    G, N, K = b.shape
    torch._check(G >= 1, lambda: f"{op}: b has 0 groups; allowed: at least 1")
    torch._check(a.shape[-1] == K, lambda: f"{op}: a has K={a.shape[-1]} and b has K={K}; b is [G, N, K]")
    torch._check(K >= 1, lambda: f"{op}: K={K}; allowed: at least 1")
    torch._check(a.dim() == 2 or a.shape[0] == G, lambda: f"{op}: a has {a.shape[0]} groups and b has {G}")
    check_dtype(op, name, limits, (torch.int32,))
    check_numel(op, name, limits, G, "one a group")
    _scale_dtypes(op, scale_a, scale_b)
    kind = _grouped_scaling(tuple(scale_a.shape), tuple(scale_b.shape), tuple(a.shape[:-1]), G, N, K)
    allowed = (
        "one value and one a group, [..., M, 1] and [G, N], or [..., M, ceil(K / 128)] and "
        "[G, ceil(N / 128), ceil(K / 128)]"
    )
    torch._check(kind >= 0, lambda: _wrong_scales(op, scale_a, scale_b, f"G={G}, N={N}, K={K}", allowed))
    _bias(op, bias, dtype, (G, N))
    for other, tensor in (("b", b), ("scale_a", scale_a), ("scale_b", scale_b), (name, limits), ("bias", bias)):
        check_same_device(op, "a", a, other, tensor)
    return kind, dtype


def _grouped_scaling(a: tuple[int, ...], b: tuple[int, ...], rows: tuple[int, ...], G: int, N: int, K: int) -> int:
    if all(size == 1 for size in a) and b in ((G,), (G, 1), (G, 1, 1)):
        return 0
    if a in (rows, (*rows, 1)) and b in ((G, N), (G, N, 1), (G, 1, N)):
        return 1
    return 2 if a == (*rows, blocks(K)) and b == (G, blocks(N), blocks(K)) else -1


def check_quantize_fp8(x: torch.Tensor, granularity: int, fp8_type: int, scale: OptionalTensor) -> None:
    """Checks the arguments of quantize_fp8."""
    op = "quantize_fp8"
    _matrix(op, x)
    words = ", ".join(f"{i} ({word})" for i, word in enumerate(GRANULARITIES))
    torch._check(0 <= granularity <= 3, lambda: f"{op}: granularity={granularity}; allowed: {words}")
    torch._check(0 <= fp8_type <= 1, lambda: f"{op}: fp8_type={fp8_type}; allowed: 0 (e4m3), 1 (e5m2)")
    if scale is not None:
        torch._check(
            granularity == 0, lambda: f"{op}: scale is given; it must be None unless granularity is 0 (tensor)"
        )
        check_dtype(op, "scale", scale, (torch.float32,))
        check_numel(op, "scale", scale, 1, "one value")
        check_same_device(op, "x", x, "scale", scale)


def check_gemm_nvfp4(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    global_a: torch.Tensor,
    global_b: torch.Tensor,
    bias: OptionalTensor,
    out_dtype: int,
) -> torch.dtype:
    """Checks a product; returns the dtype of its result."""
    op = "gemm_nvfp4"
    dtype = _out_dtype(op, out_dtype)
    for name, tensor in (("a", a), ("b", b)):
        check_dtype(op, name, tensor, (torch.uint8,))
        torch._check(tensor.dim() == 2, lambda n=name, t=tensor: f"{op}: {n} has {t.dim()} dimensions; expected 2")
    M, N, K = a.shape[0], b.shape[0], 2 * a.shape[1]
    torch._check(2 * b.shape[1] == K, lambda: f"{op}: a has K={K} and b has K={2 * b.shape[1]}; b is [N, K / 2]")
    torch._check(K >= GROUP and K % GROUP == 0, lambda: f"{op}: K={K}; expected a multiple of 16, at least 16")
    for name, scale, rows in (("scale_a", scale_a, M), ("scale_b", scale_b, N)):
        check_dtype(op, name, scale, (torch.uint8, torch.float8_e4m3fn))
        meaning = f"{rows} rows by {K // GROUP} scales, padded to 128 by 4 and swizzled"
        check_numel(op, name, scale, scale_bytes(rows, K), meaning)
    for name, scale in (("global_a", global_a), ("global_b", global_b)):
        check_dtype(op, name, scale, (torch.float32,))
        check_numel(op, name, scale, 1, "one value")
    _bias(op, bias, dtype, (N,))
    others = {"b": b, "scale_a": scale_a, "scale_b": scale_b, "global_a": global_a, "global_b": global_b, "bias": bias}
    for name, other in others.items():
        check_same_device(op, "a", a, name, other)
    return dtype


def check_rows(name: str, x: torch.Tensor) -> None:
    """Checks that x [..., K] can be flattened to rows of K. ValueError."""
    if x.dim() < 1:
        raise ValueError(f"{name} has no dimensions; expected at least 1, [..., K]")
    if x.shape[-1] == 0:
        raise ValueError(f"{name} has K=0; allowed: at least 1")


def check_scaled(codes: torch.Tensor, scale: torch.Tensor) -> None:
    """Checks codes [M, K] and their scales before they are dequantised. ValueError."""
    if codes.dtype not in FP8_TYPES:
        raise ValueError(f"codes is {codes.dtype}; allowed: {', '.join(map(str, FP8_TYPES))}")
    if codes.dim() != 2:
        raise ValueError(f"codes has {codes.dim()} dimensions; expected 2, [M, K]")
    if scale.dtype != torch.float32:
        raise ValueError(f"scale is {scale.dtype}; expected torch.float32")
    M, K = codes.shape
    shapes = ((M,), (M, 1), (M, blocks(K)), (blocks(M), blocks(K)))
    if scale.numel() != 1 and tuple(scale.shape) not in shapes:
        allowed = f"one value, {', '.join(str(list(shape)) for shape in shapes)}"
        raise ValueError(f"scale is {list(scale.shape)} for codes [{M}, {K}]; allowed: {allowed}")


def check_nvfp4(codes: torch.Tensor, scales: torch.Tensor, global_scale: torch.Tensor) -> None:
    """Checks the parts of an NVFP4 matrix before it is dequantised. ValueError."""
    if codes.dtype != torch.uint8 or codes.dim() != 2 or codes.shape[1] % (GROUP // 2):
        raise ValueError(
            f"codes is {codes.dtype} {list(codes.shape)}; expected uint8 [rows, K / 2], K a multiple of 16"
        )
    wanted = scale_bytes(codes.shape[0], 2 * codes.shape[1])
    if scales.dtype not in (torch.uint8, torch.float8_e4m3fn) or scales.numel() != wanted:
        raise ValueError(f"scales is {scales.dtype} of {scales.numel()} elements; expected uint8 of {wanted}")
    if global_scale.dtype != torch.float32 or global_scale.numel() != 1:
        found = f"{global_scale.dtype} {list(global_scale.shape)}"
        raise ValueError(f"global_scale is {found}; expected one value, torch.float32")


def check_quantize_nvfp4(x: torch.Tensor, global_scale: OptionalTensor) -> None:
    """Checks the arguments of quantize_nvfp4."""
    op = "quantize_nvfp4"
    _matrix(op, x)
    torch._check(x.shape[1] % GROUP == 0, lambda: f"{op}: K={x.shape[1]}; expected a multiple of 16")
    if global_scale is not None:
        check_dtype(op, "global_scale", global_scale, (torch.float32,))
        check_numel(op, "global_scale", global_scale, 1, "one value")
        check_same_device(op, "x", x, "global_scale", global_scale)


def _matrix(op: str, x: torch.Tensor) -> None:
    check_dtype(op, "x", x, _INPUTS)
    torch._check(x.dim() == 2, lambda: f"{op}: x has {x.dim()} dimensions; expected 2")


def _out_dtype(op: str, out_dtype: int) -> torch.dtype:
    torch._check(
        0 <= out_dtype <= 2, lambda: f"{op}: out_dtype={out_dtype}; allowed: 0 (float16), 1 (bfloat16), 2 (float32)"
    )
    return formats.DTYPES[out_dtype]


def _operands(op: str, a: torch.Tensor, b: torch.Tensor, dim_a: int, dim_b: int = 2) -> None:
    check_dtype(op, "a", a, FP8_TYPES)
    check_dtype(op, "b", b, FP8_TYPES[:1])
    for name, tensor, dim in (("a", a, dim_a), ("b", b, dim_b)):
        torch._check(
            tensor.dim() == dim, lambda n=name, t=tensor, d=dim: f"{op}: {n} has {t.dim()} dimensions; expected {d}"
        )


def _scale_dtypes(op: str, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    check_dtype(op, "scale_a", scale_a, (torch.float32,))
    check_dtype(op, "scale_b", scale_b, (torch.float32,))


def _wrong_scales(op: str, scale_a: torch.Tensor, scale_b: torch.Tensor, sizes: str, allowed: str) -> str:
    found = f"scale_a is {list(scale_a.shape)} and scale_b is {list(scale_b.shape)}"
    return f"{op}: {found} for {sizes}; allowed: {allowed}"


def _bias(op: str, bias: OptionalTensor, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    if bias is not None:
        check_dtype(op, "bias", bias, (dtype,))
        torch._check(tuple(bias.shape) == shape, lambda: f"{op}: bias is {list(bias.shape)}; expected {list(shape)}")


__all__ = [
    "SCALINGS",
    "check_gemm_fp8",
    "check_gemm_fp8_grouped",
    "check_gemm_nvfp4",
    "check_nvfp4",
    "check_quantize_fp8",
    "check_quantize_nvfp4",
    "check_rows",
    "check_scaled",
    "scaling_of",
]
