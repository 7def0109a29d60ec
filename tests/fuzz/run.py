"""Fuzzes the reader of spec files and the parser of rules.

    python tests/fuzz/run.py --count 1000000 --jobs 4 --out evidence/fuzz-codegen.json

Inputs are mutants of tests/fuzz/corpus and of the specs, or, with --engine atheris, what coverage leads to (pip install
atheris). An input that raises, or takes more than five seconds, is written beside the corpus as fault-TARGET-NUMBER,
and the exit status is 1.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORPUS = HERE / "corpus"
SECONDS = 5
sys.path.insert(0, str(HERE))

from mutate import mutant  # noqa: E402
from targets import TARGETS  # noqa: E402


def corpus(target: str) -> list[bytes]:
    """The inputs that are kept, and the specs cut to what a mutant may be long."""
    kept = [p.read_bytes() for p in sorted((CORPUS / target).iterdir())]
    if target == "rules":
        return kept
    shipped = [p for p in sorted((ROOT / "specs").rglob("*.yaml")) if "examples" not in p.parts]
    return kept + [part for p in shipped for part in _documents(p.read_bytes())]


def _documents(data: bytes) -> list[bytes]:
    return [part[:6000] for part in data.split(b"\n---\n") if part.strip()]


class HangError(Exception):
    """An input took longer than `SECONDS`."""


def _hang(*_: object) -> None:
    raise HangError(f"no answer in {SECONDS} seconds")


def slice_of(job: tuple[str, int, int]) -> tuple[collections.Counter[str], list[tuple[int, str]], float]:
    """Outcomes, faults by number, and the longest time of one input, for mutants `first` to `last` of a target."""
    target, first, last = job
    kept, run = corpus(target), TARGETS[target]
    signal.signal(signal.SIGALRM, _hang)
    found: collections.Counter[str] = collections.Counter()
    faults, longest = [], 0.0
    for number in range(first, last):
        data = mutant(target, kept, number)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        started = time.perf_counter()
        try:
            found[run(data)] += 1
        except Exception:  # any exception of any kind is what is looked for
            faults.append((number, traceback.format_exc(limit=-3)))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        longest = max(longest, time.perf_counter() - started)
    return found, faults, longest


def fuzz(targets: Sequence[str], count: int, jobs: int, first: int = 0) -> dict[str, Any]:
    """`count` inputs of each target, spread over processes."""
    step = max(1, min(5000, count // max(1, jobs)))
    work = [(t, n, min(n + step, first + count)) for t in targets for n in range(first, first + count, step)]
    result: dict[str, Any] = {t: {"inputs": 0, "outcomes": collections.Counter(), "faults": {}} for t in targets}
    longest = 0.0
    pool = multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else None
    try:
        for (target, begin, end), (found, faults, slowest) in zip(
            work, pool.imap(slice_of, work) if pool else map(slice_of, work), strict=True
        ):
            result[target]["inputs"] += end - begin
            result[target]["outcomes"] += found
            result[target]["faults"] |= dict(faults)
            longest = max(longest, slowest)
    finally:
        if pool:
            pool.terminate()
    return {"targets": result, "longest_s": round(longest, 3)}


def _atheris(target: str, count: int, extra: Sequence[str]) -> int:
    """A process that fuzzes by coverage; libFuzzer ends it at the first fault, and names the input."""
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); sys.setrecursionlimit(3000)\n"
        "import atheris\n"
        "with atheris.instrument_imports(include=['tilewright_codegen', 'targets']):\n"
        "    from targets import TARGETS\n"
        "def run(data):\n"
        f"    TARGETS[{target!r}](data)\n"
        "atheris.Setup(sys.argv, run); atheris.Fuzz()\n"
    )
    command = [sys.executable, "-c", code, f"-runs={count}", f"-timeout={SECONDS}", "-max_len=6000", *extra]
    return subprocess.run(command, check=False).returncode


def main() -> None:
    """Runs one engine over the chosen targets and writes what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="inputs a target")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS))
    parser.add_argument("--engine", choices=["mutants", "atheris"], default="mutants")
    parser.add_argument("--grow", type=Path, help="atheris: folder of the growing corpus")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    targets = options.target or sorted(TARGETS)
    if options.engine == "atheris":
        folders = [str(options.grow)] if options.grow else []
        sys.exit(max(_atheris(t, options.count, [*folders, str(CORPUS / t)]) for t in targets))
    started = time.monotonic()
    result = fuzz(targets, options.count, options.jobs, options.first)
    failed = 0
    for target, found in result["targets"].items():
        for number, text in found["faults"].items():
            (CORPUS / f"fault-{target}-{number}").write_bytes(mutant(target, corpus(target), number))
            print(f"{target} {number}:\n{text}", file=sys.stderr)
        failed += len(found["faults"])
        found["faults"] = len(found["faults"])
        found["outcomes"] = dict(found["outcomes"].most_common())
    head = {"schema": "fuzz_codegen/1", "python": platform.python_version(), "jobs": options.jobs}
    text = json.dumps(head | result | {"seconds": round(time.monotonic() - started)}, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", "utf-8")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
