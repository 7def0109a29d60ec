"""What this machine has: driver, CUDA devices, torch, optional packages. Every question may go unanswered."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass

import torch

# Package -> what needs it.
OPTIONAL = {
    "safetensors": "checkpoints",
    "transformers": "from_pretrained",
    "bitsandbytes": "a peer in bench",
    "gemlite": "a peer in bench",
    "z3-solver": "prove",
    "matplotlib": "map and the picture of bench",
}
_VARIABLES = (
    "TILEWRIGHT_FORCE_TILE", "TILEWRIGHT_TUNED", "TILEWRIGHT_FRESH_WEIGHTS", "CUDA_VISIBLE_DEVICES",
    "CUDA_MODULE_LOADING", "CUDA_LAUNCH_BLOCKING",
)  # fmt: skip


@dataclass(frozen=True)
class Device:
    """One CUDA device as torch sees it."""

    index: int
    name: str
    cc: tuple[int, int]
    num_sms: int
    memory_bytes: int


@dataclass(frozen=True)
class Machine:
    """driver and driver_cuda: its version and the newest CUDA that it runs; None without one. no_devices: why none."""

    python: str
    system: str
    torch: str
    torch_cuda: str | None
    driver: str | None
    driver_cuda: str | None
    devices: tuple[Device, ...]
    no_devices: str
    packages: dict[str, str | None]
    variables: dict[str, str]


def look() -> Machine:
    """Asks, and never raises."""
    driver, driver_cuda = _driver()
    devices, reason = _devices(driver_cuda)
    return Machine(
        python=platform.python_version(),
        system=f"{sys.platform} {platform.machine()}, {' '.join(platform.libc_ver()) or 'unknown libc'}",
        torch=torch.__version__,
        torch_cuda=torch.version.cuda,
        driver=driver,
        driver_cuda=driver_cuda,
        devices=devices,
        no_devices=reason,
        packages={name: package_version(name) for name in OPTIONAL},
        variables={name: os.environ[name] for name in _VARIABLES if name in os.environ},
    )


def package_version(name: str) -> str | None:
    """The installed version of a package, without importing it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _driver() -> tuple[str | None, str | None]:
    """Driver version from NVML and the CUDA version of libcuda; neither needs a context."""
    cuda = _open("libcuda.so.1")
    number = ctypes.c_int(0)
    if cuda is None or cuda.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None, None
    return driver_version() or "unknown version", f"{number.value // 1000}.{number.value % 1000 // 10}"


def driver_version() -> str | None:
    """Such as 580.95.05; None without a driver. Asks NVML, which creates no context."""
    nvml = _open("libnvidia-ml.so.1")
    if nvml is None or nvml.nvmlInit_v2() != 0:
        return None
    text = ctypes.create_string_buffer(96)
    found = nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text))) == 0
    nvml.nvmlShutdown()
    return text.value.decode(errors="replace") if found else None


def _open(name: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _devices(driver_cuda: str | None) -> tuple[tuple[Device, ...], str]:
    if torch.version.cuda is None:
        return (), "this torch is built without CUDA"
    if driver_cuda is None:
        return (), "no NVIDIA driver is loaded"
    try:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        devices = tuple(_device(index) for index in range(count))
    except RuntimeError as error:
        return (), f"torch cannot open the devices: {str(error).splitlines()[0]}"
    return devices, "" if devices else f"torch for CUDA {torch.version.cuda} finds no device it can use"


def _device(index: int) -> Device:
    found = torch.cuda.get_device_properties(index)
    cc = (found.major, found.minor)
    return Device(index, found.name, cc, found.multi_processor_count, found.total_memory)
