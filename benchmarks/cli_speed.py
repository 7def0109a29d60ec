"""How fast the command line is on this machine, as JSON. Whole processes are timed, the best of a few runs; on a
machine that is busy with other work, CPU times say more than wall times.

python benchmarks/cli_speed.py [--runs 5] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tilewright_codegen.grid import expand, grid_archs
from tilewright_codegen.tree import load_tree
from tilewright_codegen.vector import Evaluator

ROOT = Path(__file__).resolve().parents[1]
SPECS = ROOT / "specs"
EXAMPLE = SPECS / "examples" / "bitsandbytes-0.50"
TIER = ROOT / "examples" / "add_sm121_tier"
LINES = 100_000


def timed(runs: int, *words: str, stdin: bytes = b"") -> dict[str, float]:
    """Best wall time and CPU time of a command in seconds, and its peak memory in MiB."""
    command = [sys.executable, "-m", "tilewright_codegen", *words]
    walls, cpus = [], []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(command, input=stdin, stdout=subprocess.DEVNULL, check=True, cwd=ROOT)
        walls.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"wall_s": round(min(walls), 3), "cpu_s": round(min(cpus), 3), "peak_mib": peak_mib(command, stdin)}


def peak_mib(command: list[str], stdin: bytes) -> float:
    """Peak resident memory of one run, measured by a parent that has no other child."""
    code = (
        "import resource, subprocess, sys; data = sys.stdin.buffer.read();"
        "subprocess.run(sys.argv[1:], input=data, stdout=subprocess.DEVNULL, check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *command], input=stdin, capture_output=True, check=True, cwd=ROOT
    )
    return round(int(result.stdout) / 1024, 1)


def problem_lines(count: int) -> bytes:
    """JSON lines for `decide`, of many cards, element types and sizes."""
    rng = random.Random(0)
    cards = [("7.5", 40), ("8.0", 108), ("8.9", 128), ("9.0", 132), ("10.0", 148), ("12.1", 48), ("13.0", 100)]
    rows = []
    for _ in range(count):
        cc, sms = rng.choice(cards)
        row: dict[str, Any] = {"cc": cc, "num_sms": sms, "dtype": rng.choice(["f16", "bf16", "f32"])}
        row.update(M=rng.randint(1, 2048), N=64 * rng.randint(1, 500), K=64 * rng.randint(1, 250), blocksize=64)
        rows.append(json.dumps(row))
    return ("\n".join(rows) + "\n").encode()


def stock_tree(folder: Path) -> Path:
    """The example tree without the sm121 tier."""
    import runpy

    return Path(runpy.run_path(str(TIER / "run.py"))["stock_tree"](folder))


def throughput(runs: int) -> dict[str, float]:
    """Decisions a second of the numpy evaluator once the tree is loaded: on a grid, and on shuffled problems."""
    tree = load_tree(EXAMPLE)
    family = tree.families["gemm_4bit"]
    grid = tree.grids["sm121-case"]
    batches = [(Evaluator(family, a.name), expand(family, a, grid).problems(family)) for a in grid_archs(tree, grid)]
    rng = np.random.default_rng(0)
    count = 1 << 20
    flat = {
        "M": rng.integers(1, 2048, count), "N": 64 * rng.integers(1, 500, count), "K": 64 * rng.integers(1, 250, count),
        "num_sms": rng.integers(20, 200, count), "dtype": rng.integers(0, 3, count), "blocksize": np.array(64),
    }  # fmt: skip
    result = {}
    for name, work in (("grid", batches), ("shuffled", [(e, flat) for e, _ in batches[-2:]])):
        size, walls, cpus = 0, [], []
        for _ in range(runs):
            start, start_cpu = time.perf_counter(), time.process_time()
            size = sum(evaluator.decide(problems)["path"].codes.size for evaluator, problems in work)
            walls.append(time.perf_counter() - start)
            cpus.append(time.process_time() - start_cpu)
        result[f"{name}_decisions_per_s"] = round(size / min(walls))
        result[f"{name}_decisions_per_cpu_s"] = round(size / min(cpus))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs of each command; the best counts")
    parser.add_argument("--out", type=Path, help="also write the JSON here")
    arguments = parser.parse_args()
    runs = arguments.runs
    with TemporaryDirectory() as temporary:
        stock = str(stock_tree(Path(temporary)))
        lines = problem_lines(LINES)
        document = {
            "machine": {
                "cpus": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version(),
                "load_before": round(os.getloadavg()[0], 2),
            },
            "runs": runs,
            "commands": {
                "--help": timed(runs, "--help"),
                "validate": timed(runs, "validate", "--specs", str(SPECS)),
                "diff, 60,720 decisions": timed(runs, "diff", stock, "--specs", str(EXAMPLE), "--grid", "sm121-case"),
                "explain": timed(runs, "explain", "64", "4096", "4096", "--arch", "sm121", "--specs", str(SPECS)),
                "decide, 100,000 lines": timed(runs, "decide", "gemm_4bit", "--specs", str(EXAMPLE), stdin=lines),
            },
            "vector": throughput(runs),
        }  # fmt: skip
    text = json.dumps(document, indent=2)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
