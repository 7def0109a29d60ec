"""Random gemm_4bit problems and their fp32 references, written from the format descriptions alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from kernel_harness import DTYPES, QUANT_TYPES, DequantizeArgs, GemmArgs, pointer

NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023,
    1.0,
)  # fmt: skip
FP4_TWELFTHS = (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0)
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

GUARD = 64  # elements of NaN kept on each side of an output


def codebook(quant_type: str) -> torch.Tensor:
    """The sixteen fp32 values of a format, by code."""
    if quant_type == "nf4":
        return torch.tensor(NF4, dtype=torch.float32, device="cuda")
    half = torch.tensor(FP4_TWELFTHS, dtype=torch.float64) / 12 if quant_type == "fp4" else torch.tensor(E2M1)
    return torch.cat([half, -half]).float().cuda()


@dataclass(frozen=True)
class Shape:
    """Sizes and layout of a problem. `a_shift`: elements by which A and its rows miss 16-byte alignment."""

    M: int
    N: int
    K: int
    a_shift: int = 0


@dataclass(frozen=True)
class Format:
    """How the weight is stored."""

    quant_type: str
    blocksize: int
    nested: bool = False


FORMATS = (
    *(
        Format(quant_type, blocksize, nested)
        for quant_type in ("nf4", "fp4")
        for blocksize in (32, 64, 128, 256, 512, 1024, 2048, 4096)
        for nested in (False, True)
    ),
    Format("e2m1", 16),
)


class Weight:
    """A random packed weight of N x K with its scales; `values()` is its fp32 meaning."""

    def __init__(self, N: int, K: int, fmt: Format) -> None:
        self.N, self.K, self.fmt = N, K, fmt
        blocks = -(-N * K // fmt.blocksize)
        self.packed = torch.randint(0, 256, ((N * K + 1) // 2,), dtype=torch.uint8, device="cuda")
        self.nested_absmax: torch.Tensor | None = None
        self.nested_code: torch.Tensor | None = None
        self.offset: torch.Tensor | None = None
        if fmt.quant_type == "e2m1":
            self.offset = torch.rand((), device="cuda") + 0.5
            # every finite e4m3 code of either sign up to 1.875, subnormals included
            self.scales = torch.randint(0, 64, (blocks,), dtype=torch.uint8, device="cuda")
            self.scales |= torch.randint(0, 2, (blocks,), dtype=torch.uint8, device="cuda") << 7
        elif fmt.nested:
            self.scales = torch.randint(0, 256, (blocks,), dtype=torch.uint8, device="cuda")
            self.nested_code = (torch.rand(256, device="cuda") * 2 - 1).sort().values
            self.nested_absmax = torch.rand(-(-blocks // 256), device="cuda") * 0.5
            self.offset = torch.ones((), device="cuda")
        else:
            self.scales = torch.rand(blocks, device="cuda") + 0.5

    def block_scales(self) -> torch.Tensor:
        """The fp32 scale of every block."""
        if self.fmt.quant_type == "e2m1":
            assert self.offset is not None
            return self.scales.view(torch.float8_e4m3fn).float() * self.offset
        if self.nested_absmax is None or self.nested_code is None or self.offset is None:
            return self.scales
        outer = self.nested_absmax.repeat_interleave(256)[: self.scales.numel()]
        return self.nested_code[self.scales.long()] * outer + self.offset

    def values(self, first: int = 0, count: int | None = None) -> torch.Tensor:
        """fp32 weights of `count` flattened elements from `first` (even), or the whole as [N, K]."""
        total = self.N * self.K
        stop = total if count is None else first + count
        packed = self.packed[first // 2 : (stop + 1) // 2]
        high, low = packed >> 4, packed & 15
        pair = (low, high) if self.fmt.quant_type == "e2m1" else (high, low)
        codes = torch.stack(pair, dim=1).flatten()[: stop - first].long()
        index = torch.arange(first, stop, device="cuda") // self.fmt.blocksize
        flat = codebook(self.fmt.quant_type)[codes] * self.block_scales()[index]
        return flat.view(self.N, self.K) if count is None else flat

    def dequantize_args(self, out: torch.Tensor) -> DequantizeArgs:
        return DequantizeArgs(
            pointer(self.packed), pointer(self.scales), pointer(self.nested_absmax),
            pointer(self.nested_code), pointer(self.offset), pointer(out), self.N * self.K,
            self.fmt.blocksize, DTYPES[out.dtype], QUANT_TYPES[self.fmt.quant_type],
        )  # fmt: skip

    def gemm_args(self, a: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> GemmArgs:
        """Arguments for a [M, K] (any row stride) and a contiguous output of M * N elements."""
        return GemmArgs(
            pointer(a), pointer(self.packed), pointer(self.scales), pointer(self.nested_absmax),
            pointer(self.nested_code), pointer(self.offset), pointer(bias), pointer(out),
            a.shape[0], self.N, self.K, a.stride(0), self.fmt.blocksize, DTYPES[a.dtype],
            QUANT_TYPES[self.fmt.quant_type], 132, None, 0,
        )  # fmt: skip


def exact_normals(*size: int) -> torch.Tensor:
    """Normal fp32 values that bf16 and fp16 both hold exactly."""
    values = torch.randn(*size, device="cuda").bfloat16().float()
    return torch.where(values.abs() < 2.0**-12, torch.zeros_like(values), values)


def activations(values: torch.Tensor, dtype: torch.dtype, a_shift: int) -> torch.Tensor:
    """`values` as `dtype`, in rows that start `a_shift` elements off a 16-byte boundary."""
    M, K = values.shape
    if a_shift == 0:
        return values.to(dtype)
    storage = torch.zeros(M * (K + a_shift) + a_shift, dtype=dtype, device="cuda")
    rows = storage[a_shift:].as_strided((M, K), (K + a_shift, 1), a_shift)
    rows.copy_(values)
    return rows


def guarded_output(count: int, dtype: torch.dtype, shift: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A NaN-filled buffer and the `count` elements in it that a kernel may write."""
    buffer = torch.full((count + 2 * GUARD + shift,), float("nan"), dtype=dtype, device="cuda")
    return buffer, buffer[GUARD + shift : GUARD + shift + count]
