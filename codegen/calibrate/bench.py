"""One pass over one cell, on any backend: check, warm up, then time every candidate in one interleaved loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, Protocol

from .records import Cell, Device, Method, Pass, State, Times, usable

Mode = Literal["rotated", "hot"]
Stage = Literal["screen", "recheck"]


class CaptureError(RuntimeError):
    """Measuring was asked for while a CUDA graph is being captured."""


@dataclass(frozen=True)
class Check:
    """A candidate's result against the fp32 reference. `untouched` counts elements still holding the sentinel."""

    nrmse: float
    untouched: int


class Bench(Protocol):
    """One cell made ready on a device: inputs, reference, one graph a candidate."""

    def check(self, candidate: str) -> Check: ...

    def time(self, candidate: str) -> float:
        """Microseconds of one call."""

    def state(self) -> State: ...

    def close(self) -> None: ...


class Backend(Protocol):
    """Where candidates run."""

    def device(self) -> Device: ...

    def open(self, cell: Cell, method: Method, mode: Mode) -> Bench: ...


def fault(found: Check, limit: float) -> str | None:
    """Why a candidate must not be timed; None when it may."""
    if found.untouched:
        return f"{found.untouched} elements of the output were not written"
    if not found.nrmse <= limit:
        return f"NRMSE {found.nrmse:.3g} against fp32, {limit:g} is allowed"
    return None


def run_pass(
    backend: Backend,
    cell: Cell,
    incumbent: str,
    challengers: Sequence[str],
    method: Method,
    *,
    stage: Stage,
    index: int,
    mode: Mode = "rotated",
) -> Pass:
    """Measure one cell once. Candidates that give wrong results are named and never timed."""
    bench = backend.open(cell, method, mode)
    try:
        before = bench.state()
        names = list(dict.fromkeys([incumbent, *challengers]))
        rejected, errors = _gate(bench, names, method)
        timed = [n for n in names if n not in rejected]
        rounds = _rounds(bench, timed, incumbent, method, index) if incumbent in timed else {}
        rejected |= _implausible(rounds)
        late, _ = _gate(bench, [n for n in timed if n not in rejected], method)
        rejected |= {n: f"after timing: {reason}" for n, reason in late.items()}
        after = bench.state()
    finally:
        bench.close()
    valid = {n: t for n, t in rounds.items() if n.removesuffix(ECHO) not in rejected}
    base = valid.get(incumbent)
    ratios = {n: _ratio(base, t) for n, t in valid.items() if n != incumbent and not n.endswith(ECHO)} if base else {}
    echo = valid.get(incumbent + ECHO)
    return Pass(
        stage=stage,
        index=index,
        mode=mode,
        cell=cell,
        incumbent=incumbent,
        ratios=ratios,
        null=_ratio(base, echo) if base and echo else None,
        times={n: _times(t) for n, t in valid.items() if not n.endswith(ECHO)},
        rejected=rejected,
        nrmse=errors,
        before=before,
        after=after,
    )


ECHO = " (again)"
"""Marks the second series of the incumbent, which tells how far apart equals are."""


def _gate(bench: Bench, names: Sequence[str], method: Method) -> tuple[dict[str, str], dict[str, float]]:
    rejected, errors = {}, {}
    for name in names:
        try:
            found = bench.check(name)
        except CaptureError:
            raise
        except (RuntimeError, ValueError) as error:
            if "CUDA error" in str(error):
                raise
            rejected[name] = " ".join(str(error).split())[:300]
            continue
        reason = fault(found, method.nrmse_limit)
        if reason is not None:
            rejected[name] = reason
        elif usable(found.nrmse) or found.nrmse == 0:
            errors[name] = round(found.nrmse, 6)
    return rejected, errors


def _rounds(bench: Bench, names: list[str], incumbent: str, method: Method, index: int) -> dict[str, list[float]]:
    """Times by candidate and round. The incumbent opens and closes a round; odd passes and rounds run backwards."""
    order = [n for n in names if n == incumbent] + [n for n in names if n != incumbent] + [incumbent + ECHO]
    series: dict[str, list[float]] = {n: [] for n in order}
    for number in range(method.warmup + method.rounds):
        for name in reversed(order) if (number + index) % 2 else order:
            taken = bench.time(name.removesuffix(ECHO))
            if number >= method.warmup:
                series[name].append(taken)
    return series


def _implausible(series: dict[str, list[float]]) -> dict[str, str]:
    found = {}
    for name, times in series.items():
        wrong = sum(not usable(t) for t in times)
        if wrong:
            found[name.removesuffix(ECHO)] = f"{wrong} of {len(times)} times are zero, negative or not a number"
    return found


def _ratio(base: Sequence[float], other: Sequence[float]) -> float:
    """Median of the rounds' ratios: neighbours in time share the clock, whatever it does between rounds."""
    return round(median(b / o for b, o in zip(base, other, strict=True)), 6)


def _times(series: Sequence[float]) -> Times:
    return Times(median=round(median(series), 4), min=round(min(series), 4), max=round(max(series), 4))
