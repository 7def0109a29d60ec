"""gemm_4bit past 2**31 and 2**32 elements of the weight, of the activations and of the result, on a large card.

    python benchmarks/gpu_limits.py --out result.json

Each case compares the first and last rows and columns, those around 2**31 and 2**32 elements, and the middle, with fp32
products of the dequantised rows, and looks for NaN everywhere. One case is one process, so that a fault takes no other
down.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# name: M, N, K, what passes which power of two
CASES = {
    "weight past 2**31": (3, 524_352, 4096),
    "weight past 2**32": (17, 1_048_640, 4096),
    "weight past 2**32, many rows": (320, 1_048_640, 4096),
    "result past 2**31": (8193, 262_144, 64),
    "result past 2**32": (23_491, 262_144, 64),
    "result past 2**32, one row block": (40, 107_374_336, 64),
    "activations past 2**31": (524_352, 64, 4096),
    "activations past 2**32": (1_048_640, 64, 4096),
}
LIMIT = 8e-3


def interesting(count: int, width: int) -> list[int]:
    """Indices of rows at the ends and around each power of two elements, when a row is `width` elements."""
    found = {0, 1, count // 2, count - 2, count - 1}
    for power in (31, 32, 33):
        middle = (1 << power) // width
        found |= {middle - 1, middle, middle + 1}
    return sorted(i for i in found if 0 <= i < count)


def run_case(name: str) -> dict[str, Any]:
    """Quantises block by block, runs, and compares the chosen rows and columns."""
    import torch

    import tilewright

    M, N, K = CASES[name]
    torch.manual_seed(1)
    packed = torch.randint(0, 256, (N * K // 2,), dtype=torch.uint8, device="cuda")
    absmax = torch.rand(N * K // 64, device="cuda") / K**0.5
    state = tilewright.QuantState((N, K), "nf4", 64, absmax)
    x = torch.empty(M, K, device="cuda", dtype=torch.bfloat16).normal_()
    out = tilewright.gemm_4bit(x, packed, state)
    torch.cuda.synchronize()
    decision = tilewright.last_decision()
    assert decision is not None
    columns = torch.tensor(interesting(N, K) + [n for n in interesting(N, 1) if n >= 0], device="cuda").unique()
    codes = packed.view(N, K // 2)[columns].contiguous().flatten()
    part = tilewright.QuantState((len(columns), K), "nf4", 64, absmax.view(N, K // 64)[columns].contiguous().flatten())
    exact = tilewright.dequantize_4bit(codes, part)
    rows = torch.tensor(sorted({*interesting(M, N), *interesting(M, K)}), device="cuda")
    expected = x[rows].float() @ exact.T
    got = out[rows][:, columns].float()
    # Terms may cancel in the few elements of a row: what rounding can do to it is set by the size of the terms.
    terms = x[rows].float().norm(dim=1, keepdim=True) * exact.norm(dim=1)
    errors = (got - expected).norm(dim=1) / torch.maximum(expected, 0.5 * terms).norm(dim=1)
    by_column = (got - expected).norm(dim=0) / torch.maximum(expected, 0.5 * terms).norm(dim=0)
    return {
        "case": name, "M": M, "N": N, "K": K, "tile": decision.tile or decision.path, "rows": len(rows),
        "columns": len(columns), "worst_row": round(float(errors.max()), 5),
        "worst_column": round(float(by_column.max()), 5),
        "nan": int(out.isnan().any()), "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1),
        "right": bool(errors.max() < LIMIT and by_column.max() < LIMIT and not out.isnan().any()),
    }  # fmt: skip


def main() -> None:
    """Runs every case in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=sorted(CASES))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(options.case)))
        return
    found = []
    for name in CASES:
        done = subprocess.run([sys.executable, __file__, "--case", name], capture_output=True, text=True, check=False)
        line = done.stdout.strip().splitlines()[-1:] or [
            json.dumps({"case": name, "right": False, "error": done.stderr[-600:]})
        ]
        print(line[0], flush=True)
        found.append(json.loads(line[0]))
    if options.out:
        lines = ",\n".join(json.dumps(row) for row in found)
        options.out.write_text(f'{{"schema": "gpu_limits/1", "cases": [\n{lines}\n]}}\n', "utf-8")
    sys.exit(0 if all(row["right"] for row in found) else 1)


if __name__ == "__main__":
    main()
