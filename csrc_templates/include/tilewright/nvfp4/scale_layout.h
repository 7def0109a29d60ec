// Where the e4m3 scales of an NVFP4 operand lie: one layout for quantisers, kernels on every engine, and tests.
//
// The scales of [rows, k] elements, one per 16 along k, come in atoms of 128 rows by 4 scales, 512 bytes each; atoms
// follow each other along k first, then along the rows. Within an atom the scale s of row r lies at (r % 32) * 16 + (r
// / 32) * 4 + s, so the four scales of a row are one aligned word and the rows r, r + 32, r + 64, r + 96 share 16
// bytes.
// Rows and scales that pad the last atoms are zero. Needs no CUDA header.
#pragma once

#include <cstdint>

#include "tilewright/host_device.h"

namespace tilewright::nvfp4 {

constexpr int kScaleGroup = 16;         // elements of k under one scale
constexpr int kScaleAtomRows = 128;
constexpr int kScaleAtomScales = 4;
constexpr int kScaleAtomBytes = kScaleAtomRows * kScaleAtomScales;

// Atoms from one group of 128 rows to the next.
TILEWRIGHT_HOST_DEVICE constexpr int64_t scale_atoms_per_row_group(int64_t k) {
  return (k + kScaleGroup * kScaleAtomScales - 1) / (kScaleGroup * kScaleAtomScales);
}

// Bytes of the whole array, padding included.
TILEWRIGHT_HOST_DEVICE constexpr int64_t scale_bytes(int64_t rows, int64_t k) {
  return (rows + kScaleAtomRows - 1) / kScaleAtomRows * scale_atoms_per_row_group(k) * kScaleAtomBytes;
}

// Byte of scale `scale` (0..3) of row `row` (0..127) within its atom.
TILEWRIGHT_HOST_DEVICE constexpr int scale_offset_in_atom(int row, int scale) {
  return row % 32 * 16 + row / 32 * 4 + scale;
}

// Byte of the scale of k 16 * `group` .. 16 * `group` + 15 of `row`.
TILEWRIGHT_HOST_DEVICE constexpr int64_t scale_offset(int64_t row, int64_t group, int64_t k) {
  const int64_t atom = row / kScaleAtomRows * scale_atoms_per_row_group(k) + group / kScaleAtomScales;
  return atom * kScaleAtomBytes +
         scale_offset_in_atom(static_cast<int>(row % kScaleAtomRows), static_cast<int>(group % kScaleAtomScales));
}

}  // namespace tilewright::nvfp4
