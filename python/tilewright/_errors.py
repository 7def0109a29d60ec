"""The error of a checkpoint that does not fit."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class CheckpointError(ValueError):
    """A checkpoint does not fit: the text names the key, what it holds and what is expected."""


def unknown_keys(owner: str, unknown: Iterable[str], known: Iterable[str]) -> CheckpointError:
    """The error that names every unknown key, with the nearest known one where there is one."""
    known = sorted(known)
    parts = []
    for key in unknown:
        near = difflib.get_close_matches(key, known, n=1) or [name for name in known if key.endswith("." + name)]
        parts.append(f"{key} (did you mean {near[0]}?)" if near and near[0] != key else key)
    return CheckpointError(f"unknown keys for {owner}: {', '.join(parts)}; expected {', '.join(known)}")
