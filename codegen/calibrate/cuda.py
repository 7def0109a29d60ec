"""The backend of a real card: tiles by force on the public op, CUDA graphs, events. Needs torch and tilewright."""

from __future__ import annotations

import math
import os
import subprocess
import time

import torch

import tilewright
from tilewright._timing import Lead, calls_of, elapsed

from . import cuda_inputs
from .bench import CaptureError, Check, Mode
from .cuda_inputs import DTYPES, Inputs
from .records import FALLBACK_FORCE, Cell, Device, Method, State

SENTINEL_TRIES = 8
QUERY = "clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu"


class SentinelError(RuntimeError):
    """The output could not be placed on the block that holds the sentinel, so nothing can be said about it."""


def refuse_capture() -> None:
    """Raise CaptureError while the current stream is being captured, or when its capture was invalidated."""
    try:
        capturing = torch.cuda.is_current_stream_capturing()
    except RuntimeError as error:
        raise CaptureError(f"the state of the stream's capture is unknown: {error}") from error
    if capturing:
        raise CaptureError("a CUDA graph is being captured on this stream; calibrate outside of captures")


def _smi(query: str, index: int, kind: str = "gpu") -> list[str]:
    command = ["nvidia-smi", f"--query-{kind}={query}", "--format=csv,noheader,nounits", "-i", _physical(index)]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in found.stdout.splitlines() if line.strip()] if found.returncode == 0 else []


def _physical(index: int) -> str:
    """The card as nvidia-smi knows it: torch counts the visible ones only."""
    visible = [v.strip() for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v.strip()]
    return visible[index] if index < len(visible) else str(index)


def parse_state(line: str, processes: list[str]) -> State:
    """State from one line of nvidia-smi; a value the card does not tell stays None."""
    values: list[float | None] = []
    for text in line.split(","):
        try:
            values.append(float(text))
        except ValueError:
            values.append(None)
    values += [None] * (5 - len(values))
    # Inside a container the numbers of processes are not ours: one of those listed is taken to be this one.
    return State(
        sm_mhz=values[0], memory_mhz=values[1], celsius=values[2], watts=values[3], utilisation=values[4],
        other_processes=max(0, len(processes) - 1),
    )  # fmt: skip


class Watch:
    """The state of a card, asked for at most every five seconds: asking takes longer than timing a cell."""

    SECONDS = 5.0

    def __init__(self, index: int) -> None:
        self.index, self.asked, self.found = index, -math.inf, State()

    def state(self) -> State:
        if time.monotonic() - self.asked > self.SECONDS:
            torch.cuda.synchronize()
            line = _smi(QUERY, self.index)
            self.found = parse_state(line[0] if line else "", _smi("pid", self.index, "compute-apps"))
            self.asked = time.monotonic()
        return self.found


class CudaBackend:
    """One card. Clocks and other settings are read and never changed."""

    def __init__(self, index: int = 0, family: str = "gemm_4bit") -> None:
        if family not in cuda_inputs.FAMILIES:
            known = ", ".join(cuda_inputs.FAMILIES)
            raise RuntimeError(f"cells of {family} cannot be made on a card yet; those of {known} can")
        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no CUDA device")
        refuse_capture()
        info = tilewright.build_info()
        if not info["native"]:
            raise RuntimeError(str(info["statement"]))
        self.index, self.family, self.info, self.watch = index, family, info, Watch(index)
        self.weights: tuple[tuple[object, ...], Inputs] | None = None
        torch.cuda.set_device(index)
        self.lead = Lead(torch.device("cuda", index))

    def device(self) -> Device:
        from tilewright import _ops

        facts = torch.cuda.get_device_properties(self.index)
        arch = _ops.NATIVE.arch_for(facts.major, facts.minor)
        if arch is None:
            raise RuntimeError(f"this build has no kernels for compute capability {facts.major}.{facts.minor}")
        found = _smi("uuid,driver_version", self.index)
        uuid, driver = ([*found[0].split(", "), ""] if found else ["", ""])[:2]
        return Device(
            arch=arch, num_sms=facts.multi_processor_count, product=facts.name, uuid=uuid or None,
            driver=driver or None, cuda=torch.version.cuda, torch=torch.__version__, build=self.info["spec_digest"],
            version=self.info["version"],
        )  # fmt: skip

    def open(self, cell: Cell, method: Method, mode: Mode) -> CudaBench:
        refuse_capture()
        key = cuda_inputs.key(cell)
        if self.weights is None or self.weights[0] != key:
            self.weights = None
            torch.cuda.empty_cache()
            self.weights = key, cuda_inputs.FAMILIES[self.family](cell, method, torch.device("cuda", self.index))
        return CudaBench(self.family, cell, method, mode, self.weights[1], self.watch, self.lead)


class CudaBench:
    """Inputs, fp32 reference and graphs of one cell."""

    def __init__(
        self, family: str, cell: Cell, method: Method, mode: Mode, weights: Inputs, watch: Watch, lead: Lead
    ) -> None:
        self.family, self.cell, self.weights, self.watch, self.lead = family, cell, weights, watch, lead
        self.device = weights.device
        self.dtype = DTYPES[cell.dtype]
        self.replay_us = method.replay_us
        self.x = weights.activations(cell, torch.Generator(self.device).manual_seed(method.seed + cell.M))
        self.reference = weights.reference(self.x)
        self.hot = mode == "hot"
        self.copies = weights.copies[:1] if self.hot else weights.copies
        self.calls = 0
        self.graphs: dict[str, torch.cuda.CUDAGraph] = {}

    def _call(self, number: int) -> torch.Tensor:
        return self.weights.call(self.x, self.copies[number % len(self.copies)])

    def check(self, candidate: str) -> Check:
        """Run once on an output block that was filled with NaN before.

        SentinelError when a kernel of ours cannot be made to write there. The fallback allocates a weight first, which
        may take the block; its last step is a torch operation that writes every element.
        """
        with tilewright.force_tile(candidate, self.family):
            for tries in range(SENTINEL_TRIES):
                # A workspace may take one block, so each try leaves one more.
                blocks = [self._sentinel() for _ in range(1 + tries)]
                places = {block.data_ptr() for block in blocks}
                del blocks
                got = self._call(0)
                if got.data_ptr() in places or candidate == FALLBACK_FORCE:
                    return self._compare(got, candidate)
        raise SentinelError(f"{candidate}: the allocator gave the output another block than the sentinel's")

    def _sentinel(self) -> torch.Tensor:
        return torch.full((self.cell.M, self.cell.N), math.nan, device=self.device, dtype=self.dtype)

    def _compare(self, got: torch.Tensor, candidate: str) -> Check:
        decision = tilewright.last_decision()
        ran = None if decision is None else decision.tile or decision.path
        if ran != candidate:
            raise RuntimeError(f"{candidate} was forced and {ran} ran")
        untouched = int(torch.isnan(got).sum())
        error = (got.float() - self.reference).norm() / self.reference.norm()
        return Check(float(error), untouched)

    def time(self, candidate: str) -> float:
        if candidate not in self.graphs:
            self.graphs[candidate] = self._capture(candidate)
        replay = self.graphs[candidate].replay
        # What leads up to a time is either a replay that warms the cache, or a read that clears it.
        return elapsed(replay if self.hot else self.lead, replay) / self.calls

    def _capture(self, candidate: str) -> torch.cuda.CUDAGraph:
        """A graph of calls; the tile is fixed by the capture."""
        refuse_capture()
        if not self.calls:
            self.calls = calls_of(self._call, self.lead, self.replay_us)
        with tilewright.force_tile(candidate, self.family):
            self._call(0)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for number in range(self.calls):
                    self._call(number)
        return graph

    def state(self) -> State:
        return self.watch.state()

    def close(self) -> None:
        self.graphs.clear()
        torch.cuda.synchronize()
