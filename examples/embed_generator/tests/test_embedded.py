"""The built library: decisions without a GPU, and what a machine without one is told."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import embedded
import pytest

SPECS = Path(__file__).parents[1] / "specs"
PROBLEMS = [(M, N, 512) for M in (1, 8, 9, 64, 640, 4096) for N in (1, 64, 704, 8192)]
CARDS = {"sm80": ((8, 0), 108), "sm90": ((9, 0), 132)}


@pytest.mark.parametrize("arch", CARDS)
def test_the_library_decides_as_the_specs_say(arch: str) -> None:
    cc, num_sms = CARDS[arch]
    lines = [{"cc": list(cc), "M": M, "N": N, "K": K, "num_sms": num_sms, "dtype": "f16"} for M, N, K in PROBLEMS]
    command = [sys.executable, "-m", "tilewright_codegen", "decide", "dense_gemm", "--specs", str(SPECS)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    expected = [json.loads(line)["tile"] for line in done.stdout.splitlines()]
    assert [embedded.choose(cc, num_sms, *problem) for problem in PROBLEMS] == expected
    assert set(expected) >= {"8x32-32", "32x32-32"}
    assert ("64x64-16" in expected) == (arch == "sm90")


def test_cards_without_code_are_told_apart() -> None:
    assert embedded.choose((8, 6), 84, 1, 64, 64) == "8x32-32"  # loads the code of 8.0
    assert embedded.choose((7, 5), 40, 1, 64, 64) is None
    assert embedded.choose((12, 0), 170, 1, 64, 64) is None


def has_device() -> bool:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@pytest.mark.skipif(has_device(), reason="there is a device")
def test_a_machine_without_a_gpu_gets_a_clear_error() -> None:
    with pytest.raises(RuntimeError, match="dense_gemm: there is no CUDA device to run on: CUDA driver version"):
        embedded.dense_gemm(0, 0, 0, 1, 64, 64)


@pytest.mark.skipif(not has_device(), reason="needs a device")
@pytest.mark.parametrize(("M", "N", "K"), [(1, 5, 7), (33, 65, 100), (640, 1216, 64)])
def test_products_are_right(M: int, N: int, K: int) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(M, K, device="cuda"), torch.randn(N, K, device="cuda")
    out = torch.empty(M, N, device="cuda")
    embedded.dense_gemm(a.data_ptr(), b.data_ptr(), out.data_ptr(), M, N, K, "f32")
    torch.testing.assert_close(out, a @ b.T, rtol=1e-3, atol=1e-3)
