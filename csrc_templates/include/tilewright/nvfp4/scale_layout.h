// Where the e4m3 scale of (row, group of 16 along K) stands: the layout that block-scaled tensor cores read.
// For host, device and tests; needs no CUDA header.
//
// Scales are gathered in blocks of 128 rows by 4 groups, 512 bytes each, block rows one after the other. Within a block
// the rows r, r + 32, r + 64 and r + 96 stand side by side, 4 bytes each, so that 16 bytes hold one row of a 32 x 16 tile.
// Rows and groups past the operand, up to the next full block, are padding: zero bytes that no result depends on.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define TILEWRIGHT_SCALE_LAYOUT_FUNCTION __host__ __device__ constexpr
#else
#define TILEWRIGHT_SCALE_LAYOUT_FUNCTION constexpr
#endif

namespace tilewright::nvfp4 {

inline constexpr int kScaleGroup = 16;        // elements of K that share a scale
inline constexpr int kScaleBlockRows = 128;   // rows of a block
inline constexpr int kScaleBlockGroups = 4;   // groups of a block: 64 elements of K
inline constexpr int kScaleBlockBytes = 512;  // bytes of a block

// Blocks along the rows of an operand.
TILEWRIGHT_SCALE_LAYOUT_FUNCTION int64_t scale_block_rows(int64_t rows) {
  return (rows + kScaleBlockRows - 1) / kScaleBlockRows;
}

// Blocks along the K of an operand.
TILEWRIGHT_SCALE_LAYOUT_FUNCTION int64_t scale_block_columns(int64_t k) {
  const int64_t groups = (k + kScaleGroup - 1) / kScaleGroup;
  return (groups + kScaleBlockGroups - 1) / kScaleBlockGroups;
}

// Bytes of all scales of a [rows, k] operand, padding included.
TILEWRIGHT_SCALE_LAYOUT_FUNCTION int64_t scale_bytes(int64_t rows, int64_t k) {
  return scale_block_rows(rows) * scale_block_columns(k) * kScaleBlockBytes;
}

// Byte offset, within its block, of a row (0 to 127) and group (0 to 3).
TILEWRIGHT_SCALE_LAYOUT_FUNCTION int scale_offset_in_block(int row, int group) {
  return row % 32 * 16 + row / 32 * 4 + group;
}

// Byte offset of the scale of `row` and `group` (k / 16) in an operand with `block_columns` blocks along K.
TILEWRIGHT_SCALE_LAYOUT_FUNCTION int64_t scale_offset(int64_t row, int64_t group, int64_t block_columns) {
  const int64_t block = row / kScaleBlockRows * block_columns + group / kScaleBlockGroups;
  return block * kScaleBlockBytes +
         scale_offset_in_block(static_cast<int>(row % kScaleBlockRows), static_cast<int>(group % kScaleBlockGroups));
}

}  // namespace tilewright::nvfp4

#undef TILEWRIGHT_SCALE_LAYOUT_FUNCTION
