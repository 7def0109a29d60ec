"""The job planner on machines that have killed builds, and the report of a killed compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright_codegen.jobs import BASE_BYTES, GIB, TARGET_BYTES, Host, plan_jobs, this_host

GUARD = Path(__file__).resolve().parents[2] / "cmake" / "run_compiler.py"
HOSTS = [
    Host(96, 880 * GIB),
    Host(16, 61 * GIB),
    Host(64, 16 * GIB),
    Host(128, 512 * GIB, cgroup_bytes=8 * GIB),
    Host(2, GIB // 4),
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("targets", [1, 11])
@pytest.mark.parametrize("threads", ["", "4"])
def test_jobs_fit_the_memory(host: Host, targets: int, threads: str) -> None:
    jobs = plan_jobs(host, targets, {"NVCC_THREADS": threads})
    count = int(threads or 1)
    budget = BASE_BYTES + TARGET_BYTES * min(count, targets)
    limit = 0.85 * min(host.memory_bytes, host.cgroup_bytes or host.memory_bytes)
    assert 1 <= jobs <= max(1, host.cpus // count)
    assert jobs == 1 or jobs * budget <= limit
    # One more would not fit: the planner does not waste the machine either.
    assert (jobs + 1) * budget > limit or jobs + 1 > host.cpus // count


def test_max_jobs_wins() -> None:
    assert plan_jobs(Host(2, GIB), 11, {"MAX_JOBS": "3", "NVCC_THREADS": "4"}) == 3


@pytest.mark.parametrize("name", ["MAX_JOBS", "NVCC_THREADS"])
@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_wrong_numbers(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}='{value}'; expected a positive number"):
        plan_jobs(Host(2, GIB), 1, {name: value})


def test_this_host() -> None:
    host = this_host()
    assert host.cpus >= 1
    assert host.usable_bytes > 0


def run_guard(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(GUARD), sys.executable, "-c", code, "kernel.cu"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_killed_compiler_is_explained() -> None:
    for code in (
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys; print('nvcc error : cicc died due to signal 9', file=sys.stderr); sys.exit(1)",
    ):
        done = run_guard(code)
        assert done.returncode != 0
        assert "killed on kernel.cu: most likely the machine ran out of memory" in done.stderr
        assert "MAX_JOBS=1" in done.stderr


def test_ordinary_errors_and_success_pass_through() -> None:
    failed = run_guard("import sys; print('error: expected a ;', file=sys.stderr); sys.exit(2)")
    assert (failed.returncode, failed.stderr.strip()) == (2, "error: expected a ;")
    assert run_guard("print('fine')").stdout.strip() == "fine"
