"""Run by the Python of a clean environment with the wheel installed: does it load before and after torch, and compute?

Prints one line of facts last. Needs no GPU: on a machine without one the CPU path answers.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import platform
import sys
from pathlib import Path


def load_before_torch() -> ctypes.CDLL:
    """The library loads by itself, and refuses to register while torch is not there."""
    spec = importlib.util.find_spec("tilewright")
    assert spec is not None and spec.origin is not None
    library = ctypes.CDLL(str(Path(spec.origin).parent / "_native.so"))
    library.tilewright_register_torch.restype = ctypes.c_char_p
    assert "torch" not in sys.modules
    reason = library.tilewright_register_torch()
    assert reason is not None, "registered without torch"
    return library


def compute() -> str:
    """After torch: the ops are registered, and a product on the CPU is right."""
    import torch

    import tilewright

    info = tilewright.build_info()
    assert info["native"], info["statement"]
    torch.manual_seed(0)
    weight = torch.randn(64, 128)
    packed, state = tilewright.quantize_4bit(weight)
    inputs = torch.randn(3, 128)
    out = tilewright.gemm_4bit(inputs, packed, state)
    expected = inputs @ tilewright.dequantize_4bit(packed, state).t()
    torch.testing.assert_close(out, expected.to(out.dtype), rtol=1e-4, atol=1e-4)
    codes, scale = tilewright.quantize_fp8(weight)
    rows, row_scale = tilewright.quantize_fp8(inputs)
    out = tilewright.gemm_fp8(rows, codes, row_scale, scale, out_dtype=torch.float32)
    expected = tilewright.dequantize_fp8(rows, row_scale) @ tilewright.dequantize_fp8(codes, scale).t()
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    images = " ".join(info["images"])
    return f"Python {platform.python_version()}, torch {torch.__version__}: {images}"


def main() -> None:
    load_before_torch()
    line = compute()
    print(f"tilewright {importlib.metadata.version('tilewright')}, {line}")


if __name__ == "__main__":
    main()
