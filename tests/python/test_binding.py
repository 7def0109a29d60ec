"""The C++ binding, driven with CPU tensors: everything but the kernels is the code that runs on CUDA."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOST = Path(__file__).parent / "host"
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
NO_RUNTIME = ["-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The binding with a rendered selector, a host device, and CPU as its dispatch key; linked without libstdc++."""
    folder = tmp_path_factory.mktemp("binding")
    render = [sys.executable, "-m", "tilewright_codegen", "render", "--specs", str(ROOT / "specs")]
    subprocess.run([*render, "--archs", "80;89+PTX;90a;120f", "--out", str(folder)], check=True, capture_output=True)
    includes = [f"-I{path}" for path in (HOST, folder, ROOT / "csrc_templates/include", ROOT / "csrc_templates/src")]
    sources = [*sorted((ROOT / "csrc_templates/src").glob("*.cpp")), HOST / "device.cpp"]
    key = '-DTILEWRIGHT_DISPATCH_KEY="CPU"'
    objects = []
    for source in sources:
        objects.append(folder / f"{source.stem}.o")
        command = ["g++", *FLAGS, *NO_RUNTIME, key, *includes, "-c", str(source), "-o", str(objects[-1])]
        subprocess.run(command, check=True)
    path = folder / "binding.so"
    command = ["gcc", "-shared", "-Wl,--no-undefined", "-o", str(path), *map(str, objects), "-ldl"]
    subprocess.run(command, check=True)
    return path


def test_binding(library: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HOST / "drive.py"), str(library)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "done", done.stderr[-3000:]


ASK = """
import ctypes, sys, torch
library = ctypes.CDLL(sys.argv[1])
library.tilewright_register_torch.restype = ctypes.c_char_p
assert library.tilewright_register_torch() is None
library.setup_driver(int(sys.argv[4]))
library.setup(int(sys.argv[2]), int(sys.argv[3]), 148)
implementations = torch.library.Library("tilewright", "IMPL")
answer = lambda *arguments: torch.full((1, 1), 7.0)
for name in ("_gemm_4bit_torch", "_dequantize_4bit_torch"):
    implementations.impl(name, answer, "CPU")
implementations.impl("_quantize_4bit_torch", lambda *arguments: (torch.ones(1),) * 3, "CPU")
b, absmax, x = torch.zeros(32, dtype=torch.uint8), torch.zeros(1), torch.ones(1, 64)
for _ in range(3):
    product = torch.ops.tilewright.gemm_4bit(x, b, absmax, 1, 64, 64, 0)
    weight = torch.ops.tilewright.dequantize_4bit(b, absmax, 1, 64, 64, 0, 2)
    codes = torch.ops.tilewright.quantize_4bit(x, 64, 0)[0]
print(product.item(), weight.numel(), codes.dtype)
text = ctypes.create_string_buffer(1024)
print(library.tilewright_device_refusal(-1, text, 1024), text.value.decode())
"""
TRANSLATES, REFUSES, OUT_OF_MEMORY = 0, 222, 2  # what CUDA says of a kernel that is loaded
KERNELS, TORCH = "0.0 64 torch.uint8", "7.0 1 torch.float32"


@pytest.mark.parametrize(
    ("cc", "driver", "answer", "refusal"),
    [
        ((9, 0), REFUSES, KERNELS, "0 "),  # machine code: the driver translates nothing
        ((10, 7), TRANSLATES, KERNELS, "0 "),
        ((13, 0), TRANSLATES, KERNELS, "0 "),
        ((13, 0), OUT_OF_MEMORY, KERNELS, "0 "),  # says nothing about the code
        (
            (13, 0),
            REFUSES,
            TORCH,
            "1 cuda:-1 has compute capability 13.0, and this build of tilewright has code only for sm_80, sm_89, "
            "sm_90a, sm_120f, compute_89; its PTX was made with CUDA 13.5 and the driver, of CUDA 13.0, does not "
            "translate it (the provided PTX was compiled with an unsupported toolchain.); a newer driver does",
        ),
        (
            (7, 5),
            TRANSLATES,
            TORCH,
            "1 cuda:-1 has compute capability 7.5, and this build of tilewright has code only for sm_80, sm_89, "
            "sm_90a, sm_120f, compute_89; build it with TILEWRIGHT_ARCHS set for this device",
        ),
    ],
)
def test_a_device_that_no_kernel_runs_on_is_served_by_torch(
    cc: tuple[int, int], driver: int, answer: str, refusal: str, library: Path
) -> None:
    command = [sys.executable, "-c", ASK, str(library), *map(str, cc), str(driver)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [answer, refusal], done.stderr


def test_registering_before_torch_is_refused(library: Path) -> None:
    code = (
        "import ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "library.tilewright_register_torch.restype = ctypes.c_char_p\n"
        "print(library.tilewright_register_torch().decode())\n"
        "import torch\n"
        "print(library.tilewright_register_torch())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["libtorch_cpu.so is not loaded; import torch first", "None"], done.stderr


def test_the_library_needs_neither_torch_nor_libstdcxx(library: Path) -> None:
    done = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True)
    needed = [line.split("[")[1].rstrip("]") for line in done.stdout.splitlines() if "(NEEDED)" in line]
    assert {name.split(".")[0].split("-")[0] for name in needed} <= {"libc", "libdl", "ld"}
