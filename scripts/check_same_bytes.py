"""Builds one commit twice, at other paths, in other time zones and locales, and compares the wheels byte by byte.

    python3 scripts/check_same_bytes.py [--archs 80]

Exit status 1, naming the members that differ, when the wheels are not the same.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

from build_wheel_local import WORK, make_tools
from environment import ROOT, run
from wheel_tools import build_environment, fresh, one_wheel, path_with, write_linker

SURROUNDINGS = (
    ("first", {"TZ": "UTC", "LC_ALL": "C.UTF-8"}),
    ("second time", {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
)
"""Folder (one has a blank in its name) and variables of each build."""


def build(folder: Path, python: Path, commit: str, settings: dict[str, str]) -> Path:
    """The repaired wheel of a commit in `folder`, from nothing and without a compiler cache."""
    fresh(folder)
    run(["git", "clone", "--quiet", "--no-checkout", ROOT, folder / "source"])
    run(["git", "-C", folder / "source", "checkout", "--quiet", commit])
    flags = ["--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", folder / "raw"]
    run([python, "-m", "build", *flags, folder / "source"], extra=settings)
    repair = [python, "-m", "auditwheel", "repair", "--plat", "auto", "-w", folder / "dist"]
    run([*repair, one_wheel(folder / "raw")], extra=settings)
    return one_wheel(folder / "dist")


def differences(first: Path, second: Path) -> list[str]:
    """Members that one wheel lacks or that differ."""
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as other:
        names = sorted({*one.namelist(), *other.namelist()})
        shared = {*one.namelist()} & {*other.namelist()}
        return [name for name in names if name not in shared or one.read(name) != other.read(name)]


def main() -> None:
    """Build, build again, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--archs", default="80", help="arch list or variant to build")
    options = parser.parse_args()
    python = make_tools(WORK / "tools")
    work = ROOT / "build" / "same-bytes"
    # Once for both, in case somebody commits meanwhile.
    head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    linker = write_linker(WORK / "bin", python, platform.machine())
    settings = build_environment(linker, options.archs, None, {"PATH": path_with(python)})
    wheels = [build(work / name, python, commit, {**settings, **more}) for name, more in SURROUNDINGS]
    digests = [hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels]
    if digests[0] != digests[1]:
        found = differences(*wheels)
        named = ", ".join(found[:10]) + (f" and {len(found) - 10} more" if len(found) > 10 else "")
        sys.exit(f"error: two builds of one commit differ in {named or 'the order or dates of members'}.")
    print(f"\n{wheels[0].name}: {wheels[0].stat().st_size:,} bytes, sha256 {digests[0]}, twice")


if __name__ == "__main__":
    main()
