"""Checks of how the library links: machine, exports, needed libraries, glibc floor."""

from __future__ import annotations

import re

from .archive import Archive, WheelName
from .elf import Library
from .findings import Check

EXPORT_PREFIX = "tilewright_"
NEEDED = {
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
}
"""Libraries of glibc. libcuda is opened at run time; libcudart is linked in."""
LEGACY_TAGS = {"manylinux2014": (2, 17), "manylinux2010": (2, 12), "manylinux1": (2, 5)}
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")
_LEGACY = re.compile(r"(manylinux(?:1|2010|2014))_(\w+)")
_GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)")


def check_exports(library: Library, check: Check) -> None:
    """Nothing is exported but our C interface."""
    ours = [name for name in library.exports if name.startswith(EXPORT_PREFIX)]
    for name in library.exports:
        if not name.startswith(EXPORT_PREFIX):
            check.problems.append(f"exports {name}; only {EXPORT_PREFIX}* is ours")
    if f"{EXPORT_PREFIX}register_torch" not in ours:
        check.problems.append(f"does not export {EXPORT_PREFIX}register_torch")
    check.facts["symbols"] = len(ours)


def check_needed(library: Library, check: Check) -> None:
    """Only libraries of glibc are needed, and no search path leads elsewhere."""
    for name in library.needed:
        if name not in NEEDED:
            check.problems.append(f"needs {name}, which is no part of glibc")
    for path in library.search_paths:
        check.problems.append(f"has the search path {path}")
    for file, version in library.versions:
        if not version.startswith("GLIBC_"):
            check.problems.append(f"needs {version} of {file}")
    check.facts["libraries"] = list(library.needed)


def platform_floor(name: WheelName) -> tuple[tuple[int, int], set[str]] | None:
    """The lowest glibc that the platform tags promise, and the machines they name; None unless all are manylinux."""
    floors, machines = [], set()
    for platform in name.platform.split("."):
        if match := _MANYLINUX.fullmatch(platform):
            floors.append((int(match[1]), int(match[2])))
            machines.add(match[3])
        elif match := _LEGACY.fullmatch(platform):
            floors.append(LEGACY_TAGS[match[1]])
            machines.add(match[2])
        else:
            return None
    return min(floors), machines


def check_floor(archive: Archive, library: Library, check: Check) -> None:
    """The machine is the tag's, and every glibc version needed is within the tag's promise."""
    needed = max(
        ((int(m[1]), int(m[2])) for _, version in library.versions if (m := _GLIBC.fullmatch(version))), default=(0, 0)
    )
    check.facts["glibc"] = f"{needed[0]}.{needed[1]}"
    check.facts["machine"] = library.machine
    promised = platform_floor(archive.name)
    if promised is None:
        check.problems.append(f"platform tag {archive.name.platform} promises no glibc; auditwheel repair has not run")
        return
    floor, machines = promised
    if needed > floor:
        found = [f"{v} of {f}" for f, v in library.versions if (m := _GLIBC.fullmatch(v)) and _pair(m) > floor]
        shown = ", ".join(sorted(set(found)))
        check.problems.append(f"the tag promises glibc {floor[0]}.{floor[1]}, but the library needs {shown}")
    if machines != {library.machine}:
        check.problems.append(f"the tag is for {', '.join(sorted(machines))}, the library for {library.machine}")


def _pair(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2])
