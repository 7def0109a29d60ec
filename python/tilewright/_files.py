"""safetensors files and the index of their shards, read with errors that name the file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import torch

from ._errors import CheckpointError


def read(files: Iterable[Path]) -> dict[str, torch.Tensor]:
    """The tensors of all files. CheckpointError for one that is broken."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, torch.Tensor] = {}
    for file in files:
        try:
            tensors.update(load_file(file))
        except SafetensorError as error:
            raise CheckpointError(f"{file}: {error}") from None
    return tensors


def shards(index: Path) -> list[str]:
    """The names of the shards that an index lists. CheckpointError for what is no index."""
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        names = {None}
    if not names or not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"{index}: it is no index; expected JSON with `weight_map`, key -> name of a shard")
    return sorted(names)
