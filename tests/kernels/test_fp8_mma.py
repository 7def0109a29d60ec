"""The decode and mma.sync engines of gemm_fp8 and gemm_nvfp4 on the emulator: results, repeatability, refusals."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright_codegen.emulate.build import BuildError, Target, build, compiler
from tilewright_codegen.emulate.cases import Case, Problem
from tilewright_codegen.emulate.library import Library
from tilewright_codegen.emulate.schedules import ERRORS, device_for

DECODE = {"mb": 8, "warps": 4, "warps_k": 2, "depth": 3, "occupancy": 1, "per_sm": 1, "a_kb": 8, "cluster": 0}
BULK = {"mb": 16, "warps": 4, "depth": 3, "occupancy": 2, "per_sm": 1, "a_kb": 4, "cluster": 1}
FP8 = {"mt": 32, "nt": 32, "kc": 128, "stages": 3, "warps_m": 2, "warps_n": 2}
NVFP4 = {"mt": 32, "nt": 64, "kc": 256, "stages": 2, "warps_m": 2, "warps_n": 2}
TARGETS = {
    "decode": Target("gemm_fp8", "decode", "decode", DECODE, (9, 0)),
    "decode89": Target("gemm_fp8", "decode", "decode89", DECODE, (8, 9), "f32"),
    "bulk": Target("gemm_fp8", "decode", "bulk", BULK, (9, 0)),
    "bulk2": Target("gemm_fp8", "decode", "bulk2", {**BULK, "mb": 8, "cluster": 2}, (9, 0), "f32"),
    "bulk4": Target("gemm_fp8", "decode", "bulk4", {**BULK, "warps": 8, "cluster": 4, "per_sm": 2}, (9, 0)),
    "bulk64": Target("gemm_fp8", "decode", "bulk64", {**BULK, "mb": 64, "depth": 4}, (9, 0)),
    "bulk48": Target(
        "gemm_fp8", "decode", "bulk48", {**BULK, "mb": 48, "warps": 8, "cluster": 2, "a_kb": 8}, (9, 0), "f32"
    ),
    "mma": Target("gemm_fp8", "mma_m16n8k32", "mma", FP8, (12, 0)),
    "nvfp4": Target("gemm_nvfp4", "mma_block_scaled", "nvfp4", NVFP4, (12, 1)),
}
SIZES = {
    "decode": (5, 75, 640),
    "decode89": (5, 75, 640),
    "bulk": (13, 235, 640),
    "bulk2": (5, 51, 640),
    "bulk4": (16, 115, 640),
    "bulk64": (61, 235, 640),
    "bulk48": (45, 115, 640),
    "mma": (37, 53, 640),
    "nvfp4": (37, 93, 800),
}


@pytest.fixture(scope="module", autouse=True)
def cache() -> None:
    folder = Path(__file__).resolve().parents[2] / "build" / "emulated"
    os.environ.setdefault("TILEWRIGHT_EMULATOR_CACHE", str(folder))
    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))


@pytest.fixture(params=TARGETS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def library(name: str) -> Iterator[Library]:
    target = TARGETS[name]
    loaded = Library(build(target), device_for(target))
    yield loaded
    loaded.close()


def make(library: Library, name: str, size: tuple[int, int, int] | None = None, **words: Any) -> Case:
    target = TARGETS[name]
    family = importlib.import_module(f"tilewright_codegen.emulate.{target.family}")
    case = family.make_case(library, Problem(*(size or SIZES[name]), target.dtype, words=words), 2)
    assert isinstance(case, Case)
    return case


def run(library: Library, case: Case, seed: int) -> str:
    """Launches once: what the launch said, the first finding, or ''."""
    case.reset()
    error, findings = library.run(case.arguments, seed)
    return str(findings[0]) if findings else ERRORS.get(error, str(error)) if error else ""


WORDS: dict[str, list[dict[str, Any]]] = {
    "gemm_fp8": [
        {"scaling": "tensor"},
        {"scaling": "row", "a_type": "e5m2", "bias": 0, "pad": 32, "pad_out": 3},
        {"scaling": "block", "fast_accum": 0},
    ],
    "gemm_nvfp4": [{}, {"bias": 0, "pad_out": 3}],
}


def test_results(library: Library, name: str) -> None:
    for words in WORDS[TARGETS[name].family]:
        case = make(library, name, **words)
        assert run(library, case, 1) == ""
        difference = case.compare()
        assert difference.worst <= 1.0, f"{words}: {difference}"


def test_results_do_not_depend_on_timing(library: Library, name: str) -> None:
    case = make(library, name)
    results = []
    for seed in range(6):
        assert run(library, case, seed) == ""
        results.append(case.result())
    assert all(np.array_equal(results[0], result) for result in results[1:])


def test_tails_of_k(library: Library, name: str) -> None:
    step = 32 if name == "nvfp4" else 16
    for k in (step, 144 if step == 16 else 288, 128 + step):
        case = make(library, name, (*SIZES[name][:2], k))
        assert run(library, case, k) == ""
        difference = case.compare()
        assert difference.worst <= 1.0, f"K {k}: {difference}"


@pytest.mark.parametrize("grouping", ["contiguous", "masked"])
@pytest.mark.parametrize("scaling", ["row", "block"])
def test_groups(grouping: str, scaling: str) -> None:
    target = TARGETS["mma"]
    library = Library(build(target), device_for(target))
    case = make(library, "mma", (41, 40, 256), grouping=grouping, groups=3, scaling=scaling)
    assert run(library, case, 3) == ""
    difference = case.compare()
    assert difference.worst <= 1.0, str(difference)
    library.close()


INVALID, UNSUPPORTED, MISALIGNED = "cudaErrorInvalidValue", "cudaErrorNotSupported", "cudaErrorMisalignedAddress"
REFUSALS: dict[str, list[tuple[dict[str, int], str]]] = {
    "gemm_fp8": [
        ({"m": -1}, INVALID),
        ({"dtype": 0}, INVALID),
        ({"a_type": 2}, INVALID),
        ({"scaling": 3}, INVALID),
        ({"lda": 624}, INVALID),
        ({"ldo": 1}, INVALID),
        ({"out": 0}, INVALID),
        ({"a": 0}, INVALID),
        ({"scale_b": 0}, INVALID),
        ({"grouping": 2, "groups": 0}, INVALID),
        ({"k": 633}, UNSUPPORTED),
        ({"k": 624, "scaling": 2}, UNSUPPORTED),
        ({"lda": 648}, MISALIGNED),
        ({"ldb": 648}, MISALIGNED),
        ({"a": 8}, MISALIGNED),
        ({"b": 8}, MISALIGNED),
        ({"out": 1}, MISALIGNED),
    ],
    "gemm_nvfp4": [
        ({"n": -1}, INVALID),
        ({"dtype": 0}, INVALID),
        ({"k": 793}, INVALID),
        ({"ldo": 1}, INVALID),
        ({"global_a": 0}, INVALID),
        ({"scale_a": 0}, INVALID),
        ({"k": 784}, UNSUPPORTED),
        ({"b": 8}, MISALIGNED),
        ({"scale_a": 8}, MISALIGNED),
        ({"out": 1}, MISALIGNED),
    ],
}
DECODE_REFUSALS: list[tuple[dict[str, int], str]] = [
    ({"k": 0}, UNSUPPORTED),
    ({"grouping": 2, "groups": 1, "group_rows": 16}, UNSUPPORTED),
    ({"num_sms": 0}, INVALID),
]
LONG = {"k": 65536, "lda": 65536, "ldb": 65536}
OWN_REFUSALS: dict[str, list[tuple[dict[str, int], str]]] = {
    "decode": [({"m": 9}, UNSUPPORTED), (LONG, UNSUPPORTED)],  # A of 5 rows exceeds a_kb
    "decode89": [({"m": 9}, UNSUPPORTED), (LONG, UNSUPPORTED)],
    "bulk": [({"m": 17}, UNSUPPORTED), ({**LONG, "scaling": 2}, UNSUPPORTED)],  # scales of A exceed a_kb
    "bulk2": [({"m": 9}, UNSUPPORTED), ({"n": 65, "ldo": 65}, UNSUPPORTED)],  # two tiles, one cluster
    "bulk4": [({"m": 17}, UNSUPPORTED), ({"n": 129, "ldo": 129}, UNSUPPORTED)],
    "bulk64": [({"m": 65}, UNSUPPORTED), ({**LONG, "scaling": 2}, UNSUPPORTED)],
    "bulk48": [({"m": 49}, UNSUPPORTED), ({"n": 257, "ldo": 257}, UNSUPPORTED)],
}


def test_refusals(library: Library, name: str) -> None:
    refusals = REFUSALS[TARGETS[name].family] + (DECODE_REFUSALS + OWN_REFUSALS[name] if name in OWN_REFUSALS else [])
    for change, expected in refusals:
        case = make(library, name)
        moved = {
            key: case.arguments[key] + value
            for key, value in change.items()
            if key in ("a", "b", "out", "scale_a") and value
        }
        case.arguments.update({**change, **moved})
        case.reset()
        before = case.result()
        error, findings = library.run(case.arguments, 0)
        assert (ERRORS.get(error), findings) == (expected, ()), change
        assert np.array_equal(before, case.result(), equal_nan=True), change


@pytest.mark.parametrize("empty", ["m", "n"])
def test_nothing_to_do_is_a_success(library: Library, name: str, empty: str) -> None:
    case = make(library, name)
    case.arguments.update({empty: 0, "a": 0, "b": 0, "out": 0})
    assert run(library, case, 0) == ""


def test_without_k_the_result_is_the_bias() -> None:
    for name in ("mma", "nvfp4"):
        target = TARGETS[name]
        library = Library(build(target), device_for(target))
        case = make(library, name)
        case.arguments["k"] = 0
        assert run(library, case, 0) == ""
        assert set(np.unique(case.result())) <= set(range(-4, 5))
        library.close()
