// Bulk tensor copies, global to shared (sm_90 and later). The tensor map is a kernel parameter or global memory.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

__device__ __forceinline__ void tma_prefetch_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Fills `destination` with the box at (x, y), x counting along the contiguous dimension, in elements; elements outside
// the tensor are zeros. The bytes of the whole box are counted at `barrier`.
__device__ __forceinline__ void tma_load_2d(uint32_t destination, const void* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// As tma_load_2d, into the same offset of every block of the cluster in `block_mask`, each counting at its own barrier.
__device__ __forceinline__ void tma_load_2d_multicast(uint32_t destination, const void* map, uint32_t barrier, int x,
                                                      int y, uint16_t block_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(block_mask)
      : "memory");
}

// Brings the box into L2 and nothing else: no reader can see it early.
__device__ __forceinline__ void tma_prefetch_2d(const void* map, int x, int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(map), "r"(x), "r"(y) : "memory");
}

// Copies `bytes` (a multiple of 16, both addresses 16-byte aligned) and counts them at `barrier`.
__device__ __forceinline__ void bulk_load(uint32_t destination, const void* source, uint32_t bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace tilewright::ptx
