"""How far a result of a product may be from the exact one, element by element, for operands drawn at random."""

from __future__ import annotations

import math

import torch

UNIT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
"""The greatest relative error of rounding to a type."""
SUMS = 2.0**-19
"""Error of fp32 sums of the engines and of the reference, in any order, relative to `spread`."""


def fp8_sums(fast: bool, K: int) -> float:
    """The same where FP8 tensor cores add up: they keep 13 bits or more of the greatest term.

    Where K is small, that term may be most of the sum of magnitudes.
    """
    return (2.0**-10 if fast else 2.0**-12) * (1 + 16 / math.sqrt(K))


def over_limit(
    got: torch.Tensor,
    exact: torch.Tensor,
    spread: torch.Tensor,
    K: int,
    operand_unit: float,
    sums: float = SUMS,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The worst element's error over its limit, a scalar on the device; NaN where the result holds NaN.

    exact: fp32 product without the bias. spread: the norm of the row of A times that of the row of B; by Cauchy and
    Schwarz no sum of magnitudes is greater. operand_unit: greatest relative error of a product of two operands as the
    engine takes them. Rounding of independent operands adds up as the root of their number, so that six times that of a
    typical term is never passed where K is large, and `spread` times the unit is a strict limit where it is small.
    """
    unit = UNIT[got.dtype]
    added = exact.new_zeros(()) if bias is None else bias.float()
    room = 2 * unit * (exact.abs() + added.abs()) + spread * (operand_unit * min(1.0, 6 / K**0.5) + sums)
    room += torch.finfo(got.dtype).smallest_normal * unit
    worst: torch.Tensor = ((got.float() - (exact + added)).abs() / room).amax()
    return worst


def norm_over_limit(
    got: torch.Tensor, exact: torch.Tensor, spread: torch.Tensor, K: int, limit: float, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Error of the whole over its limit, relative to the result or to what its terms make typical: they may cancel."""
    expected = exact if bias is None else exact + bias.float()
    typical = torch.maximum(expected.norm(), spread.norm() / K**0.5)
    error: torch.Tensor = (got.float() - expected).norm()
    return error / (typical.clamp_min(torch.finfo(torch.float32).tiny) * limit)


def values_differ(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """As `bytes_differ`, but every NaN is the same."""
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    return 2.0 * (~same).any().float() if found.shape == wanted.shape else torch.full((), 2.0, device=wanted.device)


def bytes_differ(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Twice the limit where two tensors differ in shape, type or bytes, else 0; a scalar on the device."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return torch.full((), 2.0, device=wanted.device)
    if found.numel() == 0:
        return torch.zeros((), device=wanted.device)
    left, right = (t.contiguous().reshape(-1).view(torch.uint8) for t in (found, wanted))
    return 2.0 * (left != right).any().float()
