// Bulk tensor copies, shared to global, and three-dimensional loads (sm_90 and later).
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// Shows this thread's ordinary writes to shared memory to the copy engine and the tensor cores; a barrier follows.
__device__ __forceinline__ void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Writes the box at (x, y) from `source`; elements outside the tensor are left out. Counts in this thread's current
// bulk group.
__device__ __forceinline__ void tma_store_2d(const void* map, uint32_t source, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(source), "r"(x), "r"(y)
               : "memory");
}

// As tma_store_2d, for output that is not read again soon: L2 gives it up first.
__device__ __forceinline__ void tma_store_2d_once(const void* map, uint32_t source, int x, int y) {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::"l"(map),
      "r"(source), "r"(x), "r"(y), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of this thread's newest bulk groups have yet to read their shared memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// As tma_load_2d of a box one deep at (x, y, z).
__device__ __forceinline__ void tma_load_3d(uint32_t destination, const void* map, uint32_t barrier, int x, int y,
                                            int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// As tma_load_2d_multicast of a box one deep at (x, y, z).
__device__ __forceinline__ void tma_load_3d_multicast(uint32_t destination, const void* map, uint32_t barrier, int x,
                                                      int y, int z, uint16_t block_mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(block_mask)
      : "memory");
}

// As tma_prefetch_2d of a box one deep at (x, y, z).
__device__ __forceinline__ void tma_prefetch_3d(const void* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
               : "memory");
}

// Stores four 8 x 8 matrices of 16-bit elements: lanes 8 p .. 8 p + 7 give the 16-byte rows of matrix p.
__device__ __forceinline__ void stmatrix_x4(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
               "r"(r2), "r"(r3)
               : "memory");
}

__device__ __forceinline__ void sts_float2(uint32_t address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}

}  // namespace tilewright::ptx
