"""What several cases use: the specs, quantised weights, devices to run on, and host builds of the binding."""

from __future__ import annotations

import functools
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import tilewright
from tilewright import _ops
from tilewright_codegen.ir import Family, SpecTree
from tilewright_codegen.tree import load_tree

ROOT = Path(__file__).parents[2]
HOST = Path(__file__).parent / "host"
ON_GPU = torch.cuda.is_available() and _ops.NATIVE.loaded
needs_gpu = pytest.mark.skipif(not ON_GPU, reason="needs a CUDA device and the native library")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
NO_CARD = "needs a CUDA device and the native library"
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=[pytest.mark.gpu, needs_gpu]),
]
LIMITS = {torch.float16: 2e-3, torch.bfloat16: 8e-3, torch.float32: 1e-5}
PROFILES = [(8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (10, 7), (11, 0), (12, 0), (12, 1)]


@functools.cache
def specs() -> SpecTree:
    """The shipped specs."""
    return load_tree(ROOT / "specs")


def problem(family: Family, M: int, N: int, K: int, num_sms: int, dtype: str = "bf16") -> dict[str, int | str]:
    """A problem of any family: its other inputs take their first word, or 64."""
    sizes: dict[str, int | str] = {"M": M, "N": N, "K": K, "num_sms": num_sms}
    found: dict[str, int | str] = {}
    for item in family.inputs:
        if item.name == "dtype":
            found[item.name] = dtype if dtype in item.words else item.words[0]
        elif item.words:
            found[item.name] = item.words[0]
        else:
            found[item.name] = sizes.get(item.name, min(64, item.limit))
    return found


def run_python(code: str, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """A fresh process."""
    environment = {**os.environ, **extra}
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment, check=False
    )


def weight(
    N: int, K: int, device: str = "cpu", quant_type: str = "nf4", **options: Any
) -> tuple[torch.Tensor, tilewright.QuantState, torch.Tensor]:
    """Codes, state and the fp32 value of a seeded weight, on a device."""
    values = torch.randn(N, K, generator=torch.Generator().manual_seed(N + K)) / math.sqrt(K)
    packed, state = tilewright.quantize_4bit(values, quant_type=quant_type, **options)
    return packed.to(device), state.to(device), tilewright.dequantize_4bit(packed, state).to(device)


def rows(M: int, K: int, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """Seeded activations."""
    return torch.randn(M, K, generator=torch.Generator().manual_seed(M)).to(device, dtype)


def nrmse(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Root mean square error over that of the expected values."""
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def poison(shape: Sequence[int], dtype: torch.dtype, device: str) -> None:
    """Fill what the allocator will hand out next with NaN."""
    block = torch.full(tuple(shape), math.nan, dtype=dtype, device=device)
    del block


def routes(device: str, x: torch.Tensor, packed: torch.Tensor, state: tilewright.QuantState) -> list[str]:
    """Every way in which a call can be answered: plain torch on the CPU; each legal tile and the fallback on a card."""
    if device == "cpu":
        return ["torch"]
    found = []
    for name in (*_ops.NATIVE.tile_names(), "fallback"):
        with tilewright.force_tile(name):
            try:
                tilewright.gemm_4bit(x, packed, state)
            except RuntimeError as error:
                if "cannot run" not in str(error):
                    raise
                continue
        found.append(name)
    assert len(found) > 1
    return found


def forced(route: str) -> Any:
    """Makes calls take a route of `routes`."""
    return nullcontext() if route == "torch" else tilewright.force_tile(route)


def render(archs: str, out: Path) -> Path:
    """The generated sources for a list of archs."""
    command = [sys.executable, "-m", "tilewright_codegen", "render", "--specs", str(ROOT / "specs")]
    subprocess.run([*command, "--archs", archs, "--out", str(out)], check=True, capture_output=True)
    return out


def host_program(source: str, archs: str, folder: Path) -> Callable[..., list[str]]:
    """Compiles a program of tests/cases/host against the selector for `archs`; the result runs it."""
    generated = render(archs, folder / "generated")
    includes = [
        HOST,
        ROOT / "tests/python/host",
        generated,
        ROOT / "csrc_templates/include",
        ROOT / "csrc_templates/src",
    ]
    program = folder / "program"
    flags = ["-std=c++17", "-O1", "-Wall", "-Werror", "-ffunction-sections", "-Wl,--gc-sections", "-pthread"]
    command = ["g++", *flags, *(f"-I{path}" for path in includes), str(HOST / source), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True)

    def run(*words: object) -> list[str]:
        done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return run


@contextmanager
def resident_growth(limit_bytes: int) -> Iterator[None]:
    """Fails when the process grew by more than `limit_bytes` inside."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    yield
    grown = resident() - before
    assert grown <= limit_bytes, f"{grown} bytes more than before"
