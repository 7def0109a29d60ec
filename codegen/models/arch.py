"""Architecture profiles."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Count, Positive, SpecModel, Text, Version, Word
from .figures import Figures


class TensorMemory(SpecModel):
    """Tensor memory of a tcgen05 chip, per SM."""

    columns: Positive
    """Columns an ordinary allocation can reach; counts are powers of two."""
    exclusive_columns: Positive | None = None
    """Columns of an exclusive allocation, where the chip has one."""
    column_bytes: Positive
    """Bytes in one column over its 128 lanes."""


class ArchProfile(SpecModel):
    """One exact compute capability. Two archs may share a major version and nothing else."""

    kind: Literal["arch/1"] = Field(alias="schema")
    """`arch/1`."""
    name: Word
    """Name used by every `for:` list, such as sm121; `unknown` stands for every other card."""
    cc: tuple[Count, Count] | None
    """Compute capability [major, minor]; null for `unknown`."""
    products: tuple[Text, ...] = ()
    """Cards a reader would know it by."""
    gencode: Text | None = None
    """Target of the compiler, with its suffix (sm_90a); null when no code is built for it."""
    min_cuda: Version | None = None
    """First CUDA toolkit that knows the target. A string: 12.10 is not 12.1."""
    memory: Literal["hbm", "gddr", "lpddr", "unknown"]
    """Kind of device memory (information)."""
    group: Word
    """Part of the partition by which E204 looks for forgotten siblings."""
    smem_optin_bytes: Count
    """Greatest dynamic shared memory of a block after opting in, in bytes."""
    smem_oversized_bytes: Count | None = None
    """Greatest dynamic shared memory in the oversized mode, where the chip has one, in bytes."""
    registers_per_sm: Positive = 65_536
    """32-bit registers of one SM."""
    max_threads_per_sm: Positive = 2048
    """Resident threads of one SM."""
    max_cluster: Positive = 1
    """Largest portable thread block cluster."""
    tmem: TensorMemory | None = None
    """Tensor memory, for tcgen05 chips."""
    engines: tuple[Word, ...]
    """Engines whose instructions the chip has."""
    features: tuple[Word, ...] = ()
    """Further instructions and modes that tiles may need."""
    sm_counts: tuple[Positive, ...]
    """SM counts to enumerate in decisions; at run time the device is asked."""
    figures: Figures | None = None
    """Throughput figures, where tiles are planned by prediction."""
    status: Literal["measured", "reported", "assumed"]
    """Where the figures come from."""
    sources: tuple[Text, ...] = ()
    """Evidence ids or publications behind the figures."""
