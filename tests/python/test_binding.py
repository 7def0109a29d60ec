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
    subprocess.run([*render, "--archs", "80;90a;120f", "--out", str(folder)], check=True, capture_output=True)
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


def test_device_without_an_image(library: Path) -> None:
    code = (
        "import ctypes, sys, torch\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "library.tilewright_register_torch.restype = ctypes.c_char_p\n"
        "assert library.tilewright_register_torch() is None\n"
        "library.setup(10, 7, 224)\n"
        "b, absmax = torch.zeros(32, dtype=torch.uint8), torch.zeros(1)\n"
        "torch.ops.tilewright.gemm_4bit(torch.ones(1, 64), b, absmax, 1, 64, 64, 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=False)
    text = "has compute capability 10.7, and this build of tilewright has machine code only for sm_80, sm_90a, sm_120f"
    assert f"RuntimeError: gemm_4bit: cuda:-1 {text}" in done.stderr


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
