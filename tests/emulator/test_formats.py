"""The number formats of the emulated headers, against numpy."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tilewright_codegen.emulate.build import compiler
from tilewright_codegen.emulate.cases import narrow, wide
from tilewright_codegen.emulate.formats import E4M3, E5M2

EMULATOR = Path(__file__).resolve().parents[2] / "csrc_templates" / "emulator"
SOURCE = """
#include "formats.h"
#include "narrow.h"
using namespace tilewright::emulator;
extern "C" {
void to_half(const float* x, uint16_t* y, int n) { for (int i = 0; i < n; ++i) y[i] = half_bits(x[i]); }
void to_bf16(const float* x, uint16_t* y, int n) { for (int i = 0; i < n; ++i) y[i] = bf16_bits(x[i]); }
void to_e4m3(const float* x, uint8_t* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = small_float_bits(x[i], 3, -9, 448.0f, 0x7e);
}
void to_e5m2(const float* x, uint8_t* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = small_float_bits(x[i], 2, -16, 57344.0f, 0x7b);
}
void from_half(const uint16_t* x, float* y, float* z, int n) {
  for (int i = 0; i < n; ++i) y[i] = half_float(x[i]), z[i] = half_value(x[i]);
}
void tables(float* e4m3, float* e5m2) {
  for (int i = 0; i < 256; ++i) e4m3[i] = byte_tables().e4m3[i], e5m2[i] = byte_tables().e5m2[i];
}
}
"""


@pytest.fixture(scope="module")
def conversions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("formats")
    (folder / "formats.cpp").write_text(SOURCE)
    includes = [f"-I{EMULATOR / 'include'}", f"-I{EMULATOR / 'runtime'}"]
    command = [compiler(), "-std=c++17", "-O1", "-fPIC", "-shared", *includes, str(folder / "formats.cpp")]
    subprocess.run([*command, "-o", str(folder / "formats.so")], check=True)
    return ctypes.CDLL(str(folder / "formats.so"))


def floats() -> np.ndarray:
    """Every pattern of half a million of fp32's, with ties of the 16-bit formats among them; no NaN."""
    random = np.random.default_rng(1)
    bits = random.integers(0, 2**32, 400_000, dtype=np.uint64).astype(np.uint32)
    ties = (random.integers(0, 2**19, 100_000, dtype=np.uint64) << 13 | 1 << 12).astype(np.uint32)
    values = np.concatenate([bits, ties, ties << 3, [0x477FF000, 0x477FEFFF, 0x33000000, 0x33000001]]).astype(np.uint32)
    found = values.view(np.float32)
    return found[~np.isnan(found)]


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize(("name", "dtype"), [("half", "f16"), ("bf16", "bf16")])
def test_to_16_bits(conversions: ctypes.CDLL, name: str, dtype: str) -> None:
    values = floats()
    got = np.empty(values.size, np.uint16)
    conversions[f"to_{name}"](address(values), address(got), values.size)
    np.testing.assert_array_equal(got, narrow(values, dtype).view(np.uint16))


def test_from_half(conversions: ctypes.CDLL) -> None:
    patterns = np.arange(65536, dtype=np.uint16)
    as_stored, as_operand = np.empty(65536, np.float32), np.empty(65536, np.float32)
    conversions.from_half(address(patterns), address(as_stored), address(as_operand), 65536)
    expected = wide(patterns.view(np.float16), "f16")
    np.testing.assert_array_equal(as_stored, expected)
    np.testing.assert_array_equal(as_operand, expected)


def test_tables(conversions: ctypes.CDLL) -> None:
    e4m3, e5m2 = np.empty(256, np.float32), np.empty(256, np.float32)
    conversions.tables(address(e4m3), address(e5m2))
    np.testing.assert_array_equal(e4m3, E4M3)
    np.testing.assert_array_equal(e5m2, E5M2)


@pytest.mark.parametrize(("name", "table", "largest"), [("e4m3", E4M3, 0x7E), ("e5m2", E5M2, 0x7B)])
def test_to_8_bits(conversions: ctypes.CDLL, name: str, table: np.ndarray, largest: int) -> None:
    """Magnitudes go to the nearest entry, ties to the even code, what is larger to the largest."""
    entries = table[: largest + 1]
    middles = (entries[1:] + entries[:-1]) / 2
    values = np.concatenate([entries, middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf), [1e6]])
    values = values.astype(np.float32)
    got = np.empty(values.size, np.uint8)
    conversions[f"to_{name}"](address(values), address(got), values.size)
    distance = np.abs(values[:, None].astype(np.float64) - entries)
    nearest = distance == distance.min(axis=1, keepdims=True)
    expected = np.array(
        [codes[codes % 2 == 0][0] if codes.size > 1 else codes[0] for codes in map(np.flatnonzero, nearest)]
    )
    np.testing.assert_array_equal(got, expected)
