// Asynchronous global-to-shared copies (sm_80 and later), completed by groups.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies `valid_bytes` (0..16) from `source` and fills the rest of the 16 bytes with zeros. Both sides are 16-byte
// aligned; nothing is read when valid_bytes is 0.
__device__ __forceinline__ void cp_async_16(uint32_t destination, const void* source, int valid_bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source),
               "r"(valid_bytes)
               : "memory");
}

// Copies the 4 bytes at `source`, or writes zeros where `valid_bytes` is 0.
__device__ __forceinline__ void cp_async_4(uint32_t destination, const void* source, int valid_bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(destination), "l"(source), "r"(valid_bytes)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of the newest groups of this thread are still in flight.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace tilewright::ptx
