"""Builds the aarch64 wheel on an x86_64 machine, checks it, and loads it under qemu where that is installed.

    python3 scripts/build_wheel_aarch64.py [--archs all]

Needs aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu); qemu-aarch64-static is optional. nvcc compiles host code
with that compiler, zig links for glibc 2.28, and libcudart_static.a comes out of the aarch64 nvidia-cuda-runtime.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from build_requirements import PYPROJECT, build_requirements
from build_wheel_local import WORK, check_instructions, make_tools
from environment import ROOT, run
from wheel_tools import (
    Timer,
    build_environment,
    commit_date,
    fresh,
    one_wheel,
    path_with,
    say_not_covered,
    write_linker,
)

HERE = WORK / "aarch64"
COMPILER = "aarch64-linux-gnu-g++"
LOADER = ROOT / "tests" / "wheels" / "load_library.c"


def fetch_cudart(python: Path) -> Path:
    """The folder with the aarch64 libcudart_static.a, and libcudadevrt.a, which CMake's compiler test links."""
    (pin,) = [
        text for text in build_requirements(PYPROJECT.read_text("utf-8")) if text.startswith("nvidia-cuda-runtime")
    ]
    folder = fresh(HERE / "cudart")
    flags = ["--no-deps", "--only-binary", ":all:", "--platform", "manylinux2014_aarch64", "--dest", folder]
    run([python, "-m", "pip", "download", "--quiet", *flags, pin])
    with zipfile.ZipFile(one_wheel(folder)) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if name.endswith(".a")])
    return folder / "nvidia" / "cu13" / "lib"


def write_toolchain(linker: Path, library: Path) -> Path:
    """The toolchain file of the cross build."""
    file = HERE / "toolchain.cmake"
    file.write_text(
        "set(CMAKE_SYSTEM_NAME Linux)\n"
        "set(CMAKE_SYSTEM_PROCESSOR aarch64)\n"
        f'set(CMAKE_C_COMPILER "{linker}")\n'
        f"set(CMAKE_CXX_COMPILER {COMPILER})\n"
        f"set(CMAKE_CUDA_HOST_COMPILER {COMPILER})\n"
        # CMake's compiler test links cudart, and would take the one of this machine.
        f'set(CMAKE_CUDA_FLAGS_INIT "-L{library}")\n',
        "utf-8",
    )
    return file


def build(python: Path, options: argparse.Namespace, timer: Timer) -> Path:
    """The unrepaired wheel."""
    HERE.mkdir(parents=True, exist_ok=True)
    library = fetch_cudart(python)
    linker = write_linker(WORK / "bin", python, "aarch64")
    toolchain = write_toolchain(linker, library)
    extra = {"_PYTHON_HOST_PLATFORM": "linux-aarch64", "PATH": path_with(python), "CXX": COMPILER}
    variables = build_environment(linker, options.archs, WORK / "ccache", {**extra, "CUDAHOSTCXX": COMPILER})
    out = fresh(HERE / "raw")
    cmake = HERE / "cmake" / options.archs.replace(";", "-")
    if options.clean:
        shutil.rmtree(cmake, ignore_errors=True)
    arguments = f"-DCMAKE_TOOLCHAIN_FILE={toolchain};-DTILEWRIGHT_CUDART={library / 'libcudart_static.a'}"
    flags = [
        "--wheel",
        "--no-isolation",
        "--skip-dependency-check",
        f"-Cbuild-dir={cmake}",
        f"-Ccmake.args={arguments}",
    ]
    timer.step("build", [python, "-m", "build", *flags, "--outdir", out, ROOT], extra=variables)
    return one_wheel(out)


def load(wheel: Path) -> str | None:
    """Load the library under emulation; None without qemu. Ends the script when it does not load."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        return None
    folder = fresh(HERE / "load")
    with zipfile.ZipFile(wheel) as archive:
        library = archive.extract("tilewright/_native.so", folder)
    program = folder / "load_library"
    run(["aarch64-linux-gnu-gcc", "-O1", "-Wall", "-o", program, LOADER, "-ldl"])
    command = [emulator, "-L", "/usr/aarch64-linux-gnu", str(program), library]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: the library does not load under {emulator}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--archs", default="all", help="arch list or variant to build")
    parser.add_argument("--clean", action="store_true", help="build from nothing")
    parser.add_argument("--instructions", choices=["sample", "all"], default="sample", help="kernels to read")
    return parser.parse_args()


def main() -> None:
    """Build, repair, check, load."""
    options = parse()
    if shutil.which(COMPILER) is None:
        sys.exit(f"error: there is no {COMPILER}; on Debian install g++-aarch64-linux-gnu.")
    python = make_tools(WORK / "tools")
    timer = Timer()
    raw = build(python, options, timer)
    extra = {"PATH": path_with(python), "SOURCE_DATE_EPOCH": commit_date()}
    timer.step("repair", [python, "-m", "auditwheel", "repair", "-w", fresh(HERE / "dist"), raw], extra=extra)
    wheel = one_wheel(HERE / "dist")
    check_instructions(python, wheel, options, timer)
    loaded = load(wheel)
    print(f"\n{wheel}: {wheel.stat().st_size:,} bytes; {timer.steps}")
    if loaded:
        print(f"loaded under emulation: {loaded}")
    more = ["torch and Python on aarch64: only the library was loaded, under emulation"]
    say_not_covered(more if loaded else ["loading: there is no qemu-aarch64-static", *more])


if __name__ == "__main__":
    main()
