"""What `bench` times: a contest is one weight and those that multiply by it, each on the same activations."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

from . import _machine
from ._version import __version__

_LIMIT = 0.05
_MOST_COPIES = 48
Call = Callable[[int], torch.Tensor]
"""A call by its number, which picks the copy of the weight."""


class Contest(ABC):
    """Copies of one weight [N, K], and the peers by name; "tilewright" and "dense" are among them."""

    names: tuple[str, ...]
    N: int
    K: int

    @abstractmethod
    def make(self, name: str, x: torch.Tensor) -> tuple[Call, torch.Tensor]:
        """The call of a peer for activations [M, K], and its exact result with the first copy."""


def copies(rotated_bytes: float, one: float, most: int = _MOST_COPIES) -> int:
    """Copies of a weight of `one` bytes that fill `rotated_bytes`: two at least."""
    return max(2, min(most, math.ceil(rotated_bytes / one)))


def versions() -> dict[str, str]:
    """Versions of what takes part."""
    found = {name: _machine.package_version(name) for name in ("bitsandbytes", "gemlite")}
    own = {"tilewright": __version__, "torch": torch.__version__}
    return own | {name: version for name, version in found.items() if version is not None}


def calls(contest: Contest, x: torch.Tensor) -> tuple[dict[str, Call], dict[str, str]]:
    """The calls by peer, and why the others are left out."""
    found: dict[str, Call] = {}
    reasons: dict[str, str] = {}
    for name in contest.names:
        try:
            call, wanted = contest.make(name, x)
            off = float((call(0).float() - wanted).norm() / wanted.norm())
        except ImportError:
            reasons[name] = "it is not installed"
        except Exception as error:  # a peer may fail in its own way on a card or shape; the others still run
            reasons[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        else:
            if off < _LIMIT:
                found[name] = call
            else:
                reasons[name] = f"its result is off by {off:.2g} (relative), at most {_LIMIT} is taken"
    return found, reasons
