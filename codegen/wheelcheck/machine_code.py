"""Checks of the device code: which images and kernels are there, what they are made of, what they weigh."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..binary import SUPPORT
from ..models.wheels import BudgetFile
from .cuobjdump import Block, Kernel, is_ptx, read_mnemonics
from .expected import Expected, Instance
from .fatbin import Entry
from .findings import Check, NotCheckedError

INSTRUCTIONS: Mapping[str, re.Pattern[str]] = {
    "simt": re.compile(r"FFMA|FADD|HFMA2"),
    "mma_m16n8k16": re.compile(r"HMMA\.16816"),
    "decode": re.compile(r"HMMA\.16816|QMMA\.16832|QGMMA"),  # by the tile: mma.sync, or wgmma where B comes by TMA
    "mma_m16n8k32": re.compile(r"QMMA\.16832|HMMA\.16816"),  # archs without 8-bit mma.sync multiply in 16 bits
    "mma_block_scaled": re.compile(r"OMMA\.SF"),
    "wgmma": re.compile(r"[HQ]GMMA"),
    "tcgen05": re.compile(r"UTC\w*MMA"),
}
"""What the kernels of an engine are made of. An engine that is missing here is reported as not checked."""
PTX_INSTRUCTIONS: Mapping[str, re.Pattern[str]] = {
    "simt": re.compile(r"fma\.rn\.f32|add\.f32|fma\.rn\.\w*f16x2"),
    "mma_m16n8k16": re.compile(r"mma\.sync\.aligned\.m16n8k16"),
    "decode": re.compile(r"mma\.sync\.aligned\.m16n8k(16|32)"),
    "mma_m16n8k32": re.compile(r"mma\.sync\.aligned\.m16n8k32"),
}
"""The same for PTX, which only engines of portable archs have."""


@dataclass(frozen=True)
class DeviceCode:
    """Entries of the container with the kernels in each. `blocks` is None without cuobjdump."""

    entries: Sequence[Entry]
    blocks: Sequence[Block] | None

    def paired(self) -> list[tuple[Entry, Block]]:
        """Code with its kernels, PTX last. NotCheckedError when there are none or the two readings disagree."""
        if self.blocks is None:
            raise NotCheckedError("no cuobjdump")
        code = [entry for kind in ("elf", "ptx") for entry in self.entries if entry.kind == kind]
        if [entry.image for entry in code] != [block.image for block in self.blocks]:
            raise NotCheckedError("cuobjdump lists other images than the library's container")
        return list(zip(code, self.blocks, strict=True))


def check_images(code: DeviceCode, expected: Expected, check: Check) -> None:
    """The library has code for exactly the images of the specs, compressed."""
    present = {entry.image for entry in code.entries}
    for image in sorted(set(expected.images) - present):
        families = ", ".join(sorted(name for name, images in expected.families.items() if images.get(image)))
        check.problems.append(f"{image}: no {_kind(image)} for it ({families or SUPPORT})")
    for image in sorted(present - set(expected.images)):
        check.problems.append(f"{image}: there is {_kind(image)} for it, but it was not asked for")
    for image, count in sorted(Counter(e.image for e in code.entries if not e.compressed).items()):
        check.problems.append(f"{image}: {count} objects are not compressed; -compress-mode=size is expected")
    check.facts["images"] = sorted(present)


def _kind(image: str) -> str:
    return "PTX" if is_ptx(image) else "machine code"


def check_kernels(code: DeviceCode, expected: Expected, check: Check) -> None:
    """Each image has exactly the kernels its arch's rules can pick, in every element type."""
    found = _instances(code)
    count = 0
    for family, images in sorted(expected.families.items()):
        for image, wanted in images.items():
            present = found[image, family]
            count += len(wanted & present)
            for tile, dtype in sorted(wanted - present):
                check.problems.append(f"{family} {image}: no kernel of {tile} for {dtype}")
            for tile, dtype in sorted(present - wanted):
                check.problems.append(f"{family} {image}: {tile} for {dtype} is there, but no rule needs it")
    for image, family in sorted(found):
        if family not in expected.families and family != SUPPORT:
            check.problems.append(f"{family} {image}: the specs have no such family")
    check.facts["kernels"] = count


def _instances(code: DeviceCode) -> dict[tuple[str, str], set[Instance]]:
    found: dict[tuple[str, str], set[Instance]] = defaultdict(set)
    for _, block in code.paired():
        for kernel in block.kernels:
            if kernel.tile is not None and kernel.dtype is not None:
                found[block.image, kernel.family].add((kernel.tile, kernel.dtype))
    return found


def check_instructions(
    code: DeviceCode, expected: Expected, tool: Path, library: Path, every: bool, check: Check
) -> None:
    """Kernels hold the instructions of their engine: one kernel of each engine and image, or every one."""
    looked = 0
    unknown: set[str] = set()
    for image in expected.images:
        known = PTX_INSTRUCTIONS if is_ptx(image) else INSTRUCTIONS
        chosen = _choose(code, expected, image, every)
        unknown |= {engine for engine, _ in chosen if engine not in known}
        chosen = [(engine, kernel) for engine, kernel in chosen if engine in known]
        if not chosen:
            continue
        words = _words(code, tool, library, image, [kernel for _, kernel in chosen])
        for engine, kernel in chosen:
            looked += 1
            if not any(known[engine].match(word) for word in words.get(kernel.symbol, ())):
                pattern = known[engine].pattern.replace("\\", "")
                check.problems.append(
                    f"{kernel.family} {image}: {kernel.tile} for {kernel.dtype} is of engine {engine}, "
                    f"but holds no {pattern}"
                )
    if unknown:
        check.skipped = f"no instructions are known for the engines {', '.join(sorted(unknown))}"
    check.facts["kernels"] = looked


def _words(
    code: DeviceCode, tool: Path, library: Path, image: str, kernels: Sequence[Kernel]
) -> Mapping[str, frozenset[str]]:
    """Kernel -> its instructions, in one image."""
    if not is_ptx(image):
        return read_mnemonics(tool, library, image, kernels)
    return {
        symbol: words for block in code.blocks or () if block.image == image for symbol, words in block.words.items()
    }


def _choose(code: DeviceCode, expected: Expected, image: str, every: bool) -> list[tuple[str, Kernel]]:
    chosen: list[tuple[str, Kernel]] = []
    seen: set[tuple[str, str]] = set()
    for _, block in code.paired():
        for kernel in block.kernels if block.image == image else ():
            engine = expected.engines.get(kernel.family, {}).get(kernel.tile or "")
            if engine is not None and (every or (kernel.family, engine) not in seen):
                seen.add((kernel.family, engine))
                chosen.append((engine, kernel))
    return chosen


def weigh(code: DeviceCode) -> dict[str, dict[str, int]]:
    """Family -> image -> bytes in the library. Kernels without a family count as support."""
    sizes: dict[str, dict[str, int]] = {}
    for entry, block in code.paired():
        families = {kernel.family for kernel in block.kernels} - {SUPPORT}
        family = families.pop() if len(families) == 1 else SUPPORT
        images = sizes.setdefault(family, {})
        images[entry.image] = images.get(entry.image, 0) + entry.stored
    return sizes


def check_budget(sizes: Mapping[str, Mapping[str, int]], file_bytes: int, budget: BudgetFile, check: Check) -> None:
    """The wheel, each family and each image keep to the budget."""
    if file_bytes > budget.wheel_bytes:
        check.problems.append(_over("the wheel", file_bytes, budget.wheel_bytes))
    limits = {item.family: item for item in budget.families}
    for family, images in sorted(sizes.items()):
        total = sum(images.values())
        if family == SUPPORT:
            if total > budget.support_bytes:
                check.problems.append(_over("kernels of no family", total, budget.support_bytes))
            continue
        limit = limits.get(family)
        if limit is None:
            check.problems.append(f"{family}: the budget does not mention it")
            continue
        if total > limit.total_bytes:
            check.problems.append(_over(family, total, limit.total_bytes))
        for image, size in images.items():
            if size > (allowed := limit.images.get(image, limit.image_bytes)):
                check.problems.append(_over(f"{family} {image}", size, allowed))


def _over(what: str, size: int, limit: int) -> str:
    return f"{what}: {size:,} bytes; the budget is {limit:,}"
