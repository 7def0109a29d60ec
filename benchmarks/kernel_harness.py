"""The kernel test harness (tests/kernels/harness.cu) by ctypes: structures, tiles and calls."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import torch

DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}
QUANT_TYPES = {"nf4": 0, "fp4": 1, "e2m1": 2}


class GemmArgs(ctypes.Structure):
    """Mirror of tilewright::Gemm4bitArgs."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("a", "b", "scales", "nested_absmax", "nested_code", "offset")),
        *((name, ctypes.c_void_p) for name in ("bias", "out")),
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "lda")),
        *((name, ctypes.c_int32) for name in ("blocksize", "dtype", "quant_type", "num_sms")),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("layout", ctypes.c_int32),
    ]


class DequantizeArgs(ctypes.Structure):
    """Mirror of tilewright::Dequantize4bitArgs."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("b", "scales", "nested_absmax", "nested_code", "offset")),
        ("out", ctypes.c_void_p),
        ("numel", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("blocksize", "dtype", "quant_type", "layout")),
        ("k", ctypes.c_int64),
    ]


class QuantizeArgs(ctypes.Structure):
    """Mirror of tilewright::Quantize4bitArgs."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("values", "packed", "absmax")),
        ("numel", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("blocksize", "dtype", "quant_type")),
    ]


class TileInfo(ctypes.Structure):
    """Mirror of tilewright::test::TileInfo."""

    _fields_ = [(name, ctypes.c_int) for name in ("engine", "m", "n", "k", "stages", "smem_bytes")]


@dataclass(frozen=True)
class Tile:
    """One compiled tile. `m`, `n`, `k` are mt, nt, kc for an mma tile and mb, warps, 0 for a simt tile."""

    index: int
    name: str
    simt: bool
    m: int
    n: int
    k: int
    stages: int

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        both = (torch.bfloat16, torch.float16)
        return (*both, torch.float32) if self.simt else both


def pointer(tensor: torch.Tensor | None) -> int | None:
    """The device address of `tensor`, or None."""
    return None if tensor is None else tensor.data_ptr()


def current_stream() -> int:
    """torch's current stream as the CUDA runtime's handle."""
    return int(torch.cuda.current_stream().cuda_stream)


class Harness:
    """The loaded library. Calls run on torch's current stream and return the cudaError_t as an int."""

    def __init__(self, path: Path) -> None:
        self._lib = ctypes.CDLL(str(path))
        self._lib.tw_tile_name.restype = ctypes.c_char_p
        self._lib.tw_error_name.restype = ctypes.c_char_p
        for name in ("tw_dequantize_4bit", "tw_quantize_4bit"):
            getattr(self._lib, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._lib.tw_gemm_4bit.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self.tiles = tuple(self._tile(index) for index in range(self._lib.tw_tile_count()))

    def _tile(self, index: int) -> Tile:
        info = TileInfo()
        if self._lib.tw_tile_info(index, ctypes.byref(info)) != 0:
            raise RuntimeError(f"tile {index} has no description")
        name = self._lib.tw_tile_name(index).decode()
        return Tile(index, name, info.engine == 0, info.m, info.n, info.k, info.stages)

    def gemm(self, tile: Tile, args: GemmArgs) -> int:
        return int(self._lib.tw_gemm_4bit(tile.index, ctypes.addressof(args), current_stream()))

    def dequantize(self, args: DequantizeArgs) -> int:
        return int(self._lib.tw_dequantize_4bit(ctypes.addressof(args), current_stream()))

    def quantize(self, args: QuantizeArgs) -> int:
        return int(self._lib.tw_quantize_4bit(ctypes.addressof(args), current_stream()))

    def error_name(self, code: int) -> str:
        return str(self._lib.tw_error_name(code).decode())
