"""The ops torch.ops.tilewright: schemas, CPU kernels, fake kernels. Importing this module registers them.

The native library defines the schemas and the CUDA kernels; where it is missing, both come from here, in plain torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import _library, _ops_4bit, _ops_fp8

_OPS = (*_ops_4bit.OPS, *_ops_fp8.OPS)
_IN_TORCH = {f"_{op.name}_torch": op for op in _OPS if op.in_torch}
"""What the native library calls where none of its kernels answers."""
SCHEMAS = (
    *(op.name + op.arguments for op in _OPS),
    *(name + op.arguments for name, op in _IN_TORCH.items()),
)
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
    for op in _OPS:
        library.impl(op.name, op.kernel, "CPU")
        if not native.loaded:
            library.impl(op.name, op.kernel, "CUDA")
    for name, op in _IN_TORCH.items():
        library.impl(name, op.kernel, "CPU")
        library.impl(name, _in_torch(op.kernel), "CUDA")
    for name, op in [*((op.name, op) for op in _OPS), *_IN_TORCH.items()]:
        torch.library.register_fake(f"tilewright::{name}", op.fake, lib=library)
    return library


NATIVE = _library.load()
# Deleting a torch.library object unregisters its kernels: it lives as long as this module.
_LIBRARY = _register(NATIVE)
