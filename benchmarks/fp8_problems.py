"""Operands and references of gemm_fp8 problems, and the harness of the wgmma engine by ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path

import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}
SCALING = {"tensor": 0, "row": 1, "block": 2}
SHAPES = [
    (4096, 4096),
    (8192, 8192),
    (4096, 7168),
    (7168, 2048),
    (24576, 1536),
    (32768, 512),
    (7168, 16384),
    (16384, 16384),
]


class Args(ctypes.Structure):
    """GemmFp8Args of args.h."""

    _fields_ = [
        *[(name, ctypes.c_void_p) for name in ("a", "b", "scale_a", "scale_b", "bias", "out")],
        *[(name, ctypes.c_int64) for name in ("m", "n", "k", "lda", "ldb", "ldo")],
        *[(name, ctypes.c_int64) for name in ("scale_a_m", "scale_a_k", "scale_b_n", "scale_b_k")],
        *[(name, ctypes.c_int64) for name in ("b_group_stride", "scale_b_group", "bias_group")],
        *[(name, ctypes.c_void_p) for name in ("group_ends", "group_rows")],
        *[(name, ctypes.c_int32) for name in ("groups", "grouping", "scaling", "a_type", "dtype")],
        ("fast_accum", ctypes.c_bool),
        ("num_sms", ctypes.c_int32),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
    ]


class Info(ctypes.Structure):
    """Fp8WgmmaTileInfo of fp8_wgmma_harness.h."""

    _fields_ = [
        (name, ctypes.c_int)
        for name in (
            *("mt", "nt", "stages", "swap", "consumers", "pingpong", "promote"),
            *("cluster_m", "cluster_n", "split_k", "occupancy", "smem_bytes"),
        )
    ]


class Harness:
    """The library that fp8_wgmma_build.sh makes. Launches go to torch's current stream."""

    def __init__(self, path: Path) -> None:
        self.lib = ctypes.CDLL(str(path))
        self.lib.tw_fp8_name.restype = ctypes.c_char_p
        self.lib.tw_fp8_error.restype = ctypes.c_char_p
        self.lib.tw_fp8_host_ns.restype = ctypes.c_double
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.names: dict[str, int] = {}
        self.info: dict[str, Info] = {}
        for tile in range(self.lib.tw_fp8_count()):
            info = Info()
            self.lib.tw_fp8_info(tile, ctypes.byref(info))
            name = self.lib.tw_fp8_name(tile).decode()
            self.names[name], self.info[name] = tile, info

    def error(self, name: str, args: Args) -> str:
        """The name of the launch's error code."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        code = self.lib.tw_fp8_launch(self.names[name], ctypes.byref(args), stream)
        return str(self.lib.tw_fp8_error(code).decode())

    def launch(self, name: str, args: Args) -> None:
        error = self.error(name, args)
        if error != "cudaSuccess":
            raise RuntimeError(f"{name}: {error}")

    def host_us(self, name: str, args: Args, launches: int = 200) -> float:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        return float(self.lib.tw_fp8_host_ns(self.names[name], ctypes.byref(args), stream, launches)) / 1e3


@dataclass
class Problem:
    """One product and what it is to give. `groups` 0 is ungrouped; `pad` widens the rows of every operand."""

    m: int
    n: int
    k: int
    scaling: str = "tensor"
    dtype: torch.dtype = torch.bfloat16
    a_type: torch.dtype = E4M3
    fast: bool = True
    bias: bool = False
    pad: int = 0
    groups: int = 0
    masked: bool = False
    row_major_scales: bool = False
    kept: list[torch.Tensor] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        weights = max(1, self.groups)
        rows = self.m * (weights if self.masked else 1)
        self.rows = rows
        self.a = self._matrix(rows, self.k, self.a_type)
        self.b = self._matrix(weights * self.n, self.k, E4M3)
        self.bias_values = torch.randn(weights, self.n, device="cuda").to(self.dtype) if self.bias else None
        q = -(-self.k // 128)
        shape_a = {"tensor": (1, 1), "row": (rows, 1), "block": (rows, q)}[self.scaling]
        shape_b = {"tensor": (1, 1), "row": (self.n, 1), "block": (-(-self.n // 128), q)}[self.scaling]
        self.scale_a = torch.rand(shape_a, device="cuda") * 0.02 + 0.01
        if self.scaling == "block" and not self.row_major_scales:
            self.scale_a = self.scale_a.t().contiguous().t()
        self.scale_b = torch.rand((weights, *shape_b), device="cuda") * 0.02 + 0.01
        cuts = torch.randint(0, self.m + 1, (max(0, weights - 2),)).tolist()
        self.ends = sorted([*cuts, self.m // 3, self.m - self.m // 7])[-weights:]
        self.counts = torch.randint(0, self.m + 1, (weights,)).tolist()
        self.device_ends = torch.tensor(self.ends, dtype=torch.int32, device="cuda")
        self.device_counts = torch.tensor(self.counts, dtype=torch.int32, device="cuda")

    def _matrix(self, rows: int, columns: int, kind: torch.dtype) -> torch.Tensor:
        wide = torch.randn(rows, columns + 16 * self.pad, device="cuda").mul_(2).to(kind)
        return wide[:, :columns]

    def args(self, out: torch.Tensor, sms: int) -> Args:
        """`out` is [rows, n], its last dimension contiguous."""
        stepped = self.scaling != "tensor"
        block = self.scaling == "block"
        return Args(
            self.a.data_ptr(),
            self.b.data_ptr(),
            self.scale_a.data_ptr(),
            self.scale_b.data_ptr(),
            None if self.bias_values is None else self.bias_values.data_ptr(),
            out.data_ptr(),
            *(self.m, self.n, self.k, self.a.stride(0), self.b.stride(0), out.stride(0)),
            *(self.scale_a.stride(0) * stepped, self.scale_a.stride(1) * block),
            *(self.scale_b.stride(1) * stepped, self.scale_b.stride(2) * block),
            *(self.n * self.b.stride(0), self.scale_b.stride(0), self.n),
            self.device_ends.data_ptr(),
            self.device_counts.data_ptr(),
            self.groups,
            0 if self.groups == 0 else 2 if self.masked else 1,
            SCALING[self.scaling],
            1 if self.a_type == E5M2 else 0,
            DTYPES[self.dtype],
            self.fast,
            sms,
            None,
            0,
        )

    def spans(self) -> list[tuple[int, int, int]]:
        """(group, first row, end row) of every computed stretch of rows."""
        if self.groups == 0:
            return [(0, 0, self.m)]
        if self.masked:
            return [(g, g * self.m, g * self.m + count) for g, count in enumerate(self.counts)]
        return [(g, first, end) for g, (first, end) in enumerate(zip([0, *self.ends], self.ends, strict=False))]

    def reference(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(fp64 result, whether a row is computed)."""
        result = torch.zeros(self.rows, self.n, dtype=torch.float64, device="cuda")
        written = torch.zeros(self.rows, dtype=torch.bool, device="cuda")
        per_k = self.scaling == "block"
        spread_a = self.scale_a.double().repeat_interleave(128, 1)[:, : self.k] if per_k else self.scale_a.double()
        a = self.a.double() * spread_a
        for group, first, end in self.spans():
            scale = self.scale_b[group].double()
            if per_k:
                scale = scale.repeat_interleave(128, 0)[: self.n].repeat_interleave(128, 1)[:, : self.k]
            b = self.b[group * self.n : (group + 1) * self.n].double() * scale
            result[first:end] = a[first:end] @ b.T
            if self.bias_values is not None:
                result[first:end] += self.bias_values[group].double()
            written[first:end] = True
        return result, written

    def torch_args(self) -> dict[str, torch.Tensor]:
        """Operands and scales as torch._scaled_mm takes them (ungrouped)."""
        scale_b = self.scale_b[0].t()
        if self.scaling == "tensor":
            return dict(scale_a=self.scale_a[0, 0], scale_b=self.scale_b[0, 0, 0])
        return dict(scale_a=self.scale_a, scale_b=scale_b)


def scaled_mm(problem: Problem, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    fast = problem.fast and problem.scaling != "block"
    bias = None if problem.bias_values is None else problem.bias_values[0]
    result: torch.Tensor = torch._scaled_mm(
        problem.a, b.T, bias=bias, out_dtype=problem.dtype, use_fast_accum=fast, out=out, **problem.torch_args()
    )
    return result
