"""The library through ctypes: `choose` says which kernel runs, `dense_gemm` runs it."""

from __future__ import annotations

import ctypes
from pathlib import Path

DTYPES = ("f16", "f32")
_library = ctypes.CDLL(str(Path(__file__).parent / "_embedded.so"))
_library.embedded_choose.restype = ctypes.c_char_p
_library.embedded_choose.argtypes = [ctypes.c_int] * 3 + [ctypes.c_int64] * 3 + [ctypes.c_int]
_library.embedded_dense_gemm.restype = ctypes.c_char_p
_library.embedded_dense_gemm.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 3 + [ctypes.c_int, ctypes.c_void_p]
_library.embedded_spec_digest.restype = ctypes.c_char_p


def choose(cc: tuple[int, int], num_sms: int, M: int, N: int, K: int, dtype: str = "f16") -> str | None:
    """The tile for a problem on a card; None when nothing is built for its compute capability."""
    name = _library.embedded_choose(*cc, num_sms, M, N, K, DTYPES.index(dtype))
    return None if name is None else str(name.decode())


def dense_gemm(a: int, b: int, out: int, M: int, N: int, K: int, dtype: str = "f16", stream: int = 0) -> None:
    """out[M, N] = a[M, K] times b[N, K] transposed, of pointers to device memory. RuntimeError when it cannot run."""
    problem = _library.embedded_dense_gemm(a, b, out, M, N, K, DTYPES.index(dtype), stream)
    if problem is not None:
        raise RuntimeError(problem.decode())


def spec_digest() -> str:
    """Digest of the specs that the library was generated from."""
    return str(_library.embedded_spec_digest().decode())
