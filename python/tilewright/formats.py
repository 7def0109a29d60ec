"""The three 4-bit weight formats: code values, decision thresholds, block sizes.

nf4 and fp4 are bitsandbytes' formats bit for bit; `fp4` is not the OCP E2M1 format, `e2m1` is. Codes are listed in
code order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

NF4_VALUES = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
# A value belongs to code i when it is strictly greater than the i lowest thresholds. They are the float32 values a C++
# compiler makes of the literals in bitsandbytes' CUDA kernels; four of these lie so near to halfway between two that
# Python, which reads a double first, would take the other one.
NF4_THRESHOLDS = (
    -0.8480964303016663,
    -0.6106328964233398,
    -0.4599952697753906,
    -0.33967941999435425,
    -0.23460739850997925,
    -0.13791173696517944,
    -0.045525018125772476,
    0.03979014977812767,
    0.1202552542090416,
    0.2035212516784668,
    0.2920137643814087,
    0.3893125355243683,
    0.5016633868217468,
    0.6427869200706482,
    0.8614783883094788,
)

_FP4_MAGNITUDES = (0.0, 0.0625 / 12, 8 / 12, 12 / 12, 4 / 12, 6 / 12, 2 / 12, 3 / 12)
FP4_VALUES = _FP4_MAGNITUDES + tuple(-value for value in _FP4_MAGNITUDES)
FP4_THRESHOLDS = (
    0.0026041700039058924,
    0.0859375,
    0.2083333283662796,
    0.2916666567325592,
    0.4166666865348816,
    0.5833330154418945,
    0.8333333134651184,
)
# Codes by rising magnitude: fp4 codes are not ordered by value.
FP4_CODES_BY_MAGNITUDE = (0, 1, 6, 7, 4, 5, 2, 3)

_E2M1_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1_VALUES = _E2M1_MAGNITUDES + tuple(-value for value in _E2M1_MAGNITUDES)
E2M1_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
E2M1_MAX = 6.0
E4M3_MAX = 448.0


@dataclass(frozen=True)
class Format:
    """One 4-bit format. `code` is what the ops take as quant_type."""

    name: str
    code: int
    values: tuple[float, ...]
    blocksizes: tuple[int, ...]
    default_blocksize: int
    high_nibble_first: bool


_ABSMAX_BLOCKSIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
FORMATS = (
    Format("nf4", 0, NF4_VALUES, _ABSMAX_BLOCKSIZES, 64, True),
    Format("fp4", 1, FP4_VALUES, _ABSMAX_BLOCKSIZES, 64, True),
    Format("e2m1", 2, E2M1_VALUES, (16,), 16, False),
)
BY_NAME = {fmt.name: fmt for fmt in FORMATS}

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
NESTED_BLOCKSIZE = 256


def get_format(name: str) -> Format:
    """Returns the format called `name`; ValueError lists the known ones."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise ValueError(f"quant_type={name!r}; allowed: {', '.join(BY_NAME)}") from None


def dtype_code(dtype: torch.dtype, name: str = "dtype") -> int:
    """The number by which the ops know an activation dtype; `name` is the argument that an error names."""
    if dtype not in DTYPES:
        raise ValueError(f"{name}={dtype}; allowed: {', '.join(map(str, DTYPES))}")
    return DTYPES.index(dtype)


def table(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """`values` as an fp32 tensor on `device`, made once; where torch.compile traces, a constant of the graph."""
    if torch.compiler.is_compiling():
        return torch.tensor(values, dtype=torch.float32, device=device)
    return _table(values, device)


@lru_cache(maxsize=64)
def _table(values: tuple[float, ...], device: torch.device) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device)


@lru_cache(maxsize=1)
def nested_code_values() -> tuple[float, ...]:
    """The 256 signed dynamic codes of nested absmax: 7 decades, each twice as fine as the one below, rising."""
    data = [0.0, 1.0]
    for decade in range(7):
        bounds = torch.linspace(0.1, 1, 2**decade + 1, dtype=torch.float32)
        means = 10.0 ** (decade - 6) * ((bounds[:-1] + bounds[1:]) / 2.0)
        data += means.tolist()
        data += (-means).tolist()
    return tuple(sorted(data))
