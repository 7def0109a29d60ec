// Reads of memory that is wanted once and that no kernel writes while this one runs.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// Copies 16 bytes of a stream to shared memory, or writes zeros where `valid_bytes` is 0, and brings the 256 aligned
// bytes around them into L2. Both sides are 16-byte aligned; completed by groups, as other cp.async copies.
__device__ __forceinline__ void cp_async_stream_16(uint32_t destination, const void* source, int valid_bytes) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source),
               "r"(valid_bytes)
               : "memory");
}

}  // namespace tilewright::ptx
