"""Element types that each engine of this package takes. Engines of other libraries need no entry."""

from __future__ import annotations

from .models.tiles import DEFAULT_FAMILY, TILE_MODELS

ENGINE_DTYPES = {
    ("gemm_4bit", "mma_m16n8k16"): ("f16", "bf16"),
    ("gemm_4bit", "wgmma"): ("f16", "bf16"),
    ("gemm_4bit", "decode"): ("f16", "bf16"),
}
"""Element types that the kernels of a family's engine take, where they are not all of the family's."""


def engine_dtypes(family: str, engine: str, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """The element types of a family, given as `dtypes`, that an engine's kernels take, in the family's order."""
    known = {name for name, _ in TILE_MODELS}
    taken = ENGINE_DTYPES.get((family if family in known else DEFAULT_FAMILY, engine))
    return dtypes if taken is None else tuple(d for d in dtypes if d in taken)
