"""Correctness of the gemm_fp8 wgmma tiles on a card: results, refusals, errors beside torch._scaled_mm."""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch
from fp8_problems import E5M2, Harness, Info, Problem, scaled_mm

ERROR_LIMIT = {torch.bfloat16: 4e-3, torch.float16: 2.5e-3, torch.float32: 2.5e-3}
BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}


def check_one(h: Harness, name: str, problem: Problem, ragged_out: int) -> str | None:
    """A message when the tile is wrong, unstable, leaves something unwritten or writes past its rows."""
    reference, written = problem.reference()
    outs = []
    for _ in range(2):
        width = problem.n + ragged_out
        guard = torch.full((problem.rows * width + 64,), math.nan, dtype=problem.dtype, device="cuda")
        out = guard[: problem.rows * width].reshape(problem.rows, width)
        h.launch(name, problem.args(out, h.sms))
        torch.cuda.synchronize()
        if not guard[problem.rows * width :].isnan().all() or not out[:, problem.n :].isnan().all():
            return "wrote past the output"
        if not out[~written].isnan().all():
            return "wrote rows of no group"
        outs.append(out[written, : problem.n])
    if not written.any():
        return None
    wanted = reference[written]
    error = ((outs[0].double() - wanted).norm() / wanted.norm()).item()
    if not error <= ERROR_LIMIT[problem.dtype]:
        wrong = ((outs[0].double() - wanted).abs() > 0.05 * wanted.abs().max()).nonzero()
        return f"nrmse {error:.4g} wrong {len(wrong)} first {wrong[:3].tolist()} nan {int(outs[0].isnan().sum())}"
    bits = BITS[problem.dtype]
    if not torch.equal(outs[0].contiguous().view(bits), outs[1].contiguous().view(bits)):
        return "two runs differ"
    ERRORS.append((problem.scaling, problem.fast, str(problem.dtype)[6:], error))
    return None


ERRORS: list[tuple[str, bool, str, float]] = []


def check_runs(tile: Info, dtypes: list[torch.dtype]) -> list[tuple[dict[str, Any], int]]:
    """(problem, elements between rows of out) worth a try on a tile."""
    mt, nt = tile.mt, tile.nt
    kinds: list[dict[str, Any]] = [dict(scaling="tensor"), dict(scaling="row")]
    if tile.promote:
        kinds = [dict(scaling="block"), dict(scaling="block", row_major_scales=True), dict(scaling="row", fast=False)]
    runs: list[tuple[dict[str, Any], int]] = []
    for kind in kinds:
        block = kind["scaling"] == "block"
        for dtype in dtypes:
            base = dict(kind, dtype=dtype)
            runs += [
                (dict(base, m=mt, n=nt, k=128), 0),
                (dict(base, m=2 * mt + 3, n=2 * nt + 8, k=640, bias=True), 0),
                (dict(base, m=max(1, mt - 3), n=nt + 37, k=1024 if block else 1008, pad=1, bias=True), 3),
                (dict(base, m=1, n=40, k=128 if block else 16, a_type=E5M2), 8),
                (dict(base, m=3 * mt, n=140 * nt if mt < 128 else 51 * nt, k=1280), 0),
            ]
            if tile.split_k == 1:
                runs += [
                    (dict(base, m=3 * mt + 9, n=2 * nt + 8, k=384, groups=5, bias=True), 0),
                    (dict(base, m=mt + 5, n=nt + 24, k=384, groups=7, masked=True), 1),
                ]
    return runs


def check(h: Harness, names: list[str]) -> int:
    """Every tile over sizes, scales, groups and outputs; prints what fails and returns how much did."""
    failures = cases = 0
    for name in names:
        dtypes = [torch.bfloat16]
        if name in list(h.names)[:7]:
            dtypes = [torch.bfloat16, torch.float16, torch.float32]
        for refusal in refusals(h, name):
            failures += 1
            print(f"FAIL {name} {refusal}", flush=True)
        for run, ragged in check_runs(h.info[name], dtypes):
            cases += 1
            message = check_one(h, name, Problem(**run), ragged)
            if message is not None:
                failures += 1
                print(f"FAIL {name} {run} ragged {ragged}: {message}", flush=True)
                if failures > 40:
                    return failures
    for key in sorted({error[:3] for error in ERRORS}):
        values = [error[3] for error in ERRORS if error[:3] == key]
        print(f"nrmse {key}: median {statistics.median(values):.3g} max {max(values):.3g}")
    print(f"{cases} cases, {failures} failures", flush=True)
    return failures


def refusals(h: Harness, name: str) -> list[str]:
    """What a launch should have refused, and did not, or not in the documented way."""
    tile = h.info[name]
    out = torch.empty(64, 256, device="cuda", dtype=torch.bfloat16)
    cases: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
        ("odd k", dict(k=264), {}, "cudaErrorNotSupported"),
        ("half a block", dict(k=192, scaling="block"), {}, "cudaErrorNotSupported"),
        ("negative m", {}, dict(m=-1), "cudaErrorInvalidValue"),
        ("short rows", {}, dict(lda=16), "cudaErrorInvalidValue"),
        ("no scales", {}, dict(scale_a=None), "cudaErrorInvalidValue"),
        ("no such type", {}, dict(a_type=7), "cudaErrorInvalidValue"),
        ("odd rows of a", {}, dict(lda=264), "cudaErrorMisalignedAddress"),
        ("no rows", {}, dict(m=0), "cudaSuccess"),
        ("no k", {}, dict(k=0), "cudaErrorNotSupported"),
        ("no ends", {}, dict(grouping=1, groups=2, group_ends=None), "cudaErrorInvalidValue"),
    ]
    if not tile.promote:
        cases.append(("straight sums", dict(fast=False), {}, "cudaErrorNotSupported"))
        cases.append(("blocks", dict(scaling="block"), {}, "cudaErrorNotSupported"))
    if tile.split_k > 1:
        cases.append(("groups", dict(groups=2), {}, "cudaErrorNotSupported"))
    wrong = []
    for what, run, fields, wanted in cases:
        args = Problem(**dict(dict(m=64, n=256, k=256), **run)).args(out, h.sms)
        for field, value in fields.items():
            setattr(args, field, value)
        found = h.error(name, args)
        if found != wanted:
            wrong.append(f"{what}: {found}, not {wanted}")
    torch.cuda.synchronize()
    return wrong


def accuracy(h: Harness, names: list[str]) -> None:
    """Errors beside those of torch._scaled_mm on the same operands."""
    for scaling in ("tensor", "row", "block"):
        for m, n, k in ((512, 4096, 4096), (128, 7168, 16384)):
            for dtype in (torch.bfloat16,):
                problem = Problem(m, n, k, scaling, dtype)
                reference, _ = problem.reference()
                out = torch.empty(m, n, dtype=dtype, device="cuda")
                errors = {}
                for fast in (True, False):
                    problem.fast = fast
                    try:
                        scaled_mm(problem, problem.b, out)
                        errors[f"torch fast={fast}"] = ((out.double() - reference).norm() / reference.norm()).item()
                    except RuntimeError as error:
                        print(f"torch {scaling} fast={fast}: {str(error).splitlines()[0][:160]}")
                    for name in names[:5]:
                        if not h.info[name].promote and (scaling == "block" or not fast):
                            continue
                        h.launch(name, problem.args(out, h.sms))
                        errors[f"{name} fast={fast}"] = ((out.double() - reference).norm() / reference.norm()).item()
                print(f"accuracy {scaling} {m}x{n}x{k}:", {key: round(value, 6) for key, value in errors.items()})
