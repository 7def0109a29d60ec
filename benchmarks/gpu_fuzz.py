"""Random calls of every op on a GPU against plain torch, outputs poisoned, every decision left to the rules.

    python benchmarks/gpu_fuzz.py --calls 20000 --out result.json

Shapes, strides, offsets, types, formats, layouts, scalings, groups and bias are drawn at random, sizes mostly near
multiples of 16 and 64. A call either answers within the limit of every element and writes all of them, or raises before
anything is launched. Each family runs in processes of its own, all at once; what a fault of the device or a crash takes
down is that process; another goes on behind the call that did it. Every call depends on the seed and its number alone:
`--family gemm_fp8 --only 4711` repeats one.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHARDS = {
    "gemm_4bit": 2, "gemm_fp8": 2, "gemm_fp8_grouped": 4, "gemm_nvfp4": 2, "quantize_4bit": 3, "quantize_fp8": 1,
    "quantize_nvfp4": 1,
}  # fmt: skip
"""Families, and in how many processes at once their calls are made."""
FAMILIES = tuple(SHARDS)
BATCH = 250


def make(name: str, seed: int, device: str, weights: int) -> Any:
    """The calls of a family, its operands made."""
    import torch
    from fuzz_gemm_4bit import Gemm4bit, Quantize4bit
    from fuzz_gemm_fp8 import GemmFp8, GemmFp8Grouped, QuantizeFp8
    from fuzz_gemm_nvfp4 import GemmNvfp4, QuantizeNvfp4

    torch.backends.cuda.matmul.allow_tf32 = False
    # The fallback multiplies with torch, which may otherwise add parts of a sum up in 16 bits.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.manual_seed(seed)
    kinds = (Gemm4bit, GemmFp8, GemmFp8Grouped, GemmNvfp4, Quantize4bit, QuantizeFp8, QuantizeNvfp4)
    rng = random.Random(f"{name}/{seed}")
    return dict(zip(FAMILIES, kinds, strict=True))[name](rng, torch.device(device), weights)


def run_calls(family: Any, name: str, seed: int, numbers: range, batch: int, deadline: float) -> dict[str, Any]:
    """Calls by number. One look at the device a batch; each batch is reported, so that a crash can be placed."""
    import torch

    words: collections.Counter[str] = collections.Counter()
    failures: list[dict[str, Any]] = []
    worst, done = 0.0, 0
    for start in range(numbers.start, numbers.stop, batch):
        if time.monotonic() > deadline:
            break
        part = range(start, min(start + batch, numbers.stop))
        outcomes = [family.call(random.Random(f"{name}/{seed}/{number}")) for number in part]
        zero = torch.zeros((), device=family.device)
        ratios = torch.stack([zero if o.ratio is None else o.ratio.to(zero) for o in outcomes]).tolist()
        for number, outcome, ratio in zip(part, outcomes, ratios, strict=True):
            words.update(outcome.words)
            worst = max(worst, ratio) if ratio == ratio else ratio
            if not ratio <= 1.0:
                again = family.call(random.Random(f"{name}/{seed}/{number}")).ratio
                failures.append({
                    "call": number, "ratio": round(ratio, 3), "again": None if again is None else float(again),
                    "route": outcome.words[0], "what": outcome.about,
                })  # fmt: skip
        done += len(part)
        print(json.dumps({"next": part.stop}), flush=True)
    hits = round(family.poison.hits / max(1, family.poison.calls), 4)
    return {
        "family": name, "calls": done, "worst_over_limit": round(worst, 4), "failed": len(failures),
        "failures": failures[:20], "outputs_on_poison": hits, "words": dict(words.most_common()),
    }  # fmt: skip


def child(options: argparse.Namespace, name: str, first: int, last: int, batch: int, seconds: float) -> tuple[Any, ...]:
    """A process that makes calls first to last - 1: its result or None, the number of the next call, what it said."""
    command = [sys.executable, __file__, "--child", name, "--first", str(first), "--calls", str(last), "--out", ""]
    command += ["--seed", str(options.seed), "--batch", str(batch), "--seconds", str(seconds)]
    command += ["--device", options.device, "--weights", str(options.weights)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "2"}
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    after = max([line["next"] for line in lines if "next" in line], default=first)
    result = next((line for line in lines if "family" in line), None)
    return (result if done.returncode == 0 else None), after, f"exit {done.returncode}: {done.stderr[-700:]}"


def run_shard(options: argparse.Namespace, name: str, first: int, last: int) -> list[dict[str, Any]]:
    """Calls first to last - 1 of a family, in as many processes as crashes make necessary."""
    deadline = time.monotonic() + options.seconds
    parts: list[dict[str, Any]] = []
    crashes = 0
    while first < last and crashes < 5 and time.monotonic() < deadline:
        result, after, said = child(options, name, first, last, BATCH, deadline - time.monotonic())
        if result is not None:
            return [*parts, result]
        # The same calls one by one, to know which.
        end = min(after + BATCH, last)
        _, call, again = child(options, name, after, end, 1, 60.0)
        crashes += 1
        crash = {"call": call, "said": again if call < end else said}
        print(f"{name}: call {call} ended its process: {crash['said']}", file=sys.stderr, flush=True)
        parts.append({"calls": after - first, "crash": crash})
        first = min(call + 1, last) if call < end else end
    return parts


def shards(name: str, calls: int, count: int) -> list[tuple[str, int, int]]:
    """Equal parts of the calls of a family."""
    size = -(-calls // count)
    return [(name, first, min(first + size, calls)) for first in range(0, calls, size)]


def merge(name: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the evidence."""
    words: collections.Counter[str] = collections.Counter()
    for part in parts:
        words.update(part.get("words", {}))
    worst = [part["worst_over_limit"] for part in parts if "worst_over_limit" in part]
    failures = [failure for part in parts for failure in part.get("failures", [])]
    poisoned = [part["outputs_on_poison"] for part in parts if "outputs_on_poison" in part]
    return {
        "family": name, "calls": sum(part["calls"] for part in parts), "worst_over_limit": max(worst, default=None),
        "failed": sum(part.get("failed", 0) for part in parts), "failures": failures[:20],
        "crashes": [part["crash"] for part in parts if "crash" in part],
        "outputs_on_poison": round(sum(poisoned) / max(1, len(poisoned)), 3), "words": dict(words.most_common()),
    }  # fmt: skip


def main() -> None:
    """Runs the families side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", action="append", choices=FAMILIES, help="default: all")
    parser.add_argument("--calls", type=int, default=20000, help="a family")
    parser.add_argument("--shards", type=int, help="processes a family; default: by family")
    parser.add_argument("--weights", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no batch after that")
    parser.add_argument("--only", type=int, help="one call alone, by number")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=str, default="")
    parser.add_argument("--child", choices=FAMILIES, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=BATCH, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child or options.only is not None:
        name = options.child or (options.family or ["gemm_4bit"])[0]
        numbers = range(options.first, options.calls)
        if options.only is not None:
            numbers = range(options.only, options.only + 1)
        deadline = time.monotonic() + options.seconds
        family = make(name, options.seed, options.device, options.weights)
        print(json.dumps(run_calls(family, name, options.seed, numbers, options.batch, deadline)), flush=True)
        return
    started = time.monotonic()
    families = options.family or FAMILIES
    jobs = [job for name in families for job in shards(name, options.calls, options.shards or SHARDS[name])]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        parts = list(pool.map(lambda job: run_shard(options, *job), jobs))
    rows = [
        merge(name, [part for job, found in zip(jobs, parts, strict=True) if job[0] == name for part in found])
        for name in families
    ]
    text = as_text(options, rows, time.monotonic() - started)
    print(text, end="")
    if options.out:
        Path(options.out).write_text(text, "utf-8")
    sys.exit(any(row["crashes"] or row["failed"] or row["calls"] < options.calls for row in rows))


def as_text(options: argparse.Namespace, rows: list[dict[str, Any]], seconds: float) -> str:
    """The evidence, a line a family."""
    import torch

    import tilewright

    head = {
        "schema": "gpu_fuzz/2",
        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
        "build": tilewright.build_info().get("spec_digest"),
        "torch": torch.__version__,
        "seed": options.seed,
        "seconds": round(seconds, 1),
    }
    return json.dumps(head)[:-1] + ', "families": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n"


if __name__ == "__main__":
    main()
