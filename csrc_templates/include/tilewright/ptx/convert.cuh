// Conversions of eight-bit floating-point numbers (sm_89 and later).
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// The two e4m3 bytes in the lower half of `bytes` as two halves, the lower byte in the lower half. Exact; NaN stays
// NaN.
__device__ __forceinline__ uint32_t e4m3x2_to_half2(uint32_t bytes) {
  uint32_t halves;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "mov.b32 {low, high}, %1;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "}"
      : "=r"(halves)
      : "r"(bytes));
  return halves;
}

}  // namespace tilewright::ptx
