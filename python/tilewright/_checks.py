"""Argument checks of the ops on CPU, for fake tensors, and without the native library.

They mirror csrc_templates/src/binding_checks.cpp. Each raises RuntimeError and names the argument, its value and
what is allowed. The conditions also work on symbolic sizes.
"""

from __future__ import annotations

import torch

from . import formats, layout

_MAX_ELEMENTS = 1 << 40
OptionalTensor = torch.Tensor | None


def check_weight(
    op: str,
    b: torch.Tensor,
    absmax: torch.Tensor,
    n: int,
    k: int,
    blocksize: int,
    quant_type: int,
    nested_absmax: OptionalTensor,
    nested_code: OptionalTensor,
    offset: OptionalTensor,
) -> None:
    """Checks a packed weight of logical shape [n, k] and its scales."""
    _check_format(op, k, blocksize, quant_type)
    torch._check(n >= 0 and k >= 1, lambda: f"{op}: n={n}, k={k}; allowed: n >= 0, k >= 1, n * k <= 2**40")
    torch._check(n * k <= _MAX_ELEMENTS, lambda: f"{op}: n={n}, k={k}; allowed: n >= 0, k >= 1, n * k <= 2**40")
    check_dtype(op, "b", b, (torch.uint8,))
    check_numel(op, "b", b, (n * k + 1) // 2, "ceil(n * k / 2) bytes, two codes each")
    _check_layout(op, b, n, k)
    blocks = (n * k + blocksize - 1) // blocksize
    if quant_type == 2:
        check_dtype(op, "absmax", absmax, (torch.uint8, torch.float8_e4m3fn))
        check_numel(op, "absmax", absmax, blocks, "n * k / 16")
        _scalar(op, offset, "for e2m1 (the global scale)")
        _absent(op, "nested_absmax", nested_absmax, "for e2m1")
        _absent(op, "nested_code", nested_code, "for e2m1")
    else:
        check_numel(op, "absmax", absmax, blocks, "ceil(n * k / blocksize)")
        _check_absmax(op, absmax, nested_absmax, nested_code, offset, blocks)
    for name, tensor in (
        ("absmax", absmax),
        ("nested_absmax", nested_absmax),
        ("nested_code", nested_code),
        ("offset", offset),
    ):
        check_same_device(op, "b", b, name, tensor)


def check_gemm_4bit(a: torch.Tensor, b: torch.Tensor, bias: OptionalTensor, n: int, k: int) -> None:
    """Checks the activations and the bias of gemm_4bit."""
    op = "gemm_4bit"
    check_dtype(op, "a", a, formats.DTYPES)
    last = a.shape[-1] if a.dim() else 1
    torch._check(a.dim() >= 1 and last == k, lambda: f"gemm_4bit: the last dimension of a is {last}; expected k={k}")
    check_same_device(op, "a", a, "b", b)
    if bias is not None:
        check_dtype(op, "bias", bias, (a.dtype,))
        check_numel(op, "bias", bias, n, "n")
        check_same_device(op, "a", a, "bias", bias)


def check_quantize(weight: torch.Tensor, blocksize: int, quant_type: int) -> None:
    """Checks the arguments of quantize_4bit."""
    op = "quantize_4bit"
    check_dtype(op, "weight", weight, formats.DTYPES)
    _check_format(op, weight.shape[-1] if weight.dim() else 1, blocksize, quant_type)


def _check_format(op: str, k: int, blocksize: int, quant_type: int) -> None:
    allowed = ", ".join(f"{fmt.code} ({fmt.name})" for fmt in formats.FORMATS)
    torch._check(0 <= quant_type <= 2, lambda: f"{op}: quant_type={quant_type}; allowed: {allowed}")
    fmt = formats.FORMATS[quant_type]
    sizes = ", ".join(map(str, fmt.blocksizes))
    torch._check(blocksize in fmt.blocksizes, lambda: f"{op}: blocksize={blocksize}; allowed for {fmt.name}: {sizes}")
    if quant_type == 2:
        torch._check(k % 16 == 0, lambda: f"{op}: k={k}; e2m1 needs a multiple of 16")


def _check_layout(op: str, b: torch.Tensor, n: int, k: int) -> None:
    if not layout.is_prepacked(b):
        return
    groups, blocks, size = b.shape
    fits = groups * layout.ROWS == n and blocks * layout.K == k and size == layout.BLOCK_BYTES
    torch._check(
        fits,
        lambda: (
            f"{op}: b has shape [{groups}, {blocks}, {size}]; in three dimensions it is prepacked, [n / 16, k / 64,"
            f" 512] with n a multiple of 16 and k of 64, and n={n}, k={k}"
        ),
    )


def _check_absmax(
    op: str,
    absmax: torch.Tensor,
    nested_absmax: OptionalTensor,
    nested_code: OptionalTensor,
    offset: OptionalTensor,
    blocks: int,
) -> None:
    if nested_absmax is None:
        check_dtype(op, "absmax", absmax, (torch.float32,))
        _absent(op, "nested_code", nested_code, "without nested_absmax")
        _absent(op, "offset", offset, "without nested_absmax")
        return
    check_dtype(op, "absmax", absmax, (torch.uint8,))
    check_dtype(op, "nested_absmax", nested_absmax, (torch.float32,))
    groups = (blocks + formats.NESTED_BLOCKSIZE - 1) // formats.NESTED_BLOCKSIZE
    check_numel(op, "nested_absmax", nested_absmax, groups, "one per 256 blocks")
    torch._check(nested_code is not None, lambda: f"{op}: nested_code is missing; it is required with nested_absmax")
    assert nested_code is not None
    check_dtype(op, "nested_code", nested_code, (torch.float32,))
    check_numel(op, "nested_code", nested_code, 256, "256 codes")
    _scalar(op, offset, "with nested_absmax")


def check_dtype(op: str, name: str, tensor: torch.Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    names = ", ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
    found = str(tensor.dtype).removeprefix("torch.")
    torch._check(tensor.dtype in allowed, lambda: f"{op}: {name} has dtype {found}; allowed: {names}")


def check_numel(op: str, name: str, tensor: torch.Tensor, numel: int, meaning: str) -> None:
    found = tensor.numel()
    torch._check(found == numel, lambda: f"{op}: {name} has {found} elements; expected {numel} ({meaning})")


def _scalar(op: str, offset: OptionalTensor, when: str) -> None:
    torch._check(offset is not None, lambda: f"{op}: offset is missing; it is required {when}")
    assert offset is not None
    check_dtype(op, "offset", offset, (torch.float32,))
    check_numel(op, "offset", offset, 1, "one value")


def _absent(op: str, name: str, tensor: OptionalTensor, when: str) -> None:
    torch._check(tensor is None, lambda: f"{op}: {name} is given; it must be None {when}")


def check_same_device(op: str, anchor: str, first: torch.Tensor, name: str, second: OptionalTensor) -> None:
    if second is not None and second.device != first.device:
        raise RuntimeError(
            f"{op}: {anchor} is on {first.device} and {name} is on {second.device}; all tensors must be on one device"
        )
