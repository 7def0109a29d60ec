"""What the two README commands share: virtual environments and running commands. Standard library only."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
"""A fixed torch keeps the two commands repeatable; the package itself takes torch 2.10 and later."""


def attempt(command: Sequence[str | Path], *, cwd: Path = ROOT, extra: Mapping[str, str] | None = None) -> int:
    """Runs a command, showing it first; returns its exit status."""
    words = [str(word) for word in command]
    print(f"\n$ {shlex.join(words)}", flush=True)
    return subprocess.run(words, cwd=cwd, env={**os.environ, **(extra or {})}, check=False).returncode


def run(command: Sequence[str | Path], *, cwd: Path = ROOT, extra: Mapping[str, str] | None = None) -> None:
    """Runs a command and ends the script if it fails."""
    if attempt(command, cwd=cwd, extra=extra) != 0:
        sys.exit(1)


def make_environment(folder: Path) -> Path:
    """Makes an empty virtual environment, or takes the one that is there; returns its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", folder])
        run([python, "-m", "pip", "install", "--quiet", "--upgrade", "pip"])
    return python
