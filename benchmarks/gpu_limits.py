"""gemm_4bit and gemm_fp8 past 2**31 and 2**32 elements of the weight, the activations and the result, on a large card.

    python benchmarks/gpu_limits.py --out result.json

Each case compares the first and last rows and columns, those around 2**31 and 2**32 elements, and the middle, with fp32
products, each element by its bound, and looks for NaN everywhere. One case is one process, so that a fault takes no
other down; `--jobs` run at once.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# name: M, N, K, what passes which power of two
SIZES_4BIT = {
    "weight past 2**31": (3, 524_352, 4096),
    "weight past 2**32": (17, 1_048_640, 4096),
    "weight past 2**32, many rows": (320, 1_048_640, 4096),
    "weight past 2**32, within the rules": (17, 1_048_576, 4160),
    "result past 2**31": (8193, 262_144, 64),
    "result past 2**32": (23_491, 262_144, 64),
    "result past 2**32, one row block": (40, 107_374_336, 64),
    "activations past 2**31": (524_352, 64, 4096),
    "activations past 2**32": (1_048_640, 64, 4096),
}
SIZES_FP8 = {
    "weight past 2**31, row": (3, 524_352, 4096),
    "weight past 2**32, row": (17, 1_048_576, 4112),
    "weight past 2**32, block": (16, 1_048_576, 4224),
    "weight past 2**32, tensor, many rows": (320, 1_048_576, 4112),
    "result past 2**31, block": (8193, 262_144, 128),
    "result past 2**32, row": (23_491, 262_144, 128),
    "result past 2**32, tensor": (4_100, 1_048_576, 64),
    "activations past 2**31, block": (524_352, 64, 4096),
    "activations past 2**32, row": (1_048_576, 64, 4112),
    "groups past 2**32, row": (40, 7168, 16_384),
}
CASES = {f"gemm_4bit: {name}": size for name, size in SIZES_4BIT.items()} | {
    f"gemm_fp8: {name}": size for name, size in SIZES_FP8.items()
}
GROUPS = 40


def interesting(count: int, width: int) -> list[int]:
    """Indices of rows at the ends and around each power of two elements, when a row is `width` elements."""
    found = {0, 1, count // 2, count - 2, count - 1}
    for power in (31, 32, 33):
        middle = (1 << power) // width
        found |= {middle - 1, middle, middle + 1}
    return sorted(i for i in found if 0 <= i < count)


def picks(M: int, N: int, K: int) -> tuple[Any, Any]:
    """Rows and columns to compare."""
    import torch

    columns = sorted({*interesting(N, K), *interesting(N, 1)})
    return (
        torch.tensor(sorted({*interesting(M, N), *interesting(M, K)}), device="cuda"),
        torch.tensor(columns, device="cuda"),
    )


def report(name: str, out: Any, got: Any, rows: Any, weight: Any, unit: float, sums: float) -> dict[str, Any]:
    """Compares chosen rows and columns with rows x weight.T, in fp32."""
    import bounds
    import torch

    import tilewright

    last = tilewright.last_decision()
    assert last is not None
    exact = rows @ weight.T
    spread = rows.norm(dim=1, keepdim=True) * weight.norm(dim=1)
    worst = float(bounds.over_limit(got, exact, spread, rows.shape[1], unit, sums))
    M, N, K = CASES[name]
    lost = any(bool(part.isnan().any()) for part in out.flatten(0, -2).split(4096))
    return {
        "case": name, "M": M, "N": N, "K": K, "tile": last.tile or last.path, "rows": got.shape[0],
        "columns": got.shape[1], "worst_over_limit": round(worst, 4), "nan": lost,
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1), "right": worst <= 1.0 and not lost,
    }  # fmt: skip


def run_4bit(name: str) -> dict[str, Any]:
    """Random codes and scales."""
    import torch

    import tilewright

    M, N, K = CASES[name]
    packed = torch.randint(0, 256, (N * K // 2,), dtype=torch.uint8, device="cuda")
    absmax = torch.rand(N * K // 64, device="cuda") / K**0.5
    x = torch.empty(M, K, device="cuda", dtype=torch.bfloat16).normal_()
    out = tilewright.gemm_4bit(x, packed, tilewright.QuantState((N, K), "nf4", 64, absmax))
    torch.cuda.synchronize()
    rows, columns = picks(M, N, K)
    codes = packed.view(N, K // 2)[columns].contiguous().flatten()
    part = tilewright.QuantState((len(columns), K), "nf4", 64, absmax.view(N, K // 64)[columns].contiguous().flatten())
    weight = tilewright.dequantize_4bit(codes, part)
    # The weight is rounded to bf16.
    return report(name, out, out[rows][:, columns], x[rows].float(), weight, 2.0**-7, 2.0**-19)


def fp8_codes(*shape: int) -> Any:
    """Codes of both signs between 0.5 and 2."""
    import torch

    codes = torch.randint(0, 32, shape, dtype=torch.uint8, device="cuda")
    signs = (codes & 16) << 3
    return codes.bitwise_and_(15).add_(0x30).bitwise_or_(signs).view(torch.float8_e4m3fn)


def run_fp8(name: str) -> dict[str, Any]:
    """Random codes; scales of rows, blocks or one for all."""
    import torch

    import tilewright

    M, N, K = CASES[name]
    if "groups" in name:
        return run_groups(name)
    a, b = fp8_codes(M, K), fp8_codes(N, K)
    blocks = -(-K // 128)
    shapes = {"tensor": ((), ()), "row": ((M, 1), (N,)), "block": ((M, blocks), (-(-N // 128), blocks))}
    kind = next(kind for kind in shapes if kind in name.split(": ")[1])
    scale_a, scale_b = (0.01 + 0.01 * torch.rand(shape, device="cuda") for shape in shapes[kind])
    out = tilewright.gemm_fp8(a, b, scale_a, scale_b)
    torch.cuda.synchronize()
    rows, columns = picks(M, N, K)
    first, second = a.view(torch.uint8)[rows].view(a.dtype).float(), b.view(torch.uint8)[columns].view(b.dtype).float()
    if kind == "block":
        first *= scale_a[rows].repeat_interleave(128, 1)[:, :K]
        second *= scale_b[columns // 128].repeat_interleave(128, 1)[:, :K]
    else:
        first *= scale_a if kind == "tensor" else scale_a[rows]
        second *= scale_b if kind == "tensor" else scale_b[columns][:, None]
    return report(name, out, out[rows][:, columns], first, second, 2.0**-7, 2.0**-12)


def run_groups(name: str) -> dict[str, Any]:
    """Weights of many experts, one behind the other; the first and last groups are compared."""
    import torch

    import tilewright

    M, N, K = CASES[name]
    a, b = fp8_codes(GROUPS * M, K), fp8_codes(GROUPS, N, K)
    scale_a, scale_b = torch.full((GROUPS * M, 1), 0.01, device="cuda"), torch.rand(GROUPS, N, device="cuda")
    ends = torch.arange(1, GROUPS + 1, dtype=torch.int32, device="cuda") * M
    out = tilewright.gemm_fp8_grouped(a, b, scale_a, scale_b, group_ends=ends)
    torch.cuda.synchronize()
    _, columns = picks(M, N, K)
    rows = torch.tensor([0, M // 2, M - 1], device="cuda")
    found = []
    for group in (0, GROUPS // 2, GROUPS - 2, GROUPS - 1):
        own = rows + group * M
        first = a.view(torch.uint8)[own].view(a.dtype).float() * 0.01
        second = b[group].view(torch.uint8)[columns].view(b.dtype).float() * scale_b[group][columns][:, None]
        found.append(report(name, out, out[own][:, columns], first, second, 2.0**-7, 2.0**-12))
    worst = max(row["worst_over_limit"] for row in found)
    return found[0] | {"groups": GROUPS, "worst_over_limit": worst, "right": all(row["right"] for row in found)}


def run_case(name: str) -> dict[str, Any]:
    """One case, in this process."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    return run_4bit(name) if name.startswith("gemm_4bit") else run_fp8(name)


def run_apart(name: str) -> dict[str, Any]:
    """One case, in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--case", name], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    row = json.loads(lines[-1]) if lines else {"case": name, "right": False, "error": done.stderr[-600:]}
    print(json.dumps(row), flush=True)
    return dict(row)


def as_text(found: list[dict[str, Any]]) -> str:
    """The evidence, a line a case."""
    import torch

    import tilewright

    head = {
        "schema": "gpu_limits/2",
        "device": torch.cuda.get_device_name(),
        "build": tilewright.build_info().get("spec_digest"),
    }
    return json.dumps(head)[:-1] + ', "cases": [\n' + ",\n".join(map(json.dumps, found)) + "\n]}\n"


def main() -> None:
    """Runs every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=sorted(CASES))
    parser.add_argument("--jobs", type=int, default=2, help="cases at once; each holds up to 27 GiB of the card")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(options.case)))
        return
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(run_apart, CASES))
    if options.out:
        options.out.write_text(as_text(found), "utf-8")
    sys.exit(0 if all(row["right"] for row in found) else 1)


if __name__ == "__main__":
    main()
