"""Records what the tiles of recorded_cases.py give on a device of sm_90, for h200.npz.

python tests/emulator/record.py build DIR [JOBS]    one library a tile, by nvcc ($NVCC)
python tests/emulator/record.py run DIR OUT [NAME]  on the device, with torch
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import os
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
if importlib.util.find_spec("tilewright_codegen") is None:
    # The bare modules: nothing here needs the generator's dependencies.
    for name in ("tilewright_codegen", "tilewright_codegen.emulate"):
        module = types.ModuleType(name)
        module.__path__ = [str(ROOT / name.replace("tilewright_codegen", "codegen").replace(".", "/"))]
        sys.modules[name] = module

from tests.emulator.recorded_cases import RECORDED, Recorded  # noqa: E402
from tilewright_codegen.emulate.cases import narrow  # noqa: E402
from tilewright_codegen.emulate.library import _Assignments  # noqa: E402


def library_name(case: Recorded) -> str:
    """One library for each tile and element type."""
    text = f"{case.target.family} {case.target.engine} {sorted(case.target.fields.items())} {case.target.dtype}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def build(folder: Path, jobs: int) -> None:
    """Compiles every tile for sm_90a."""
    from tilewright_codegen.emulate.build import tile_header

    def compile_one(name: str, case: Recorded) -> None:
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "tile.h").write_text(tile_header(case.target))
        templates = ROOT / "csrc_templates"
        driver = templates / "emulator" / "drivers" / f"{case.target.family}.cpp"
        includes = [place, driver.parent, templates / "include"]
        command = [os.environ.get("NVCC", "nvcc"), "-std=c++17", "-O3", "-gencode", "arch=compute_90a,code=sm_90a"]
        command += ["-cudart", "static", "-Xcompiler=-fPIC,-fno-gnu-unique", "-shared", "-x", "cu", str(driver)]
        command += [*(f"-I{i}" for i in includes), "-o", str(folder / f"{name}.so")]
        if not (folder / f"{name}.so").is_file():
            subprocess.run(command, check=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compile_one, *zip(*{library_name(case): case for case in RECORDED}.items(), strict=True)))


class DeviceLibrary:
    """What emulate.library.Library is to the emulator, on the current CUDA device."""

    def __init__(self, path: Path) -> None:
        import torch

        self._torch = torch
        self._dll = ctypes.CDLL(str(path))
        self._dll.tilewright_driver_launch.argtypes = [ctypes.c_void_p]
        self._memory: dict[int, Any] = {}

    def upload(self, name: str, data: Any, dependent: bool = False, alignment: int = 256) -> int:
        flat = np.ascontiguousarray(np.ma.getdata(data)).view(np.uint8).reshape(-1)
        return self._keep(self._torch.from_numpy(flat.copy()).cuda())

    def allocate(self, name: str, count: int, alignment: int = 256) -> int:
        return self._keep(self._torch.zeros(count, dtype=self._torch.uint8, device="cuda"))

    def mark(self, address: int, count: int, add: int, remove: int) -> None:
        pass

    def forget(self, address: int, count: int, dependent: bool = True) -> None:
        self._memory[address].fill_(0xAB)

    def download(self, address: int, shape: tuple[int, ...], dtype: Any) -> Any:
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self._memory[address][:count].cpu().numpy().view(dtype).reshape(shape)

    def run(self, arguments: dict[str, int]) -> int:
        names = (ctypes.c_char_p * len(arguments))(*(name.encode() for name in arguments))
        values = (ctypes.c_int64 * len(arguments))(*arguments.values())
        given = _Assignments(names, values, len(arguments))
        error = self._dll.tilewright_driver_launch(ctypes.byref(given))
        self._torch.cuda.synchronize()
        return int(error)

    def _keep(self, tensor: Any) -> int:
        self._memory[tensor.data_ptr()] = tensor
        return int(tensor.data_ptr())


def run(folder: Path, out: Path, names: list[str]) -> None:
    """Launches every case ten times; keeps the result where all agree with each other."""
    results = {}
    for case in RECORDED:
        if names and case.name.split("/")[0] not in names:
            continue
        library = DeviceLibrary(folder / f"{library_name(case)}.so")
        family = importlib.import_module(f"tilewright_codegen.emulate.{case.target.family}")
        made = family.make_case(library, case.problem, 4)
        seen = set()
        for _ in range(10):
            made.reset()
            error = library.run(made.arguments)
            if error:
                break
            result = np.where(made.written, made.result(), 0.0)
            seen.add(result.tobytes())
        if error or len(seen) != 1:
            print(f"{case.name}: error {error}, {len(seen)} different results", flush=True)
            continue
        print(f"{case.name}: {made.compare()}", flush=True)
        results[case.name] = narrow(result, case.target.dtype)
    np.savez_compressed(out, **results)


if __name__ == "__main__":
    verb, folder = sys.argv[1], Path(sys.argv[2])
    if verb == "build":
        build(folder, int(sys.argv[3]) if len(sys.argv) > 3 else 2)
    else:
        run(folder, Path(sys.argv[3]), sys.argv[4:])
