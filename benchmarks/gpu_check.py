"""Runs every compiled gemm_4bit tile by force on a GPU, compares it with fp32 references, then times it.

usage: python benchmarks/gpu_check.py --library DIR/libtilewright_kernels.so --out result.json

Build the library with tests/kernels/build.sh. Exit status 1 if anything failed. Outputs start as NaN with NaN
guards around them and each launch is repeated and compared bit for bit. Against fp32, each element keeps the
rounding bound of its engine, and the root mean square error, normalised by that of the same products summed
with random signs, keeps the limit of its type.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from kernel_harness import DTYPES, QUANT_TYPES, Harness, QuantizeArgs, Tile, pointer
from kernel_problems import (
    FORMATS,
    GUARD,
    Format,
    Shape,
    Weight,
    activations,
    codebook,
    exact_normals,
    guarded_output,
)
from kernel_speed import measure_speed

UNIT_ROUNDOFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
FEW = 64  # a root mean square over fewer elements is chance; the bound per element holds all the same
LIMITS = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float32: 1e-5}
# Four of the format's decimals lie next to the middle between two floats; here they are the nearest float.
NF4_MIDPOINTS = (
    -0.8480964303016663, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544, -0.23460740596055984,
    -0.13791173323988914, -0.045525018125772476, 0.03979014977812767, 0.1202552542090416, 0.2035212516784668,
    0.2920137718319893, 0.3893125355243683, 0.5016633868217468, 0.6427869200706482, 0.8614783883094788,
)  # fmt: skip
FP4_MIDPOINTS = (0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333)
FP4_BY_MAGNITUDE = (0, 1, 6, 7, 4, 5, 2, 3)


class Report:
    """What was checked and what failed."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.worst: dict[str, float] = {}
        self.failures: list[str] = []

    def add(self, group: str, ok: bool, what: str, nrmse: float | None = None) -> None:
        self.counts[group] = self.counts.get(group, 0) + 1
        if nrmse is not None:
            self.worst[group] = max(self.worst.get(group, 0.0), nrmse) if nrmse == nrmse else float("inf")
        if not ok:
            self.failures.append(f"{group}: {what}")


def shapes_of(tile: Tile) -> list[Shape]:
    """Shapes on, beside and far from the edges of a tile."""
    m, n, k = tile.m, tile.n, tile.k
    if tile.simt:
        return [
            Shape(1, 1, 1), Shape(m, n, 64), Shape(m + 1, n + 1, 257), Shape(2 * m + 1, 3, 1000),
            Shape(m, max(n - 1, 1), 1288), Shape(1, 33, 33), Shape(3, 2 * n + 1, 2056), Shape(m, 5, 4104),
            Shape(17, 7, 63), Shape(m, 9, 512, a_shift=1), Shape(m + 1, 9, 512, a_shift=8),
            Shape(max(m - 1, 1), 6, 7),
        ]  # fmt: skip
    ring = k * tile.stages
    return [
        Shape(m, n, ring), Shape(m - 1, n - 1, k), Shape(m + 1, n + 1, ring + k + 32), Shape(1, 1, 32),
        Shape(1, n + 1, 2 * k + 32), Shape(2 * m + 3, 2 * n + 5, 2 * ring), Shape(m, 3 * n - 2, ring - 32),
        Shape(5, 17, 96), Shape(3, 1, k + 64), Shape(m - 1, 2 * n + 1, 224), Shape(m + 1, n, 512, a_shift=8),
    ]  # fmt: skip


def run_gemm(
    harness: Harness, tile: Tile, weight: Weight, a: torch.Tensor, bias: torch.Tensor | None, shift: int
) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Two runs into fresh guarded outputs: the second buffer, statistics of both, and the return codes."""
    count = a.shape[0] * weight.N
    buffers, codes = [], []
    for _ in range(2):
        buffer, out = guarded_output(count, a.dtype, shift)
        codes.append(harness.gemm(tile, weight.gemm_args(a, bias, out)))
        buffers.append(buffer)
    bits = torch.int32 if a.dtype == torch.float32 else torch.int16
    differing = (buffers[0].view(bits) != buffers[1].view(bits)).sum()
    missing = buffers[1].isnan().sum() - (2 * GUARD + shift)
    out = buffers[1][GUARD + shift : GUARD + shift + count]
    return out.view(a.shape[0], weight.N), torch.stack([differing, missing]), codes


@dataclass(frozen=True)
class Reference:
    """fp32 results, sums of the products' magnitudes, and the norm that random signs would give."""

    values: torch.Tensor
    magnitudes: torch.Tensor
    norm: torch.Tensor

    @classmethod
    def of(cls, a: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Reference:
        added = torch.zeros(weight.shape[0], device="cuda") if bias is None else bias
        squares = a.square() @ weight.square().T + added.square()
        magnitudes = a.abs() @ weight.abs().T + added.abs()
        return cls(a @ weight.T + added, magnitudes, squares.sum().sqrt().clamp_min(1e-6))

    def compare(self, out: torch.Tensor, rounds_weights: bool) -> torch.Tensor:
        """[elements past their bound, normalised root mean square error] of `out`."""
        unit = UNIT_ROUNDOFF[out.dtype]
        bound = unit * self.values.abs() + (unit * rounds_weights + 1e-5) * self.magnitudes + 1e-7
        difference = out.float() - self.values
        past = (~(difference.abs() <= 1.01 * bound)).sum()
        return torch.stack([past.float(), difference.norm() / self.norm])


def check_tile(harness: Harness, tile: Tile, report: Report) -> None:
    """Every shape x format x dtype of one tile. Statistics are read back once per shape."""
    for shape_index, shape in enumerate(shapes_of(tile)):
        pending: list[tuple[str, torch.dtype, list[int]]] = []
        statistics: list[torch.Tensor] = []
        for format_index, fmt in enumerate(FORMATS):
            K = -(-shape.K // 16) * 16 if fmt.quant_type == "e2m1" else shape.K
            weight = Weight(shape.N, K, fmt)
            values = exact_normals(shape.M, K)
            bias_values = exact_normals(shape.N) if (shape_index + format_index) % 2 else None
            reference = Reference.of(values, weight.values(), bias_values)
            for dtype in tile.dtypes:
                a = activations(values, dtype, shape.a_shift)
                bias = None if bias_values is None else bias_values.to(dtype)
                out, counts, codes = run_gemm(harness, tile, weight, a, bias, shift=format_index % 2)
                compared = reference.compare(out, rounds_weights=not tile.simt)
                statistics.append(torch.cat([counts.float(), compared]))
                pending.append((f"{dtype} {shape} K={K} {fmt} bias={bias is not None}", dtype, codes))
        judge(tile, shape.M * shape.N >= FEW, pending, torch.stack(statistics).cpu().tolist(), report)


def judge(tile: Tile, many: bool, pending: list[Any], statistics: list[list[float]], report: Report) -> None:
    for (what, dtype, codes), (differing, missing, past, nrmse) in zip(pending, statistics, strict=True):
        ok = codes == [0, 0] and differing == missing == past == 0 and (nrmse <= LIMITS[dtype] or not many)
        result = f"codes {codes} differing {differing} missing {missing} past bound {past} nrmse {nrmse}"
        group = f"{tile.name} {str(dtype).removeprefix('torch.')}"
        report.add(group, ok, f"{what}: {result}", nrmse if many else None)


def check_identity(harness: Harness, tile: Tile, report: Report) -> None:
    """With the unit matrix for A each output is one weight, which must be the fp32 product rounded once."""
    N, K = tile.n + 1, 256
    for fmt in FORMATS:
        weight = Weight(N, K, fmt)
        for dtype in tile.dtypes:
            unit = torch.eye(K, device="cuda", dtype=dtype)
            out, counts, codes = run_gemm(harness, tile, weight, unit, None, 0)
            wrong = int((out != weight.values().T.to(dtype)).sum()) + int(counts.sum())
            ok = wrong == 0 and codes == [0, 0]
            report.add("identity", ok, f"{tile.name} {dtype} {fmt}: {wrong} elements wrong, codes {codes}")


def check_dequantize(harness: Harness, report: Report) -> None:
    for fmt in FORMATS:
        for N, K in ((1, 1), (3, 7), (1, 31), (5, 67), (64, 128), (257, 4096)):
            weight = Weight(N, K * 16 if fmt.quant_type == "e2m1" else K, fmt)
            for dtype in LIMITS:
                for shift in (0, 1):
                    expected = weight.values().flatten().to(dtype)
                    buffer, out = guarded_output(expected.numel(), dtype, shift)
                    code = harness.dequantize(weight.dequantize_args(out))
                    kept = int(buffer.isnan().sum()) == 2 * GUARD + shift
                    ok = code == 0 and torch.equal(out, expected) and kept
                    report.add("dequantize", ok, f"{N}x{K} {fmt} {dtype} shift {shift}: code {code}")


def reference_codes(x: torch.Tensor, quant_type: str) -> torch.Tensor:
    """Codes of x / absmax by strict comparison with the midpoints."""
    if quant_type == "nf4":
        return (x[:, None] > torch.tensor(NF4_MIDPOINTS, device="cuda")).sum(1)
    rank = (x.abs()[:, None] > torch.tensor(FP4_MIDPOINTS, device="cuda")).sum(1)
    return torch.tensor(FP4_BY_MAGNITUDE, device="cuda")[rank] + 8 * (x < 0)


def check_quantize(harness: Harness, report: Report) -> None:
    for quant_type in ("nf4", "fp4"):
        for blocksize in (32, 64, 128, 256, 512, 1024, 2048, 4096):
            for numel in (1, 2, 31, 32, 33, 4095, 4097, 100_001):
                for dtype in LIMITS:
                    values = torch.randn(numel, device="cuda").to(dtype)
                    third = torch.arange(numel // 3, device="cuda")
                    values[: numel // 3] = codebook(quant_type)[third % 16].to(dtype)
                    check_quantized(harness, report, values, blocksize, quant_type)
        for special in (torch.zeros(70), torch.tensor([*NF4_MIDPOINTS, *FP4_MIDPOINTS, 1.0, -1.0, -1e-8])):
            check_quantized(harness, report, special.cuda(), 64, quant_type)


def check_quantized(harness: Harness, report: Report, values: torch.Tensor, blocksize: int, quant_type: str) -> None:
    numel = values.numel()
    blocks = -(-numel // blocksize)
    packed = torch.full(((numel + 1) // 2 + GUARD,), 0xA5, dtype=torch.uint8, device="cuda")
    absmax = torch.full((blocks + GUARD,), float("nan"), device="cuda")
    args = QuantizeArgs(
        pointer(values), pointer(packed), pointer(absmax), numel, blocksize, DTYPES[values.dtype],
        QUANT_TYPES[quant_type],
    )  # fmt: skip
    code = harness.quantize(args)
    padded = torch.zeros(blocks * blocksize, device="cuda")
    padded[:numel] = values.float()
    expected_absmax = padded.view(blocks, blocksize).abs().amax(1)
    divisor = torch.where(expected_absmax > 0, expected_absmax, torch.ones_like(expected_absmax))
    codes = reference_codes((padded.view(blocks, blocksize) / divisor[:, None]).flatten(), quant_type)
    codes = codes[: 2 * ((numel + 1) // 2)].view(-1, 2)
    expected = torch.full_like(packed, 0xA5)
    expected[: codes.shape[0]] = (codes[:, 0] << 4 | codes[:, 1]).to(torch.uint8)
    ok = code == 0 and torch.equal(packed, expected) and torch.equal(absmax[:blocks], expected_absmax)
    ok = ok and bool(absmax[blocks:].isnan().all())
    report.add("quantize", ok, f"{quant_type} {values.dtype} numel {numel} blocksize {blocksize}: {code}")


def check_refusals(harness: Harness, report: Report) -> None:
    """Problems that an engine must refuse with a given code, leaving the output alone."""
    mma = next(tile for tile in harness.tiles if not tile.simt)
    simt = next(tile for tile in harness.tiles if tile.simt)
    aligned, shifted = Shape(4, 8, 64), Shape(4, 8, 64, a_shift=1)
    cases: list[tuple[str, Tile, Shape, Format, int]] = [
        ("misaligned A", mma, shifted, Format("nf4", 64), 716),
        ("K % 32", mma, Shape(4, 8, 40), Format("nf4", 64), 801),
        ("blocksize 48", mma, aligned, Format("nf4", 48), 1),
        ("blocksize 48", simt, aligned, Format("nf4", 48), 1),
        ("blocksize 8192", simt, aligned, Format("nf4", 8192), 1),
        ("e2m1 blocksize 32", simt, aligned, Format("e2m1", 32), 1),
        ("no rows", mma, Shape(0, 8, 64), Format("nf4", 64), 0),
    ]
    for what, tile, shape, fmt, expected in cases:
        weight = Weight(shape.N, shape.K, fmt)
        a = activations(exact_normals(shape.M, shape.K), torch.bfloat16, shape.a_shift)
        buffer, out = guarded_output(shape.M * shape.N, torch.bfloat16, 0)
        code = harness.gemm(tile, weight.gemm_args(a, None, out))
        ok = code == expected and bool(buffer.isnan().all())
        report.add("refusals", ok, f"{tile.name} {what}: {code}, not {expected}")


def check_large(harness: Harness, report: Report) -> None:
    """Offsets past 2^31 bytes in the weight and past 2^31 elements in the output; compares the last ones."""
    by_name = {tile.name: tile for tile in harness.tiles}
    for name, M, N, K in (("mma_32x64_128_w2x4x1", 4, 140_001, 32_768), ("simt_4x4", 4, 140_001, 32_768),
                          ("mma_128x128_64_w2x4x1", 16_400, 140_000, 64)):  # fmt: skip
        weight = Weight(N, K, Format("nf4", 64))
        a = exact_normals(M, K).bfloat16()
        out = torch.full((M, N), float("nan"), dtype=torch.bfloat16, device="cuda")
        code = harness.gemm(by_name[name], weight.gemm_args(a, None, out))
        last = weight.values((N - 32) * K, 32 * K).view(32, K)
        reference = a[-64:].float() @ last.T
        nrmse = float((out[-64:, -32:].float() - reference).norm() / reference.norm())
        missing = sum(int(out[row : row + 1024].isnan().sum()) for row in range(0, M, 1024))
        ok = code == 0 and missing == 0 and nrmse <= LIMITS[torch.bfloat16]
        report.add("large", ok, f"{name} {M}x{N}x{K}: code {code} nrmse {nrmse} missing {missing}", nrmse)
        del out, weight
    weight = Weight(140_001, 32_768, Format("nf4", 64))
    flat = torch.empty(weight.N * weight.K, dtype=torch.bfloat16, device="cuda")
    code = harness.dequantize(weight.dequantize_args(flat))
    tail = weight.values(flat.numel() - 4096, 4096).bfloat16()
    report.add("large", code == 0 and torch.equal(flat[-4096:], tail), f"dequantize 2^32 elements: {code}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Check and time every compiled gemm_4bit tile on a GPU.")
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="tiles whose name contains this")
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--no-large", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(20261130)
    harness, report = Harness(options.library), Report()
    tiles = [tile for tile in harness.tiles if options.only in tile.name]
    started = time.monotonic()
    check_refusals(harness, report)
    check_dequantize(harness, report)
    check_quantize(harness, report)
    for tile in tiles:
        check_tile(harness, tile, report)
        check_identity(harness, tile, report)
    if not options.no_large:
        check_large(harness, report)
    torch.cuda.synchronize()
    result: dict[str, Any] = {
        "schema": "gpu-check/1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
        "seconds": round(time.monotonic() - started, 1), "counts": report.counts, "worst_nrmse": report.worst,
        "failed": len(report.failures), "failures": report.failures[:200],
    }  # fmt: skip
    options.out.write_text(json.dumps(result, indent=1) + "\n")  # kept even if the timing fails
    if not options.no_speed:
        result["speed"] = measure_speed(harness, tiles)
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{sum(report.counts.values())} checks, {len(report.failures)} failed, {result['seconds']} s")
    print("\n".join(report.failures[:30]))
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
