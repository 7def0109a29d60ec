// Fifth-generation tensor cores (sm_100f, sm_103a, sm_107a): tensor memory, matrix instructions, their completion.
// Everything here acts for a CTA pair (cta_group::2): the CTAs of ranks 2 i and 2 i + 1 of a cluster, the even one
// leading.
//
// Tensor memory is 128 lanes x 512 columns of 32 bits in each CTA; an address has the lane in its upper and the column
// in its lower half. Barrier and shared-memory addresses are 32-bit shared addresses.
#pragma once

#include <cstdint>
#include <cuda/ptx>

namespace tilewright::ptx {

// --- Tensor memory ---

// Allocates `kColumns` columns in both CTAs and writes their address to shared memory at `destination`. One whole warp
// of each CTA of the pair takes part. Waits while another block of the SM holds the columns. An ordinary allocation is
// a power of two from 32 to 512; an exclusive one (sm_107) may have 576 and expects the SM's tensor memory to itself.
template <int kColumns, bool kExclusive>
__device__ __forceinline__ void tmem_allocate(uint32_t destination) {
  if constexpr (kExclusive) {
    asm volatile("tcgen05.alloc.exclusive.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(destination),
                 "n"(kColumns)
                 : "memory");
  } else {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(destination), "n"(kColumns)
                 : "memory");
  }
}

// This CTA allocates no more. One whole warp.
__device__ __forceinline__ void tmem_relinquish() {
  cuda::ptx::tcgen05_relinquish_alloc_permit(cuda::ptx::cta_group_2);
}

// Frees what tmem_allocate gave, once nothing uses it in either CTA. One whole warp of each CTA takes part.
template <int kColumns, bool kExclusive>
__device__ __forceinline__ void tmem_free(uint32_t address) {
  if constexpr (kExclusive) {
    cuda::ptx::tcgen05_dealloc_exclusive(cuda::ptx::cta_group_2, address, kColumns);
  } else {
    cuda::ptx::tcgen05_dealloc(cuda::ptx::cta_group_2, address, kColumns);
  }
}

// Lane i of the warp reads 32 columns of tensor-memory lane (address >> 16) + i; a warp reaches the lanes 32 (w % 4) up
// to 32 (w % 4) + 31 alone, w its number in the block. The registers hold the values after tmem_load_wait.
__device__ __forceinline__ void tmem_load_32(uint32_t (&value)[32], uint32_t address) {
  cuda::ptx::tcgen05_ld_32x32b(value, address);
}

// Waits for this thread's tensor-memory loads; `value` is what the last one fills.
__device__ __forceinline__ void tmem_load_wait(uint32_t (&value)[32]) {
  cuda::ptx::tcgen05_wait_ld();
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+r"(value[i])::"memory");  // no use of them moves above the wait
}

// Order tcgen05 work around a barrier between threads: before the arrival, and after the wait.
__device__ __forceinline__ void tcgen05_fence_before() { cuda::ptx::tcgen05_fence_before_thread_sync(); }
__device__ __forceinline__ void tcgen05_fence_after() { cuda::ptx::tcgen05_fence_after_thread_sync(); }

// --- Matrix instructions, issued by one thread of the leading CTA ---

// Copies 32 rows of 16 bytes from the shared memory of each CTA to four columns of its own tensor memory, row i to the
// lanes i, i + 32, i + 64 and i + 96. A matrix instruction that the same thread issues later sees them; one issued
// earlier may still be reading the columns, so its completion is waited for first.
__device__ __forceinline__ void tcgen05_copy_scales(uint32_t address, uint64_t descriptor) {
  cuda::ptx::tcgen05_cp_32x128b_warpx4(cuda::ptx::cta_group_2, address, descriptor);
}

// What a matrix instruction asks of the collector that keeps operands close to the tensor core. Keeping B needs sm_107:
// kFillB leaves B there, kLastUseB takes it from there if it still is, and both let A go.
enum class Collector { kNone, kFillB, kLastUseB };

// d[256 x N] (+)= a[256 x K] * b[N x K]^T in fp8. Each CTA gives 128 rows of A and N / 2 rows of B through descriptors
// that hold for both, and receives 128 rows of d, one a lane, N columns. `accumulate` false overwrites d.
template <Collector kCollector>
__device__ __forceinline__ void tcgen05_mma_fp8(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                                bool accumulate) {
#define TILEWRIGHT_MMA_FP8(collector)                                          \
  asm volatile(                                                                \
      "{\n"                                                                    \
      ".reg .pred accumulate;\n"                                               \
      "setp.ne.b32 accumulate, %4, 0;\n"                                       \
      "tcgen05.mma.cta_group::2.kind::f8f6f4" collector                        \
      " [%0], %1, %2, %3, accumulate;\n"                                       \
      "}" ::"r"(d),                                                            \
      "l"(a), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate)) \
      : "memory")
  if constexpr (kCollector == Collector::kFillB) {
    TILEWRIGHT_MMA_FP8(".collector::a::discard.collector::b::fill");
  } else if constexpr (kCollector == Collector::kLastUseB) {
    TILEWRIGHT_MMA_FP8(".collector::a::discard.collector::b::lastuse");
  } else {
    TILEWRIGHT_MMA_FP8("");
  }
#undef TILEWRIGHT_MMA_FP8
}

// As tcgen05_mma_fp8 for e2m1 operands with a scale per 16 along K in tensor memory: `scale_a` four columns (128 rows)
// per word of four scales, `scale_b` N / 32 columns, replicated as tcgen05_copy_scales leaves them.
template <Collector kCollector>
__device__ __forceinline__ void tcgen05_mma_nvfp4(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                                  uint32_t scale_a, uint32_t scale_b, bool accumulate) {
#define TILEWRIGHT_MMA_NVFP4(collector)                                                                    \
  asm volatile(                                                                                            \
      "{\n"                                                                                                \
      ".reg .pred accumulate;\n"                                                                           \
      "setp.ne.b32 accumulate, %6, 0;\n"                                                                   \
      "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16" collector                              \
      " [%0], %1, %2, %3, [%4], [%5], accumulate;\n"                                                       \
      "}" ::"r"(d),                                                                                        \
      "l"(a), "l"(b), "r"(instruction), "r"(scale_a), "r"(scale_b), "r"(static_cast<uint32_t>(accumulate)) \
      : "memory")
  if constexpr (kCollector == Collector::kFillB) {
    TILEWRIGHT_MMA_NVFP4(".collector::a::discard.collector::b::fill");
  } else if constexpr (kCollector == Collector::kLastUseB) {
    TILEWRIGHT_MMA_NVFP4(".collector::a::discard.collector::b::lastuse");
  } else {
    TILEWRIGHT_MMA_NVFP4("");
  }
#undef TILEWRIGHT_MMA_NVFP4
}

// --- Completion of what one thread has issued ---

// How wide a mask of CTAs an instruction carries; 32 bits need sm_107.
enum class MaskBits { k16, k32 };

// Arrives once at `barrier` when every earlier tcgen05 copy and matrix instruction of this thread has finished.
__device__ __forceinline__ void tcgen05_commit(uint32_t barrier) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}

// As tcgen05_commit, at the barrier of the same offset in every CTA of `mask` (bit i: rank i of the cluster).
template <MaskBits kBits>
__device__ __forceinline__ void tcgen05_commit_multicast(uint32_t barrier, uint32_t mask) {
  if constexpr (kBits == MaskBits::k32) {
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster::32b.b64 [%0], %1;" ::"r"(
            barrier),
        "r"(mask)
        : "memory");
  } else {
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(
            barrier),
        "h"(static_cast<uint16_t>(mask))
        : "memory");
  }
}

// Arrives when every earlier matrix instruction of this thread has read its A from shared memory, finished or not: A's
// memory may be filled again, B's, the scales' and the accumulators may not (sm_107).
template <MaskBits kBits>
__device__ __forceinline__ void tcgen05_commit_a_read_multicast(uint32_t barrier, uint32_t mask) {
  if constexpr (kBits == MaskBits::k32) {
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.sync_restrict::shared::read::mma::a.shared::cluster"
        ".multicast::cluster::32b.b64 [%0], %1;" ::"r"(barrier),
        "r"(mask)
        : "memory");
  } else {
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.sync_restrict::shared::read::mma::a.shared::cluster"
        ".multicast::cluster.b64 [%0], %1;" ::"r"(barrier),
        "h"(static_cast<uint16_t>(mask))
        : "memory");
  }
}

// --- Barriers between the CTAs of a pair ---

// Arrives at a barrier of another CTA (a shared::cluster address), and orders what this thread did before for whoever
// waits for it there with mbarrier_wait_pair.
__device__ __forceinline__ void mbarrier_arrive_pair(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ bool mbarrier_try_wait_pair(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
      "selp.b32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// As mbarrier_wait, for arrivals of mbarrier_arrive_pair.
__device__ __forceinline__ void mbarrier_wait_pair(uint32_t barrier, uint32_t parity) {
  while (!mbarrier_try_wait_pair(barrier, parity)) {
  }
}

}  // namespace tilewright::ptx
