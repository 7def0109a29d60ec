// Descriptors of tcgen05: operands in shared memory, and what an instruction does.
#pragma once

#include <cstdint>

#include "report.h"
#include "tensor_map.h"

namespace tilewright::emulator {

// A K-major operand in shared memory.
struct TensorOperand {
  uint32_t start, leading, stride;
  int pattern;
  bool onward;  // rows that end go on in the tile at `leading`

  // `wide`: the start has 15 bits (sm_107). Ends the launch for fields that make no sense.
  static TensorOperand decode(uint64_t bits, bool wide, bool may_go_on, Place place);

  // Shared offset of 16 bytes: row `row`, byte 16 * chunk along k.
  uint32_t at(int row, int chunk) const {
    const auto r = static_cast<uint32_t>(row), c = static_cast<uint32_t>(chunk);
    if (pattern == 0) return start + r / 8 * stride + r % 8 * 16 + c * leading;
    const auto width = static_cast<uint32_t>(pattern);
    const uint32_t column = start % width + c * 16;
    const uint32_t tile = onward && column >= width ? leading : start - start % width;
    return swizzled(tile + r / 8 * stride + r % 8 * width + (onward ? column % width : column), pattern);
  }
};

struct TensorInstruction {
  int m, n;
  int k_bytes;      // 32, 48 or 64
  bool a_e5m2, b_e5m2;
  int scale_byte_a, scale_byte_b;

  static TensorInstruction decode_fp8(uint32_t bits, int minor, Place place);
  static TensorInstruction decode_fp4(uint32_t bits, int minor, Place place);
};

}  // namespace tilewright::emulator
