// Conversions of eight-bit floating-point numbers, emulated.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

namespace tilewright::ptx {

inline uint32_t e4m3x2_to_half2(uint32_t bytes) {
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes), __NV_E4M3);
  return halves.x | static_cast<uint32_t>(halves.y) << 16;
}

}  // namespace tilewright::ptx
