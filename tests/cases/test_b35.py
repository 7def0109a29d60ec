"""B35: as many compilers as memory has room for, without a margin: the machine reboots, or the compiler is killed."""

from __future__ import annotations

import pytest

from tilewright_codegen.jobs import BASE_BYTES, GIB, TARGET_BYTES, Host, plan_jobs

HOSTS = {
    "880 GB, 96 processors": Host(96, 880 * GIB),
    "61 GB, 16 processors": Host(16, 61 * GIB),
    "16 GB, 64 processors": Host(64, 16 * GIB),
    "512 GB under a limit of 8 GB": Host(64, 512 * GIB, cgroup_bytes=8 * GIB),
}


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("targets", [1, 11])
def test_what_runs_at_once_fits_with_a_margin(name: str, threads: int, targets: int) -> None:
    host = HOSTS[name]
    jobs = plan_jobs(host, targets, {"NVCC_THREADS": str(threads)})
    memory = min(host.memory_bytes, host.cgroup_bytes or host.memory_bytes)
    budget = BASE_BYTES + TARGET_BYTES * min(threads, targets)
    assert jobs >= 1
    assert jobs == 1 or jobs * budget <= 0.85 * memory
    assert jobs * threads <= max(host.cpus, threads)


def test_the_word_of_the_user_counts() -> None:
    assert plan_jobs(HOSTS["61 GB, 16 processors"], 11, {"MAX_JOBS": "3"}) == 3
    assert plan_jobs(HOSTS["16 GB, 64 processors"], 1, {"MAX_JOBS": "64"}) == 64
