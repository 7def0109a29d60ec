"""E209: an arch profile whose own figures contradict each other; E207: no profile for unknown cards."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..diagnostics import Location
from ..loader import ValuePath
from ..models import ArchProfile
from .context import Context

CONDITIONAL_ENGINES = ("wgmma", "tcgen05", "mma_block_scaled")
"""Engines whose instructions a plain target lacks: it compiles, and the kernel aborts on the device."""
FEATURE_FIGURES = {"smem_oversized": "smem_oversized_bytes", "tmem_exclusive": "tmem.exclusive_columns"}


def check(context: Context) -> None:
    check_e207(context)
    check_e209(context)


def check_e207(context: Context) -> None:
    """No profile for cards without one."""
    if context.tree.archs and "unknown" not in context.tree.archs:
        context.sink.add(
            "E207",
            Location(context.tree.root),
            "there is no arch profile 'unknown'; a card without a profile needs decisions of its own.",
            "add archs/unknown.yaml with `cc: null`",
        )


def check_e209(context: Context) -> None:
    """Figures of a profile contradict each other, or those of another profile."""
    owners: dict[tuple[int, int], str] = {}
    for profile, document in context.sources.archs:
        for path, message in _faults(profile):
            context.sink.add("E209", document.locate(path), f"{profile.name}: {message}.")
        if profile.cc is not None:
            first = owners.setdefault(profile.cc, profile.name)
            if first != profile.name:
                cc = ".".join(map(str, profile.cc))
                message = f"{profile.name}: compute capability {cc} belongs to {first} already."
                context.sink.add("E209", document.locate(("cc",)), message)


def _faults(profile: ArchProfile) -> Iterator[tuple[ValuePath, str]]:
    yield from _naming(profile)
    yield from _memory(profile)
    yield from _features(profile)
    if not profile.sm_counts:
        yield ("sm_counts",), "sm_counts is empty; decisions need at least one"
    if len(set(profile.sm_counts)) != len(profile.sm_counts):
        yield ("sm_counts",), "sm_counts names a count twice"


def _naming(profile: ArchProfile) -> Iterator[tuple[ValuePath, str]]:
    if profile.cc is None:
        if profile.name != "unknown":
            yield ("cc",), "only the profile 'unknown' has `cc: null`"
        return
    digits = "".join(map(str, profile.cc))
    if profile.name != f"sm{digits}":
        yield ("name",), f"compute capability {'.'.join(map(str, profile.cc))} is called sm{digits}"
    if profile.gencode is not None and not re.fullmatch(rf"sm_{digits}[af]?", profile.gencode):
        yield ("gencode",), f"gencode '{profile.gencode}' is not sm_{digits}, sm_{digits}a or sm_{digits}f"
    if profile.gencode is not None and profile.min_cuda is None:
        yield ("min_cuda",), "a gencode needs the first toolkit that knows it, in min_cuda"
    conditional = [engine for engine in profile.engines if engine in CONDITIONAL_ENGINES]
    if conditional and profile.gencode is not None and profile.gencode[-1].isdecimal():
        engines = ", ".join(conditional)
        yield (
            ("gencode",),
            f"the plain target {profile.gencode} has no instructions for {engines}; one with a or f does",
        )


def _memory(profile: ArchProfile) -> Iterator[tuple[ValuePath, str]]:
    if profile.smem_oversized_bytes is not None and profile.smem_oversized_bytes <= profile.smem_optin_bytes:
        yield ("smem_oversized_bytes",), "smem_oversized_bytes is not greater than smem_optin_bytes"
    if profile.tmem is None:
        return
    columns, exclusive = profile.tmem.columns, profile.tmem.exclusive_columns
    if columns & (columns - 1):
        yield ("tmem", "columns"), f"{columns} columns of tensor memory are not a power of two"
    if exclusive is not None and exclusive <= columns:
        yield ("tmem", "exclusive_columns"), "exclusive_columns is not greater than columns"


def _features(profile: ArchProfile) -> Iterator[tuple[ValuePath, str]]:
    stated = {
        "smem_oversized": profile.smem_oversized_bytes,
        "tmem_exclusive": profile.tmem.exclusive_columns if profile.tmem else None,
    }
    for feature, figure in stated.items():
        if (feature in profile.features) != (figure is not None):
            yield ("features",), f"the feature {feature} and the figure {FEATURE_FIGURES[feature]} go together"
    if ("tcgen05" in profile.engines) != (profile.tmem is not None):
        yield ("engines",), "the engine tcgen05 and the figures of `tmem` go together"
    if ("cluster" in profile.features) != (profile.max_cluster > 1):
        yield ("features",), "the feature cluster and a max_cluster above 1 go together"
    for key, words in (("engines", profile.engines), ("features", profile.features)):
        if len(set(words)) != len(words):
            yield (key,), f"{key} names a word twice"
