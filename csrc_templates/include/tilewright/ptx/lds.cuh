// Shared-memory loads through 32-bit shared addresses: the address stays in one register and constants fold into it.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

__device__ __forceinline__ float lds_float(uint32_t address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
  return value;
}

// As lds_float, for memory that no longer changes: the compiler may move or merge these.
__device__ __forceinline__ float lds_constant_float(uint32_t address) {
  float value;
  asm("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
  return value;
}

__device__ __forceinline__ uint32_t lds_8(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}

__device__ __forceinline__ uint32_t lds_32(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}

// As lds_32, for memory that no longer changes: the compiler may move or merge these.
__device__ __forceinline__ uint32_t lds_constant_32(uint32_t address) {
  uint32_t value;
  asm("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}

__device__ __forceinline__ uint32_t lds_constant_word(uint32_t address) {
  uint32_t value;
  asm("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
  return value;
}

__device__ __forceinline__ uint2 lds_64(uint32_t address) {
  uint2 value;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(address));
  return value;
}

__device__ __forceinline__ uint4 lds_128(uint32_t address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address));
  return value;
}

__device__ __forceinline__ float2 lds_float2(uint32_t address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address));
  return value;
}

__device__ __forceinline__ void sts_float2(uint32_t address, float2 value) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(value.x), "f"(value.y) : "memory");
}

__device__ __forceinline__ void sts_float(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

}  // namespace tilewright::ptx
