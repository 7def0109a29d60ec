"""A fresh process of a campaign: one job on stdin, one line of JSON a cell on stdout.

Started by `measure`; nothing else is printed to stdout. A cell that cannot be measured gives a line with `error`.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from .bench import Backend, run_pass
from .records import Cell, Method


def make_backend(spec: dict[str, Any], index: int, stage: str) -> Backend:
    """The backend a job names: `synthetic` with its world, or `cuda` with the number of a card."""
    if spec["kind"] == "synthetic":
        from .synthetic import Synthetic, World

        return Synthetic(World.model_validate(spec["world"]), index, stage)
    from .cuda import CudaBackend

    return CudaBackend(int(spec.get("device", 0)), str(spec.get("family", "gemm_4bit")))


def run_job(job: dict[str, Any], out: TextIO) -> None:
    """Answer every item of the job, in order; the device comes first."""
    backend = make_backend(job["backend"], job["index"], job["stage"])
    _write(out, {"device": backend.device().model_dump()})
    method = Method.model_validate(job["method"])
    for item in job["items"]:
        cell = Cell.model_validate(item["cell"])
        try:
            found = run_pass(
                backend, cell, item["incumbent"], item["challengers"], method,
                stage=job["stage"], index=job["index"], mode=job["mode"],
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:
            text = " ".join(str(error).split())[:400]
            _write(out, {"error": text or type(error).__name__, "cell": cell.key()})
            if "CUDA error" in text or "illegal" in text:
                sys.exit(3)
            continue
        _write(out, {"pass": found.model_dump()})


def _write(out: TextIO, value: dict[str, Any]) -> None:
    out.write(json.dumps(value, allow_nan=False) + "\n")
    out.flush()


if __name__ == "__main__":
    answers = sys.stdout
    sys.stdout = sys.stderr
    try:
        if sys.argv[1:] == ["cuda"]:
            # Before the job comes: importing torch takes seconds. No card is touched until the backend is made.
            from . import cuda as cuda
        run_job(json.load(sys.stdin), answers)
    except (ImportError, RuntimeError) as failure:
        _write(answers, {"failure": str(failure)})
        sys.exit(2)
