// Read-only global loads that bring the neighbourhood of what they read into L2.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// For memory that no kernel writes while this one runs; the 256 aligned bytes around it come into L2.
__device__ __forceinline__ uint32_t ldg_near_word(const uint32_t* source) {
  uint32_t value;
  asm volatile("ld.global.nc.L2::256B.u32 %0, [%1];" : "=r"(value) : "l"(source));
  return value;
}

__device__ __forceinline__ uint32_t ldg_near_byte(const uint8_t* source) {
  uint32_t value;
  asm volatile("ld.global.nc.L2::256B.u8 %0, [%1];" : "=r"(value) : "l"(source));
  return value;
}

__device__ __forceinline__ uint32_t ldg_near_half(const uint8_t* source) {
  uint16_t value;
  asm volatile("ld.global.nc.L2::256B.u16 %0, [%1];" : "=h"(value) : "l"(source));
  return value;
}

__device__ __forceinline__ uint64_t ldg_near_64(const uint32_t* source) {
  uint64_t value;
  asm volatile("ld.global.nc.L2::256B.u64 %0, [%1];" : "=l"(value) : "l"(source));
  return value;
}

}  // namespace tilewright::ptx
