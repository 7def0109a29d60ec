"""What a tile computes at a time, from its fields: the counts that its time is made of."""

from __future__ import annotations

from ..ir import Tile
from .cost_fit import Geometry

DECODE_ROWS = 16
"""Rows of the weight that a warp of the decode engines takes at a time."""


def geometry(tile: Tile, num_sms: int) -> Geometry | None:
    """None for an engine whose tiles walk over the problem in another way."""
    fields = {name: int(value) for name, value in tile.fields.items() if not isinstance(value, str)}
    if tile.engine == "decode":
        warps_n = fields.get("warps_n") or max(1, fields.get("warps", 1) // fields["warps_k"])
        resident = num_sms * max(fields.get("per_sm", 1), 1) // max(fields.get("cluster", 1), 1)
        return Geometry(fields["mb"], DECODE_ROWS * warps_n, 1, resident)
    if "mt" not in fields or "nt" not in fields:
        return None
    split, blocks = max(1, fields.get("split_k", 1)), num_sms * max(1, fields.get("occupancy", 1))
    return Geometry(fields["mt"], fields["nt"], split, blocks)
