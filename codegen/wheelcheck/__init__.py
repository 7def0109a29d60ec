"""Is what was asked for what is in the wheel? Every check of a built wheel, against the specs inside it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..ir import SpecTree
from .archive import Archive
from .cuobjdump import find_cuobjdump, read_blocks
from .elf import ElfError, Library
from .expected import Expected, declared_images, plan, read_specs, tokens, wanted_archs
from .fatbin import FatbinError, read_entries
from .findings import Check, NotCheckedError, Report, WheelError
from .linkage import check_exports, check_floor, check_needed
from .machine_code import (
    DeviceCode,
    check_budget,
    check_images,
    check_instructions,
    check_kernels,
    weigh,
)
from .packaging import LIBRARY, check_licences, check_members, check_metadata, check_record

__all__ = ["Options", "Report", "WheelError", "check_wheel"]


@dataclass(frozen=True)
class Options:
    """What to check against. `archs` is an arch list that the wheel must be for, if not the one it names itself."""

    archs: str | None = None
    cuobjdump: Path | None = None
    instructions: Literal["sample", "all", "none"] = "sample"


def check_wheel(path: Path, options: Options = Options()) -> Report:
    """Run every check. WheelError when the file is no wheel that can be read; differences are in the report."""
    archive = Archive(path)
    report = Report(path.name)
    with report.check("members") as check:
        check_members(archive, check)
    with report.check("record") as check:
        check_record(archive, check)
    with report.check("metadata") as check:
        check_metadata(archive, check)
    with report.check("licences") as check:
        check_licences(archive, check)
    with tempfile.TemporaryDirectory(prefix="tilewright-wheel-") as folder:
        tree = read_specs(archive, Path(folder))
        with report.check("library") as check:
            library = _library(archive, check)
        if library is not None:
            _check_linkage(archive, library, report)
            _check_code(_Subject(archive, library, tree, Path(folder), options), report)
    return report


def _library(archive: Archive, check: Check) -> Library | None:
    if LIBRARY not in archive.members:
        check.problems.append(f"there is no {LIBRARY}")
        return None
    try:
        library = Library(archive.read(LIBRARY))
    except ElfError as error:
        check.problems.append(f"{LIBRARY} {error}")
        return None
    check.facts["bytes"] = len(library.data)
    return library


def _check_linkage(archive: Archive, library: Library, report: Report) -> None:
    with report.check("exports") as check:
        check_exports(library, check)
    with report.check("needed") as check:
        check_needed(library, check)
    with report.check("platform") as check:
        check_floor(archive, library, check)


@dataclass(frozen=True)
class _Subject:
    archive: Archive
    library: Library
    tree: SpecTree
    folder: Path
    options: Options


def _check_code(subject: _Subject, report: Report) -> None:
    expected = _expected(subject, report)
    with report.check("specs") as check:
        _check_digest(subject, check)
    with report.check("images") as check:
        try:
            entries = read_entries(subject.library.contents(".nv_fatbin"))
        except FatbinError as error:
            check.problems.append(str(error))
            return
        check_images(DeviceCode(entries, None), expected, check)
    tool, missing = _tool(subject.options)
    file = subject.folder / "library.so"
    file.write_bytes(subject.library.data)
    code = DeviceCode(entries, None)
    with report.check("kernels") as check:
        if tool is None:
            raise NotCheckedError(missing)
        code = DeviceCode(entries, read_blocks(tool, file))
        check_kernels(code, expected, check)
    with report.check("instructions") as check:
        if tool is None or subject.options.instructions == "none":
            raise NotCheckedError(missing or "left out on request")
        check_instructions(code, expected, tool, file, subject.options.instructions == "all", check)
    with report.check("budget") as check:
        _check_budget(subject, code, check)


def _tool(options: Options) -> tuple[Path | None, str]:
    try:
        return find_cuobjdump(options.cuobjdump), ""
    except NotCheckedError as reason:
        return None, str(reason)


def _expected(subject: _Subject, report: Report) -> Expected:
    """The plan of the specs for the images the wheel declares, after comparing the two lists."""
    with report.check("declared images") as check:
        declared = declared_images(subject.archive)
        images = list(dict.fromkeys(image for held in declared.values() for image in held))
        expected = plan(subject.archive, subject.tree, tokens(images))
        wanted = wanted_archs(subject.archive, subject.tree, subject.options.archs)
        if wanted is not None:
            asked = plan(subject.archive, subject.tree, wanted)
            for image in sorted(set(asked.images) - set(expected.images)):
                check.problems.append(f"'{wanted}' asks for {image}; the wheel was not built for it")
            for image in sorted(set(expected.images) - set(asked.images)):
                check.problems.append(f"'{wanted}' does not ask for {image}; the wheel was built for it")
        check.facts["asked"] = wanted or "what the wheel declares"
    return expected


def _check_digest(subject: _Subject, check: Check) -> None:
    """The library was generated from the very specs that lie beside it."""
    from ..render import specs_digest

    digest = specs_digest(subject.tree.root)
    if digest.encode() not in subject.library.data:
        check.problems.append("the library was generated from other specs than the wheel holds")
    check.facts["digest"] = digest[:12]


def _check_budget(subject: _Subject, code: DeviceCode, check: Check) -> None:
    sizes = weigh(code)
    check.facts["bytes"] = sizes
    if subject.tree.budget is None:
        raise NotCheckedError("the specs have no budget")
    check_budget(sizes, subject.archive.path.stat().st_size, subject.tree.budget, check)
