// Bulk tensor copies for CTA pairs (sm_100f, sm_103a, sm_107a): the bytes may be counted at a barrier of either CTA.
#pragma once

#include <cstdint>

#include "tilewright/ptx/tcgen05.cuh"

namespace tilewright::ptx {

// As tma_load_2d. `barrier` is a shared::cluster address, in this CTA or in the other of its pair.
__device__ __forceinline__ void tma_load_2d_pair(uint32_t destination, const void* map, uint32_t barrier, int x,
                                                 int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// As tma_load_2d_pair, into the same offset of every CTA of `mask`. Each counts its bytes at the barrier of the same
// offset in the CTA of its own pair whose rank is odd or even as that of the CTA `barrier` lies in.
template <MaskBits kBits>
__device__ __forceinline__ void tma_load_2d_pair_multicast(uint32_t destination, const void* map, uint32_t barrier,
                                                           int x, int y, uint32_t mask) {
  if constexpr (kBits == MaskBits::k32) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster::32b"
        ".cta_group::2 [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(mask)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        ".cta_group::2 [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(static_cast<uint16_t>(mask))
        : "memory");
  }
}

// As tma_load_2d_pair for a tensor of three dimensions.
__device__ __forceinline__ void tma_load_3d_pair(uint32_t destination, const void* map, uint32_t barrier, int x, int y,
                                                 int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

template <MaskBits kBits>
__device__ __forceinline__ void tma_load_3d_pair_multicast(uint32_t destination, const void* map, uint32_t barrier,
                                                           int x, int y, int z, uint32_t mask) {
  static_assert(kBits == MaskBits::k16, "nothing needs more ranks here");
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".cta_group::2 [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(static_cast<uint16_t>(mask))
      : "memory");
}

}  // namespace tilewright::ptx
