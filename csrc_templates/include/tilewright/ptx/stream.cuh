// Reads of memory that is wanted once and that no kernel writes while this one runs.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// 16 bytes of a stream: kept out of L1, the 256 aligned bytes around them brought into L2. 16-byte aligned.
__device__ __forceinline__ uint4 ldg_stream_16(const void* source) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(source));
  return value;
}

// Brings `bytes` (a multiple of 16, `source` 16-byte aligned) into L2 without waiting. sm_90 and later.
__device__ __forceinline__ void bulk_prefetch_l2(const void* source, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(source), "r"(bytes) : "memory");
}

}  // namespace tilewright::ptx
