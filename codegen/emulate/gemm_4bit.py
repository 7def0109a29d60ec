"""Problems of gemm_4bit.

Words: quant_type nf4 | fp4 | e2m1, blocksize, nested 0 | 1, bias 0 | 1, pad (elements between rows of A),
layout packed | prepacked.
"""

from __future__ import annotations

import numpy as np

from .cases import DTYPES, HALF_STEP, Case, Problem, narrow, output, padded, wide
from .formats import CODEBOOKS, E4M3, pack_nibbles
from .library import Library

QUANT_TYPES = {"nf4": 0, "fp4": 1, "e2m1": 2}


def make_case(library: Library, problem: Problem, multiprocessors: int) -> Case:
    """Uploads random operands."""
    random = np.random.default_rng(problem.seed)
    m, n, k = problem.m, problem.n, problem.k
    quant_type = str(problem.word("quant_type", "nf4"))
    e2m1 = quant_type == "e2m1"
    blocksize = 16 if e2m1 else int(problem.word("blocksize", 64))
    exact = problem.values == "exact"
    a = random.integers(-3, 4, (m, k)).astype(np.float64) if exact else random.standard_normal((m, k))
    if exact and not e2m1:
        # One element of A to a row: a sum of one product.
        hot = random.integers(0, k, m)
        a = np.where(np.arange(k) == hot[:, None], 2.0 ** random.integers(-2, 3, (m, 1)), 0.0)
    a_stored = narrow(a, problem.dtype)
    codes = random.integers(0, 16, (n, k)).astype(np.uint8)
    weight = CODEBOOKS[quant_type][codes]
    pad = int(problem.word("pad", 8 if problem.dtype != "f32" else 4))
    arguments = {
        "m": m,
        "n": n,
        "k": k,
        "lda": k + pad,
        "blocksize": blocksize,
        "dtype": DTYPES[problem.dtype],
        "quant_type": QUANT_TYPES[quant_type],
        "num_sms": multiprocessors,
        "a": library.upload("a", padded(a_stored, k + pad), dependent=True, alignment=16),
    }
    packed = pack_nibbles(codes.reshape(-1), not e2m1)
    if problem.word("layout", "packed") == "prepacked":
        packed = prepack(packed.reshape(n, k // 2))
        arguments["layout"] = 1
    arguments["b"] = library.upload("b", packed, alignment=16)
    blocks = -(-n * k // blocksize)
    if e2m1:
        scale = _e2m1_scales(library, arguments, random, n, k, exact)
    else:
        scale = _absmax(library, arguments, random, blocks, bool(problem.word("nested", 0)), exact)
    weight = weight * np.repeat(scale.reshape(-1), blocksize)[: n * k].reshape(n, k)
    expected = wide(a_stored, problem.dtype) @ weight.T
    if problem.word("bias", 1):
        bias = narrow(random.integers(-4, 5, n).astype(np.float64), problem.dtype)
        arguments["bias"] = library.upload("bias", bias, alignment=16)
        expected = expected + wide(bias, problem.dtype)
    address, reset, result = output(library, m, n, n, problem.dtype)
    arguments["out"] = address
    # Code and scale are rounded to the element type and so is their product; then sums in fp32, and one rounding more.
    step = HALF_STEP[problem.dtype]
    roundings = 0.0 if exact and e2m1 else 3 * step if problem.dtype != "f32" else 4 * step
    work = np.abs(wide(a_stored, problem.dtype)) @ np.abs(weight).T
    bound = (roundings + (0.0 if exact else k * 2.0**-24)) * work + 1.01 * step * np.abs(expected) + 1e-30
    if exact and e2m1:
        expected = wide(narrow(expected, problem.dtype), problem.dtype)
        bound = np.zeros_like(expected)
    return Case(arguments, reset, result, expected, bound, work, exact, np.ones((m, n), bool))


def prepack(rows: np.ndarray) -> np.ndarray:
    """Packed rows [n, k / 2] in the order of WeightLayout::kPrepacked."""
    n, width = rows.shape
    blocks = rows.reshape(n // 16, 2, 8, width // 32, 8, 4)  # row = 16 i + 8 h + g, byte = 32 j + 4 w + t
    return np.ascontiguousarray(blocks.transpose(0, 3, 2, 5, 1, 4)).reshape(-1)


def _e2m1_scales(
    library: Library, arguments: dict[str, int], random: np.random.Generator, n: int, k: int, exact: bool
) -> np.ndarray:
    codes = random.integers(48, 64, (n, k // 16)) if not exact else random.choice([48, 56, 64], (n, k // 16))
    factor = 0.5 if exact else 0.37
    arguments["scales"] = library.upload("scales", codes.astype(np.uint8), alignment=16)
    arguments["offset"] = library.upload("offset", np.array([factor], np.float32), alignment=16)
    scales: np.ndarray = E4M3[codes] * np.float64(np.float32(factor))
    return scales


def _absmax(
    library: Library, arguments: dict[str, int], random: np.random.Generator, blocks: int, nested: bool, exact: bool
) -> np.ndarray:
    if not nested:
        absmax = (2.0 ** random.integers(-3, 2, blocks) if exact else random.uniform(0.5, 2.0, blocks)).astype(
            np.float32
        )
        arguments["scales"] = library.upload("absmax", absmax, alignment=16)
        return absmax.astype(np.float64)
    code = np.sort(random.uniform(-1.0, 1.0, 256)).astype(np.float32)
    codes = random.integers(0, 256, blocks).astype(np.uint8)
    outer = random.uniform(0.5, 1.0, -(-blocks // 256)).astype(np.float32)
    offset = np.float32(1.25)
    arguments["scales"] = library.upload("absmax codes", codes, alignment=16)
    arguments["nested_absmax"] = library.upload("nested_absmax", outer, alignment=16)
    arguments["nested_code"] = library.upload("nested_code", code, alignment=16)
    arguments["offset"] = library.upload("offset", np.array([offset]), alignment=16)
    inner: np.ndarray = (code[codes] * outer[np.arange(blocks) // 256]).astype(np.float32) + offset
    return np.asarray(inner, np.float64)
