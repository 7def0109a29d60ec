"""Problems of gemm_nvfp4. Words: bias 0 | 1, pad_out (elements between rows of out)."""

from __future__ import annotations

import numpy as np

from .cases import DTYPES, HALF_STEP, Case, Problem, narrow, output, wide
from .formats import E2M1, E4M3, pack_nibbles
from .library import Library


def make_case(library: Library, problem: Problem, multiprocessors: int) -> Case:
    """Uploads random operands."""
    random = np.random.default_rng(problem.seed)
    m, n, k = problem.m, problem.n, problem.k
    exact = problem.values == "exact"
    a, a_work, arguments_a = _operand(library, random, "a", m, k, exact)
    b, b_work, arguments_b = _operand(library, random, "b", n, k, exact)
    factors = (0.5, 0.25) if exact else (0.71, 1.3)
    ldo = n + int(problem.word("pad_out", 8))
    arguments = {
        **arguments_a,
        **arguments_b,
        "m": m,
        "n": n,
        "k": k,
        "ldo": ldo,
        "dtype": DTYPES[problem.dtype],
        "num_sms": multiprocessors,
        "global_a": library.upload("global_a", np.array([factors[0]], np.float32), dependent=True, alignment=16),
        "global_b": library.upload("global_b", np.array([factors[1]], np.float32), alignment=16),
    }
    factor = float(np.float32(factors[0])) * float(np.float32(factors[1]))
    expected, work = factor * (a @ b.T), factor * (a_work @ b_work.T)
    if problem.word("bias", 1):
        bias = narrow(random.integers(-4, 5, n).astype(np.float64), problem.dtype)
        arguments["bias"] = library.upload("bias", bias, alignment=16)
        expected = expected + wide(bias, problem.dtype)
    address, reset, result = output(library, m, n, ldo, problem.dtype)
    arguments["out"] = address
    bound = (k * 2.0**-23) * work + 1.01 * HALF_STEP[problem.dtype] * np.abs(expected) + 1e-30
    if exact:
        expected = wide(narrow(expected, problem.dtype), problem.dtype)
        bound = np.zeros_like(expected)
    return Case(arguments, reset, result, expected, bound, work, exact, np.ones((m, n), bool))


def scale_layout(scales: np.ndarray) -> np.ndarray:
    """Scales [rows, groups] in the order of nvfp4/scale_layout.h; what pads the last atoms is zero."""
    rows, groups = scales.shape
    full = np.zeros((-(-rows // 128) * 128, -(-groups // 4) * 4), scales.dtype)
    full[:rows, :groups] = scales
    atoms = full.reshape(full.shape[0] // 128, 4, 32, full.shape[1] // 4, 4)  # row = 128 i + 32 j + r, scale = 4 q + s
    return np.ascontiguousarray(atoms.transpose(0, 3, 2, 1, 4)).reshape(-1)


def _operand(
    library: Library, random: np.random.Generator, name: str, rows: int, k: int, exact: bool
) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    codes = random.integers(0, 16, (rows, k)).astype(np.uint8)
    groups = -(-k // 16)
    pool = [0x30, 0x38, 0x40] if exact else list(range(0x28, 0x48))
    scales = random.choice(pool, (rows, groups)).astype(np.uint8)
    values = E2M1[codes] * np.repeat(E4M3[scales], 16, axis=1)[:, :k]
    dependent = name == "a"
    arguments = {
        name: library.upload(name, pack_nibbles(codes, False), dependent=dependent, alignment=16),
        f"scale_{name}": library.upload(f"scale_{name}", scale_layout(scales), dependent=dependent, alignment=16),
    }
    return values, np.abs(values), arguments
