"""The kernels that quantise to FP8 and NVFP4, executed on the host: the bytes of the CPU path, and no findings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tilewright import reference_fp8, reference_nvfp4
from tilewright_codegen.data import templates_folder
from tilewright_codegen.emulate import build
from tilewright_codegen.emulate.library import Device, Library

DRIVER = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "driver.h"

#include "tilewright/quantize/quantize_fp8.cuh"
#include "tilewright/quantize/quantize_nvfp4.cuh"

using namespace tilewright;

static int to_fp8(const emulator::Assignments& assignments) {
  QuantizeFp8Args arguments{};
  for (int i = 0; i < assignments.count; ++i) {
    TILEWRIGHT_ASSIGN(values);
    TILEWRIGHT_ASSIGN(codes);
    TILEWRIGHT_ASSIGN(scales);
    TILEWRIGHT_ASSIGN(amax);
    TILEWRIGHT_ASSIGN(given);
    TILEWRIGHT_ASSIGN(rows);
    TILEWRIGHT_ASSIGN(columns);
    TILEWRIGHT_ASSIGN(scale_row);
    TILEWRIGHT_ASSIGN(scale_column);
    TILEWRIGHT_ASSIGN(dtype);
    TILEWRIGHT_ASSIGN(type);
    TILEWRIGHT_ASSIGN(granularity);
  }
  return quantize_fp8(arguments, nullptr);
}

static int to_nvfp4(const emulator::Assignments& assignments) {
  QuantizeNvfp4Args arguments{};
  for (int i = 0; i < assignments.count; ++i) {
    TILEWRIGHT_ASSIGN(values);
    TILEWRIGHT_ASSIGN(codes);
    TILEWRIGHT_ASSIGN(scales);
    TILEWRIGHT_ASSIGN(global_scale);
    TILEWRIGHT_ASSIGN(amax);
    TILEWRIGHT_ASSIGN(given);
    TILEWRIGHT_ASSIGN(rows);
    TILEWRIGHT_ASSIGN(columns);
    TILEWRIGHT_ASSIGN(dtype);
  }
  return quantize_nvfp4(arguments, nullptr);
}

extern "C" int tilewright_driver_launch(const void* given) {
  const auto& assignments = *static_cast<const emulator::Assignments*>(given);
  for (int i = 0; i < assignments.count; ++i) {
    if (std::strcmp(assignments.names[i], "granularity") == 0) return to_fp8(assignments);
  }
  return to_nvfp4(assignments);
}
"""
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# Whole and broken vectors of 16 bytes, whole and broken blocks of 128, more rows than a block has threads.
SHAPES = [(1, 1), (3, 130), (2, 256), (131, 264), (260, 12)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("quantize")
    emulator = templates_folder() / "emulator"
    (folder / "drivers").mkdir()
    for name in ("include", "runtime", "drivers/driver.h"):
        (folder / name).symlink_to((emulator / name).resolve())
    (folder / "drivers/quantize.cpp").write_text(DRIVER)
    root = folder / "kernels"
    for name, text in build.rewritten_headers().items():
        (root / "include" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "include" / name).write_text(text)
    try:
        driver = build._driver_object(folder / "drivers/quantize.cpp", root, build.device_flags((9, 0)))
        path = Path(folder / "quantize.so")
        build._link([driver, *build._runtime(emulator)], path)
    except build.BuildError as error:
        if "no C++ compiler" in str(error):
            pytest.skip(str(error))
        raise
    found = Library(path, Device())
    yield found
    found.close()


def upload(library: Library, name: str, tensor: torch.Tensor) -> int:
    """A tensor in device memory."""
    return library.upload(name, tensor.contiguous().view(torch.uint8).reshape(-1).numpy(), alignment=16)


def download(library: Library, address: int, like: torch.Tensor) -> torch.Tensor:
    """The bytes of an output as large as `like`."""
    count = like.numel() * like.element_size()
    return torch.from_numpy(library.download(address, (count,), np.uint8).copy())


def same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """The same bytes."""
    assert torch.equal(found, wanted.reshape(-1).contiguous().view(torch.uint8))


def values(M: int, K: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows of many sizes; one of zeros, one value that is no number, one that is infinite."""
    torch.manual_seed(M * K)
    x = torch.randn(M, K) * 10.0 ** torch.randint(-6, 5, (M, 1))
    x[M // 2] = 0.0
    if M > 1:
        x[0, K // 2], x[-1, -1] = math.nan, -math.inf
    return x.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("granularity", range(4))
@pytest.mark.parametrize("fp8_type", [0, 1])
def test_fp8(library: Library, dtype: torch.dtype, granularity: int, fp8_type: int) -> None:
    for seed, (M, K) in enumerate(SHAPES):
        for given in (None, torch.tensor(0.37)) if granularity == 0 else (None,):
            x = values(M, K, dtype)
            codes, scales = reference_fp8.quantize(x, granularity, fp8_type, given)
            flat = scales.t() if granularity == reference_fp8.BLOCK_1X128 else scales
            arguments = {
                "values": upload(library, "values", x),
                "codes": library.allocate("codes", M * K, 16),
                "scales": library.allocate("scales", 4 * scales.numel(), 16),
                "amax": library.allocate("amax", 4, 16),
                "given": 0 if given is None else upload(library, "given", given.reshape(1)),
                "rows": M,
                "columns": K,
                "scale_row": scales.stride()[0] if scales.dim() else 0,
                "scale_column": scales.stride()[1] if scales.dim() else 0,
                "dtype": DTYPES.index(dtype),
                "type": fp8_type,
                "granularity": granularity,
            }
            assert library.run(arguments, seed) == (0, ())
            same(download(library, arguments["scales"], scales), flat)
            same(download(library, arguments["codes"], codes), codes)
            library.release()


@pytest.mark.parametrize("dtype", DTYPES)
def test_nvfp4(library: Library, dtype: torch.dtype) -> None:
    for seed, (M, K) in enumerate([(1, 16), (3, 80), (128, 64), (131, 272)]):
        for given in (None, torch.tensor(0.01)):
            x = values(M, K, dtype)
            codes, scales, scale = reference_nvfp4.quantize(x, given)
            arguments = {
                "values": upload(library, "values", x),
                "codes": library.allocate("codes", codes.numel(), 16),
                "scales": library.allocate("scales", scales.numel(), 16),
                "global_scale": library.allocate("global_scale", 4, 16),
                "amax": library.allocate("amax", 4, 16),
                "given": 0 if given is None else upload(library, "given", given.reshape(1)),
                "rows": M,
                "columns": K,
                "dtype": DTYPES.index(dtype),
            }
            assert library.run(arguments, seed) == (0, ())
            same(download(library, arguments["global_scale"], scale.reshape(1)), scale.reshape(1))
            same(download(library, arguments["scales"], scales), scales)
            same(download(library, arguments["codes"], codes), codes)
            library.release()


def test_refusals(library: Library) -> None:
    """Sizes and pointers that do not fit, before anything is launched."""
    one = {"rows": 1, "columns": 16, "values": 16, "codes": 16, "scales": 16, "granularity": 1}
    for change, error in (({"rows": -1}, 1), ({"values": 0}, 1), ({"rows": 0}, 0), ({"granularity": 0, "amax": 0}, 1)):
        assert library.run({**one, **change}, 0) == (error, ())
    other = {"rows": 1, "columns": 16, "values": 16, "codes": 16, "scales": 16, "global_scale": 16, "amax": 16}
    for change, error in (({"columns": 24}, 1), ({"amax": 0}, 1), ({"columns": 0}, 0), ({"global_scale": 0}, 1)):
        assert library.run({**other, **change}, 0) == (error, ())
