"""build_info: what this install is made of."""

from __future__ import annotations

from typing import Any

import torch

from . import _ops, _tuned
from ._version import __version__


def build_info() -> dict[str, Any]:
    """Version, native library, machine code, torch.

    Asks no driver and creates no CUDA context. `native` is False for an install without the native library: then
    every op runs in plain torch, also on CUDA tensors, and `statement` says so and why.
    """
    native = _ops.NATIVE
    if native.loaded:
        digest = native.library.tilewright_spec_digest().decode()
        statement = f"CUDA kernels for {', '.join(native.images())}; CPU tensors run in plain torch"
    else:
        digest = None
        statement = f"no CUDA kernels: every op runs in plain torch ({native.reason})"
    return {
        "version": __version__,
        "native": native.loaded,
        "statement": statement,
        "library": None if native.path is None else str(native.path),
        "images": list(native.images()),
        "tiles": list(native.tile_names()),
        "spec_digest": digest,
        "tuned": _tuned.loaded_table(),
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
    }
