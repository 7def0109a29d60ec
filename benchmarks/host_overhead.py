"""Host cost of one gemm_4bit call from Python, next to the cheapest op with the same signature.

Measures, in microseconds a call, with nothing waiting on the device but the launch itself:

    noop          torch.ops.tilewright._noop_gemm_4bit: reads the same arguments, allocates the same output, no launch
    op            torch.ops.tilewright.gemm_4bit: checks, decision, output, launch
    api           tilewright.gemm_4bit
    module        tilewright.Linear4bit, which looks whether its weight was written to
    told          the same layer, told that its weight is static
    linear        torch.nn.functional.linear in the same dtype
    empty         torch.empty, the allocation alone
    bitsandbytes  its op on the same packed weight, where it is installed

and the selection alone, in C++, by asking the library for many decisions:

    python benchmarks/host_overhead.py [--json OUT]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import tilewright
from tilewright import _ops

CALLS = 200
"""Calls between two synchronisations: few enough that the launch queue never fills and makes the host wait."""


def measure(call: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Microseconds a call: the best and the median round."""
    cuda = torch.cuda.is_available()
    for _ in range(20):
        call()
    found = []
    for _ in range(rounds):
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter_ns() - start) / CALLS / 1000)
    return {"best": min(found), "median": statistics.median(found)}


def measure_selection() -> float | None:
    """Nanoseconds of one decision of the generated selector."""
    native = _ops.NATIVE
    if not native.loaded:
        return None
    repeats = 1_000_000
    start = time.perf_counter_ns()
    native.library.tilewright_select_many(repeats)
    return (time.perf_counter_ns() - start) / repeats


def cases(M: int, N: int, K: int, dtype: torch.dtype, device: torch.device) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    weight = torch.randn(N, K, device=device, dtype=dtype)
    packed, state = tilewright.quantize_4bit(weight)
    layer, told = (tilewright.Linear4bit(packed, state).eval() for _ in range(2))
    told.static_weights = True
    x = torch.randn(M, K, device=device, dtype=dtype)
    arguments = (x, packed, state.absmax, N, K, state.blocksize, state.quant_code)
    noop = torch.ops.tilewright._noop_gemm_4bit.default
    op = torch.ops.tilewright.gemm_4bit.default
    found = {
        "noop": lambda: noop(*arguments, static_weights=True),
        "op": lambda: op(*arguments, static_weights=True),
        "api": lambda: tilewright.gemm_4bit(x, packed, state, static_weights=True),
        "module": lambda: layer(x),
        "told": lambda: told(x),
        "linear": lambda: torch.nn.functional.linear(x, weight),
        "empty": lambda: torch.empty((M, N), device=device, dtype=dtype),
    }
    if device.type == "cuda" and importlib.util.find_spec("bitsandbytes") is not None:
        found["bitsandbytes"] = bitsandbytes_call(x, packed, state)
    return found


def bitsandbytes_call(x: torch.Tensor, packed: torch.Tensor, state: tilewright.QuantState) -> Callable[[], Any]:
    """The same call through bitsandbytes' op, on the same packed weight."""
    importlib.import_module("bitsandbytes")
    op = torch.ops.bitsandbytes.gemm_4bit.default
    weight, shape = packed.reshape(-1, 1), list(state.shape)
    return lambda: op(x, weight, shape, state.absmax, state.blocksize, state.quant_type)


def main() -> None:
    """Measures, interleaving the cases, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results: dict[str, Any] = {"device": str(device), "build": tilewright.build_info(), "calls": CALLS, "cells": []}
    results["build"].pop("library")
    if device.type == "cuda":
        results["device"] = torch.cuda.get_device_name(device)
    results["selection_ns"] = measure_selection()
    for M, N, K in ((1, 256, 256), (1, 4096, 4096), (16, 4096, 4096)):
        found = cases(M, N, K, torch.float16, device)
        with torch.inference_mode():
            row = {name: measure(call, options.rounds) for name, call in found.items()}
        ratio = row["op"]["median"] / row["noop"]["median"]
        decision = tilewright.last_decision(device.type)
        tile = decision.tile if decision else None
        results["cells"].append({"M": M, "N": N, "K": K, "tile": tile, "us": row, "op_over_noop": ratio})
        cells = "  ".join(f"{name} {value['median']:.2f}" for name, value in row.items())
        print(f"M={M} N={N} K={K} ({tile}): {cells}  op/noop {ratio:.2f}")
    print(f"on {results['device']}; one selection: {results['selection_ns']} ns")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
