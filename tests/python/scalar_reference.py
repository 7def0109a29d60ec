"""Quantisation one value at a time, in plain Python: written from the formats' definitions, not from the package."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise

NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
]  # fmt: skip
FP4_TWELFTHS = [0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def f32(value: float) -> float:
    """`value` rounded to fp32."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def nf4_code(x: float) -> int:
    """How many midpoints of the table x exceeds."""
    return sum(x > (a + b) / 2 for a, b in pairwise(NF4))


def fp4_code(x: float) -> int:
    """The nearest fp4 magnitude, a tie going to the lower one, and the sign bit for x < 0."""
    magnitudes = [f32(value / 12) for value in FP4_TWELFTHS]
    order = sorted(range(8), key=magnitudes.__getitem__)
    code = order[0]
    for low, high in pairwise(order):
        if abs(x) > (magnitudes[low] + magnitudes[high]) / 2:
            code = high
    return code + (8 if x < 0 else 0)


def e2m1_code(x: float) -> int:
    """The nearest e2m1 magnitude, a tie going to the even code, and the sign bit for x < 0."""
    best = min(range(8), key=lambda code: (abs(abs(x) - E2M1[code]), code % 2))
    return best + (8 if x < 0 else 0)


def value_of(quant_type: str, code: int) -> float:
    """What a code stands for, before its scale."""
    if quant_type == "nf4":
        return NF4[code]
    magnitude = f32(FP4_TWELFTHS[code % 8] / 12) if quant_type == "fp4" else E2M1[code % 8]
    return -magnitude if code >= 8 else magnitude


def absmax_codes(values: Sequence[float], blocksize: int, quant_type: str) -> tuple[list[int], list[float]]:
    """Codes and the absmax of every block; the last block may be short."""
    codes, scales = [], []
    encode = nf4_code if quant_type == "nf4" else fp4_code
    for start in range(0, len(values), blocksize):
        block = values[start : start + blocksize]
        absmax = max(abs(v) for v in block)
        scales.append(absmax)
        codes += [encode(f32(v / absmax) if absmax else 0.0) for v in block]
    return codes, scales


def e4m3_value(byte: int) -> float:
    """An unsigned e4m3 byte as a number."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    return mantissa / 8 * 2**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
