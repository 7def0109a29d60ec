"""explain: why a problem runs the way it does."""

from __future__ import annotations

from typing import Any


def explain(M: int, N: int, K: int) -> Any:
    raise NotImplementedError
