"""Runs a compiler and explains its death: `python run_compiler.py nvcc ...`."""

from __future__ import annotations

import signal
import subprocess
import sys

KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


def explain(status: int, output: str, command: list[str]) -> str | None:
    """The sentence to add, or None when the compiler failed by itself. nvcc reports a killed child as text."""
    if status not in KILLED and "Killed" not in output and "died due to signal 9" not in output:
        return None
    sources = [word for word in command if word.endswith((".cu", ".cpp"))]
    return (
        f"error: the compiler was killed on {', '.join(sources) or 'a file'}: "
        "most likely the machine ran out of memory. Build again with fewer jobs: MAX_JOBS=1."
    )


def main() -> int:
    """Passes everything through and returns the compiler's exit status."""
    command = sys.argv[1:]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    sys.stderr.write(done.stderr)
    if done.returncode == 0:
        return 0
    sentence = explain(done.returncode, done.stderr, command)
    if sentence:
        print(sentence, file=sys.stderr)
    return done.returncode if done.returncode > 0 else 128 - done.returncode


if __name__ == "__main__":
    sys.exit(main())
