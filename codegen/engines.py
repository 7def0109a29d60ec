"""What the generator knows about each engine of this package's kernels. Engines of other libraries need no entry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineInfo:
    """C++ name of an engine and the element types its kernels take."""

    enumerator: str
    dtypes: tuple[str, ...] | None = None


ENGINES = {
    "simt": EngineInfo("kSimt"),
    "mma_m16n8k16": EngineInfo("kMmaM16n8k16", ("f16", "bf16")),
    "wgmma": EngineInfo("kWgmma", ("f16", "bf16")),
    "decode": EngineInfo("kDecode", ("f16", "bf16")),
    "tcgen05": EngineInfo("kTcgen05", ("f16", "bf16")),
}
"""Facts by engine word of the specs."""


def engine_dtypes(engine: str, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """The element types of a family that an engine's kernels take, in the family's order."""
    info = ENGINES.get(engine)
    if info is None or info.dtypes is None:
        return dtypes
    return tuple(d for d in dtypes if d in info.dtypes)
