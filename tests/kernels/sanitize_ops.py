"""Launches tiles of the decode and wgmma engines through the ops on small ragged problems, for compute-sanitizer.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --kernel-regex kns=tilewright \
        python tests/kernels/sanitize_ops.py gemm_fp8

Without torch's cache every tensor is an allocation of its own, so that a step past its end is seen. Operands are made
on the CPU. Prints the launches made and the tiles that ran; exit status 1 where a result is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

import tilewright
from tilewright import _ops

KINDS = {"tensor": "tensor", "row": "row", "block": "block128x128"}
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
Problem = tuple[str, Callable[[], torch.Tensor], torch.Tensor]


def problems_4bit() -> Iterator[Problem]:
    """What is called, the call, and the exact result."""
    formats = [("nf4", 64, False), ("e2m1", 16, False), ("nf4", 64, True), ("fp4", 32, False)]
    shapes = [(1, 136, 1024), (7, 72, 4096), (24, 200, 1088), (130, 264, 768), (16, 97, 2048)]
    for (M, N, K), (quant, blocksize, nested) in zip(shapes, itertools.cycle(formats), strict=False):
        packed, state = tilewright.quantize_4bit(
            torch.randn(N, K), quant_type=quant, blocksize=blocksize, nested=nested
        )
        x, bias = torch.randn(M, K).bfloat16(), torch.randn(N).bfloat16()
        exact = x.float() @ tilewright.dequantize_4bit(packed, state).T + bias.float()
        layouts = [packed, tilewright.prepack(packed, N, K)] if tilewright.can_prepack(N, K) else [packed]
        for codes in layouts:
            given = (x.cuda(), codes.cuda(), state.to("cuda"), bias.cuda())
            yield f"{M}x{N}x{K} {quant}", partial(tilewright.gemm_4bit, *given, static_weights=True), exact


def problems_fp8() -> Iterator[Problem]:
    """The same of gemm_fp8, and of both kinds of groups."""
    shapes = [(1, 136, 1024), (7, 72, 4096), (24, 200, 1040), (130, 264, 768), (16, 97, 2048), (70, 130, 384)]
    for (M, N, K), kind, fast in zip(shapes, itertools.cycle(KINDS), itertools.cycle([True, False]), strict=False):
        a, scale_a = tilewright.quantize_fp8(torch.randn(M, K), kind, dtype=E5M2 if M == 24 else E4M3)
        b, scale_b = tilewright.quantize_fp8(torch.randn(N, K), KINDS[kind])
        bias = torch.randn(N).bfloat16()
        exact = tilewright.dequantize_fp8(a, scale_a) @ tilewright.dequantize_fp8(b, scale_b).T + bias.float()
        given = [t.cuda() for t in (a, b, scale_a, scale_b, bias)]
        yield f"{M}x{N}x{K} {kind}", partial(tilewright.gemm_fp8, *given, fast_accum=fast, static_weights=True), exact
    counts, (N, K) = [3, 0, 70, 17], (72, 512)
    a, scale_a = tilewright.quantize_fp8(torch.randn(sum(counts), K), "block")
    b, scale_b = tilewright.quantize_fp8(torch.randn(len(counts), N, K), "block128x128")
    rows = tilewright.dequantize_fp8(a, scale_a).split(counts)
    weights = [tilewright.dequantize_fp8(b[g], scale_b[g]) for g in range(len(counts))]
    exact = torch.cat([row @ w.T for row, w in zip(rows, weights, strict=True)])
    ends = torch.tensor(counts).cumsum(0).int().cuda()
    given = [t.cuda() for t in (a, b, scale_a, scale_b)]
    yield "groups", partial(tilewright.gemm_fp8_grouped, *given, group_ends=ends, static_weights=True), exact


def main() -> None:
    """Every tile on the first problems that it takes, until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=["gemm_4bit", "gemm_fp8"])
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--launches", type=int, default=3, help="a tile")
    options = parser.parse_args()
    torch.manual_seed(0)
    deadline = time.monotonic() + options.seconds
    problems = list((problems_4bit if options.family == "gemm_4bit" else problems_fp8)())
    names = [n for n in _ops.NATIVE.tile_names(options.family) if not n.startswith("simt") and not n[0].isdigit()]
    ran: dict[str, int] = {}
    wrong = 0
    # A launch of every tile first, so that a run that is cut short has seen all of them.
    for turn, name in itertools.product(range(options.launches), names):
        for at in range(len(problems)):
            what, call, exact = problems[(at + turn * 2) % len(problems)]
            if time.monotonic() > deadline:
                break
            with tilewright.force_tile(name, options.family):
                try:
                    found = call().float().cpu()
                except RuntimeError as refusal:
                    if "cannot run" not in str(refusal):
                        raise
                    continue
            ran[name] = ran.get(name, 0) + 1
            error = float((found - exact).norm() / exact.norm())
            if not error < 1e-2:
                wrong += 1
                print(f"{name} {what}: {error}")
            break
    print(f"launches {sum(ran.values())}, tiles {len(ran)}, wrong {wrong}", flush=True)
    sys.exit(1 if wrong or not ran else 0)


if __name__ == "__main__":
    main()
