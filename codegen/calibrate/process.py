"""Fresh processes that measure. While one of them measures, the next one imports what it needs and waits."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any


@dataclass
class Worker:
    """A process that waits for one job on stdin, and what it says on stderr."""

    process: subprocess.Popen[str]
    errors: IO[str]

    def lines(self, job: dict[str, Any]) -> Iterator[str]:
        """Hand over the job and yield the answers; the process is gone afterwards."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            try:
                self.process.stdin.write(json.dumps(job))
                self.process.stdin.close()
            except BrokenPipeError:
                pass  # it died before it read: no answers, and stderr says why
            yield from self.process.stdout
        finally:
            self.end()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()

    def complaint(self) -> str:
        """The end of stderr."""
        self.errors.seek(0)
        return self.errors.read().strip()[-400:]


def start(kind: str) -> Worker:
    """A process that imports the backend of that kind, touches no card, and waits."""
    package = str(__package__)
    root = Path(__file__).resolve().parents[package.count(".") + 1]
    path = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (read after the process)
    process = subprocess.Popen(
        [sys.executable, "-m", f"{package}.worker", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        text=True, env=environment,
    )  # fmt: skip
    return Worker(process, errors)


_waiting: dict[str, Worker] = {}


def take(kind: str) -> Worker:
    """A process that has run nothing. For a card the next one is started as well: its imports take seconds."""
    worker = _waiting.pop(kind, None)
    if worker is None or worker.process.poll() is not None:
        worker = start(kind)
    if kind == "cuda":
        _waiting[kind] = start(kind)
    return worker


@atexit.register
def _dismiss() -> None:
    for worker in _waiting.values():
        worker.end()
    _waiting.clear()
