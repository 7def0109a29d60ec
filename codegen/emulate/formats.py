"""Values of the narrow formats and the codebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NF4 = np.array(
    [
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
    ]
)
FP4 = np.array([0.0, 0.0625 / 12, 8 / 12, 1.0, 4 / 12, 0.5, 2 / 12, 0.25])
FP4 = np.concatenate([FP4, -FP4])
E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
E2M1 = np.concatenate([E2M1, -E2M1])
CODEBOOKS = {"nf4": NF4, "fp4": FP4, "e2m1": E2M1}


def _small_floats(exponent_bits: int, mantissa_bits: int, bias: int) -> Array:
    codes = np.arange(128)
    exponent = codes >> mantissa_bits
    mantissa = codes & ((1 << mantissa_bits) - 1)
    scale = 2.0 ** (np.maximum(exponent, 1) - bias - mantissa_bits)
    magnitude = (mantissa + np.where(exponent > 0, 1 << mantissa_bits, 0)) * scale
    if exponent_bits == 4:
        magnitude[127] = np.nan
    else:
        magnitude[124] = np.inf
        magnitude[125:] = np.nan
    return np.concatenate([magnitude, -magnitude])


E4M3 = _small_floats(4, 3, 7)
E5M2 = _small_floats(5, 2, 15)
FP8 = {"e4m3": E4M3, "e5m2": E5M2}


def encode(values: Array, table: Array) -> Array:
    """The code of the nearest finite entry of a table, for small arrays."""
    finite = np.where(np.isfinite(table), table, np.inf)
    order = np.argsort(finite, kind="stable")
    ordered = finite[order]
    limit = int(np.sum(np.isfinite(ordered)))
    right = np.clip(np.searchsorted(ordered[:limit], values), 1, limit - 1)
    left = right - 1
    nearer = np.where(np.abs(values - ordered[left]) <= np.abs(ordered[right] - values), left, right)
    return order[nearer].astype(np.uint8)


def pack_nibbles(codes: Array, high_first: bool) -> Array:
    """Two codes a byte along the last axis."""
    first, second = codes[..., ::2], codes[..., 1::2]
    return (first << 4 | second if high_first else second << 4 | first).astype(np.uint8)
