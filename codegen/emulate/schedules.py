"""Runs one tile under many schedules."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass, field, replace

from .build import Target, build
from .cases import Case, Problem
from .library import Device, Finding, Library

ERRORS = {
    1: "cudaErrorInvalidValue",
    9: "cudaErrorInvalidConfiguration",
    500: "cudaErrorSymbolNotFound",
    701: "cudaErrorLaunchOutOfResources",
    716: "cudaErrorMisalignedAddress",
    719: "cudaErrorLaunchFailure",
    801: "cudaErrorNotSupported",
}


READS_ANYTHING = {
    ("gemm_4bit", "decode"): ("gemm_4bit/decode_warp.cuh",),  # rows past the last of a stage; their sums are not stored
    ("gemm_4bit", "wgmma"): ("gemm_4bit/wgmma_consumer.cuh",),  # likewise
}
"""Files that read shared memory which nobody wrote, by design: what they read is random and must not matter."""


@dataclass(frozen=True)
class Failure:
    """What one schedule showed."""

    seed: int
    detector: str
    text: str


@dataclass
class Outcome:
    """What all schedules of a problem showed."""

    target: Target
    problem: Problem
    schedules: int = 0
    refused: str | None = None
    failures: list[Failure] = field(default_factory=list)
    worst: float = 0.0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.failures and self.refused is None


def device_for(target: Target, **changes: int) -> Device:
    """An emulated device of the target's arch, small enough that persistent kernels take several tiles."""
    cluster = _cluster(target)
    values = {
        "multiprocessors": 2 * cluster,
        "resident_clusters": 2,
        "occupancy": int(target.fields.get("occupancy", 1)),
        "shared_oversized": 328 * 1024 if target.cc == (10, 7) else 0,
        "shared_optin": 99 * 1024 if target.cc[0] == 12 or target.cc == (8, 9) else 227 * 1024,
        **changes,
    }
    return Device(cc=target.cc, **values)


def _cluster(target: Target) -> int:
    size = int(target.fields.get("cluster", 1))
    for name in ("cluster_n", "cluster_m", "split_k"):
        size *= int(target.fields.get(name, 1))
    return size


def run_schedules(
    target: Target, problem: Problem, schedules: int, seed: int = 0, stop_after: int = 1, device: Device | None = None
) -> Outcome:
    """Launches the problem, in the target's element type, once per schedule; stops after so many failures.

    Raises BuildError.
    """
    problem = replace(problem, dtype=target.dtype)
    device = device or device_for(target)
    library = Library(build(target), device)
    try:
        for file in READS_ANYTHING.get((target.family, target.engine), ()):
            library.allow_uninitialised(file)
        family = importlib.import_module(f".{target.family}", __package__)
        case = family.make_case(library, problem, device.multiprocessors)
        outcome = Outcome(target, problem)
        start = time.perf_counter()
        for number in range(seed, seed + schedules):
            _run_schedule(library, case, number, outcome)
            if outcome.refused or len(outcome.failures) >= stop_after:
                break
        outcome.seconds = time.perf_counter() - start
        return outcome
    finally:
        library.close()


def _run_schedule(library: Library, case: Case, seed: int, outcome: Outcome) -> None:
    case.reset()
    error, findings = library.run(case.arguments, seed)
    outcome.schedules += 1
    if findings:
        outcome.failures.append(_finding(seed, findings))
    elif error:
        outcome.refused = ERRORS.get(error, f"CUDA error {error}")
    else:
        difference = case.compare()
        outcome.worst = max(outcome.worst, difference.worst)
        if difference.worst > 1.0:
            outcome.failures.append(Failure(seed, "result", f"result: {difference}"))


def _finding(seed: int, findings: tuple[Finding, ...]) -> Failure:
    return Failure(seed, findings[0].detector, "\n".join(str(finding) for finding in findings))
