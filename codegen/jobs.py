"""How many compilers may run at once: bounded by memory, not only by processors.

`python -m codegen.jobs TARGETS` prints the number for this machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
BASE_BYTES = GIB // 2
"""Host compiler and front end of one nvcc process."""
TARGET_BYTES = GIB // 2
"""One ptxas on the largest kernel instantiations, with margin; nvcc runs one at a time unless it has threads."""
USABLE = 0.85
"""Part of the memory that compilers may plan with; the rest is for the linker and everybody else."""


@dataclass(frozen=True)
class Host:
    """What the planner knows of a machine. `cgroup_bytes` is None without a limit."""

    cpus: int
    memory_bytes: int
    cgroup_bytes: int | None = None

    @property
    def usable_bytes(self) -> int:
        limit = self.memory_bytes if self.cgroup_bytes is None else min(self.memory_bytes, self.cgroup_bytes)
        return int(limit * USABLE)


def plan_jobs(host: Host, targets: int, environment: Mapping[str, str]) -> int:
    """Jobs such that jobs x budget fits the usable memory, at least 1 and at most one a processor.

    MAX_JOBS wins over everything. NVCC_THREADS compilers of one file run at once, so each adds its budget.
    ValueError for a value of either that is not a positive number.
    """
    threads = _positive(environment, "NVCC_THREADS") or 1
    chosen = _positive(environment, "MAX_JOBS")
    if chosen is not None:
        return chosen
    budget = BASE_BYTES + TARGET_BYTES * min(threads, max(targets, 1))
    return max(1, min(host.cpus // threads, host.usable_bytes // budget))


def this_host() -> Host:
    """The machine, or the part of it that the control group leaves."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Host(cpus, memory, _cgroup_limit())


def _positive(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name}='{text}'; expected a positive number")
    return int(text)


def _cgroup_limit() -> int | None:
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            return int(text)
    return None


def main() -> None:
    """Prints the number of jobs for the number of targets in the first argument."""
    try:
        print(plan_jobs(this_host(), int(sys.argv[1]) if len(sys.argv) > 1 else 1, os.environ))
    except ValueError as error:
        sys.exit(f"error: {error}.")


if __name__ == "__main__":
    main()
