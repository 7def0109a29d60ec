"""Problems of gemm_fp8.

Words: scaling tensor | row | block, a_type e4m3 | e5m2, fast_accum 0 | 1, bias 0 | 1, pad (bytes between rows of A and
B), pad_out (elements between rows of out), grouping none | contiguous | masked, groups.
"""

from __future__ import annotations

import numpy as np

from .cases import DTYPES, HALF_STEP, Case, Problem, narrow, output, padded, wide
from .formats import E4M3, FP8, encode
from .library import Library

SCALINGS = {"tensor": 0, "row": 1, "block": 2}
GROUPINGS = {"none": 0, "contiguous": 1, "masked": 2}


def make_case(library: Library, problem: Problem, multiprocessors: int) -> Case:
    """Uploads random operands."""
    random = np.random.default_rng(problem.seed)
    m, n, k = problem.m, problem.n, problem.k
    grouping = str(problem.word("grouping", "none"))
    groups = int(problem.word("groups", 2)) if grouping != "none" else 1
    a_rows = m * groups if grouping == "masked" else m
    exact = problem.values == "exact"
    a_table = FP8[str(problem.word("a_type", "e4m3"))]
    draw = (lambda shape: random.integers(-3, 4, shape).astype(float)) if exact else random.standard_normal
    a_codes, b_codes = encode(draw((a_rows, k)), a_table), encode(draw((groups * n, k)), E4M3)
    pad, pad_out = int(problem.word("pad", 16)), int(problem.word("pad_out", 8))
    ldo = n + pad_out
    arguments = {
        "m": m,
        "n": n,
        "k": k,
        "lda": k + pad,
        "ldb": k + pad,
        "ldo": ldo,
        "b_group_stride": n * (k + pad),
        "groups": groups,
        "grouping": GROUPINGS[grouping],
        "a_type": 0 if a_table is E4M3 else 1,
        "dtype": DTYPES[problem.dtype],
        "fast_accum": int(problem.word("fast_accum", 1)),
        "num_sms": multiprocessors,
        "a": library.upload("a", padded(a_codes, k + pad), dependent=True, alignment=16),
        "b": library.upload("b", padded(b_codes, k + pad), alignment=16),
    }
    scale_a, scale_b = _scales(library, arguments, random, problem, a_rows, groups)
    owner, computed = _grouping(library, arguments, grouping, groups, m)
    a = a_table[a_codes] * scale_a
    b = (E4M3[b_codes] * scale_b).reshape(groups, n, k)
    expected = np.stack([a[row] @ b[max(int(owner[row]), 0)].T for row in range(a_rows)])
    work = np.stack([np.abs(a[row]) @ np.abs(b[max(int(owner[row]), 0)]).T for row in range(a_rows)])
    if problem.word("bias", 1):
        bias = narrow(random.integers(-4, 5, (groups, n)).astype(np.float64), problem.dtype)
        arguments["bias"] = library.upload("bias", bias, alignment=16)
        arguments["bias_group"] = n
        expected = expected + wide(bias, problem.dtype)[np.maximum(owner, 0)]
    address, reset, result = output(library, a_rows, n, ldo, problem.dtype)
    arguments["out"] = address
    step = HALF_STEP[problem.dtype]
    bound = (k * 2.0**-23) * work + 1.01 * step * np.abs(expected) + 1e-30
    if exact:
        expected = wide(narrow(expected, problem.dtype), problem.dtype)
        bound = np.zeros_like(expected)
    written = np.broadcast_to(computed[:, None], expected.shape)
    return Case(arguments, reset, result, expected, bound, work, exact, written)


def _scales(
    library: Library, arguments: dict[str, int], random: np.random.Generator, problem: Problem, a_rows: int, groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """Uploads scales; returns them spread over the elements of A and of all groups' B."""
    n, k = problem.n, problem.k
    scaling = str(problem.word("scaling", "tensor"))
    arguments["scaling"] = SCALINGS[scaling]

    def draw(*shape: int) -> np.ndarray:
        values = 2.0 ** random.integers(-2, 2, shape) if problem.values == "exact" else random.uniform(0.5, 2.0, shape)
        return np.asarray(values, np.float32)

    if scaling == "tensor":
        a, b = draw(1), draw(groups)
        spread_a, spread_b = np.broadcast_to(a, (a_rows, k)), np.broadcast_to(np.repeat(b, n)[:, None], (groups * n, k))
        arguments["scale_b_group"] = 1
    elif scaling == "row":
        a, b = draw(a_rows), draw(groups, n)
        arguments.update(scale_a_m=1, scale_b_n=1, scale_b_group=n)
        spread_a, spread_b = (
            np.broadcast_to(a[:, None], (a_rows, k)),
            np.broadcast_to(b.reshape(-1, 1), (groups * n, k)),
        )
    else:
        parts, columns = -(-k // 128), -(-n // 128)
        a, b = draw(a_rows, parts), draw(groups, columns, parts)
        arguments.update(scale_a_m=parts, scale_a_k=1, scale_b_n=parts, scale_b_k=1, scale_b_group=columns * parts)
        spread_a = np.repeat(a, 128, axis=1)[:, :k]
        spread_b = np.repeat(np.repeat(b, 128, axis=1)[:, :n], 128, axis=2)[:, :, :k].reshape(groups * n, k)
        if problem.word("scales_along_m", 0):
            a = np.ascontiguousarray(a.T)
            arguments.update(scale_a_m=1, scale_a_k=a_rows)
    arguments["scale_a"] = library.upload("scale_a", a, dependent=True, alignment=16)
    arguments["scale_b"] = library.upload("scale_b", b, alignment=16)
    return spread_a.astype(np.float64), spread_b.astype(np.float64)


def _grouping(
    library: Library, arguments: dict[str, int], grouping: str, groups: int, m: int
) -> tuple[np.ndarray, np.ndarray]:
    """The group of each row of A, and whether its results are computed."""
    if grouping == "none":
        return np.zeros(m, int), np.ones(m, bool)
    if grouping == "contiguous":
        ends = np.array([m * (g + 1) // groups - (3 if g + 1 == groups else 0) for g in range(groups)], np.int32)
        arguments["group_ends"] = library.upload("group_ends", ends, dependent=True, alignment=16)
        owner = np.searchsorted(ends, np.arange(m), side="right")
        return np.where(owner < groups, owner, 0), owner < groups
    rows = np.array([max(0, m - 3 * g) for g in range(groups)], np.int32)
    arguments["group_rows"] = library.upload("group_rows", rows, dependent=True, alignment=16)
    owner = np.repeat(np.arange(groups), m)
    return owner, np.arange(groups * m) % m < rows[owner]
