// Issues the matrix instructions of a pair, and before them the copies of scales to tensor memory. One thread of the
// leader.
#pragma once

#include <cstdint>

#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tcgen05.cuh"
#include "tilewright/tcgen05/descriptors.h"
#include "tilewright/tcgen05/pair.cuh"

namespace tilewright::tcgen05 {

template <class Config, class Plan>
class PairMultiplier {
 public:
  __device__ __forceinline__ PairMultiplier(const PairParams& params, const PairShared<Plan>& shared,
                                            const PairPlace& place, uint32_t tmem)
      : shared_(shared), tmem_(tmem), pair_mask_(place.pair_mask()), instruction_(instruction(params)) {}

  // One tile, or kStacked of them, from column `column` on, over all of K. The accumulators are handed over when their
  // last instruction finishes.
  __device__ __forceinline__ void multiply(int column, int stages) {
    if constexpr (Config::kNt < 128) first_scale_ = column % 128 / 32;
#pragma unroll
    for (int tier = 0; tier < Plan::kStacked; ++tier) wait_for_sum(tier);
    for (int stage = 0; stage < stages; stage += kStagesAtOnce) {
      if constexpr (Plan::kTurns) {
        multiply_turn(stage != 0);
      } else {
        multiply_stage(stage != 0);
      }
    }
#pragma unroll
    for (int tier = 0; tier < Plan::kStacked; ++tier) {
      ptx::tcgen05_commit_multicast<kMaskBits>(shared_.sum_full(sum(tier)), pair_mask_);
    }
    sums_.advance();
  }

  // As multiply, with accumulators handed over after every stage, each holding that stage alone.
  __device__ __forceinline__ void multiply_apart(int stages) {
    static_assert(Plan::kStacked == 1 && !Plan::kScaled,
                  "sums apart are those of one tile without scales in the instruction");
    for (int stage = 0; stage < stages; ++stage) {
      wait_for_sum(0);
      multiply_stage(false);
      ptx::tcgen05_commit_multicast<kMaskBits>(shared_.sum_full(sum(0)), pair_mask_);
      sums_.advance();
    }
  }

  // Returns once no arrival is on its way to this thread's own barriers.
  __device__ __forceinline__ void drain() const {
    if constexpr (Plan::kScaled) {
#pragma unroll
      for (int buffer = 0; buffer < Plan::kScaleBuffers; ++buffer) {
        ptx::mbarrier_wait(shared_.scale_free(buffer), scale_phase_ ^ 1);
      }
    }
  }

 private:
  static constexpr ptx::MaskBits kMaskBits = Config::kMulticast32b ? ptx::MaskBits::k32 : ptx::MaskBits::k16;
  static constexpr uint32_t kClusterMask = (1u << Config::kCluster) - 1;
  static constexpr int kStartBits = Plan::kWideStart ? kWideStartBits : tcgen05::kStartBits;
  static constexpr KStep kStep = Config::kKBytes == 64 ? KStep::k64Bytes
                                 : Plan::kTurns        ? KStep::k48Bytes
                                                       : KStep::k32Bytes;
  static constexpr int kStagesAtOnce = Plan::kTurns ? Plan::kTurnStages : 1;

  static __device__ __forceinline__ uint32_t instruction(const PairParams& params) {
    if constexpr (Plan::kScaled) return nvfp4_instruction(256, Config::kNt, kStep);
    return fp8_instruction(256, Config::kNt, static_cast<Fp8Format>(params.a_format), Fp8Format::kE4m3, kStep);
  }

  __device__ __forceinline__ int sum(int tier) const { return sums_.slot * Plan::kStacked + tier; }

  // Waits until both CTAs have read the accumulator. Of two that overlap, one may be written when what they share of
  // the other has been read: accumulators are read in turn, so its own columns have been read before.
  __device__ __forceinline__ void wait_for_sum(int tier) {
    if constexpr (Config::kOverlap) {
      ptx::mbarrier_wait_pair(shared_.sum_empty(0), overlap_phase_ ^ 1);
      overlap_phase_ ^= 1;
    } else {
      ptx::mbarrier_wait_pair(shared_.sum_empty(sum(tier)), sums_.phase ^ 1);
    }
    ptx::tcgen05_fence_after();
  }

  __device__ __forceinline__ void multiply_stage(bool accumulate) {
    ptx::mbarrier_wait(shared_.full(ring_.slot), ring_.phase);
    if constexpr (Plan::kSplitRings) {
#pragma unroll
      for (int tier = 0; tier < Plan::kStacked; ++tier) ptx::mbarrier_wait(shared_.full_a(a_slot(tier)), ring_.phase);
    }
#pragma unroll
    for (int chunk = 0; chunk < Plan::kChunks; ++chunk) {
      if constexpr (Plan::kScaled) copy_scales(ring_.slot, chunk, chunk * Plan::kChunkAtoms);
#pragma unroll
      for (int step = 0; step < Plan::kChunkSteps; ++step) {
        multiply_step(chunk, step, accumulate || chunk != 0 || step != 0);
      }
      if constexpr (Plan::kScaled) ptx::tcgen05_commit(shared_.scale_free(chunk));
    }
    if constexpr (Plan::kScaled) scale_phase_ ^= 1;
    release_stage();
    ring_.advance();
  }

  // One instruction for each tile; the B of the upper one may stay in the collector for the lower one.
  __device__ __forceinline__ void multiply_step(int chunk, int step, bool accumulate) const {
    constexpr auto kFirst = Config::kCollectorB ? ptx::Collector::kFillB : ptx::Collector::kNone;
    constexpr auto kSecond = Config::kCollectorB ? ptx::Collector::kLastUseB : ptx::Collector::kNone;
    const int within = chunk * Plan::kChunkSteps + step;
    const uint32_t offset = static_cast<uint32_t>(within) * Config::kKBytes;
    const uint64_t b = smem_descriptor(kOperand128B, shared_.b_stage(ring_.slot) + offset, kStartBits);
    multiply_tier<kFirst, 0>(chunk, step, offset, b, accumulate);
    if (within == Plan::kSteps - 1) release_a_early(0);
    if constexpr (Plan::kStacked == 2) {
      multiply_tier<kSecond, 1>(chunk, step, offset, b, accumulate);
      if (within == Plan::kSteps - 1) release_a_early(1);
    }
  }

  template <ptx::Collector kCollector, int kTier>
  __device__ __forceinline__ void multiply_tier(int chunk, int step, uint32_t offset, uint64_t b,
                                                bool accumulate) const {
    const uint64_t a = smem_descriptor(kOperand128B, shared_.a_tile(a_slot(kTier)) + offset, kStartBits);
    const uint32_t d = tmem_ + sum(kTier) * Plan::kSumStride;
    if constexpr (Plan::kScaled) {
      ptx::tcgen05_mma_nvfp4<kCollector>(d, a, b, instruction_, scale_a(kTier, chunk) + step * 4,
                                         scale_b(chunk) + first_scale_ + step * Plan::kScaleWordColumns, accumulate);
    } else {
      ptx::tcgen05_mma_fp8<kCollector>(d, a, b, instruction_, accumulate);
    }
  }

  // Eight instructions of 48 bytes over three stages. A stage and its scales are taken up where the first instruction
  // reaches them, and given back behind the last that does.
  __device__ __forceinline__ void multiply_turn(bool accumulate) {
    Ring<Config::kStages> at[Plan::kTurnStages];
#pragma unroll
    for (Ring<Config::kStages>& each : at) {
      each = ring_;
      ring_.advance();
    }
#pragma unroll
    for (int step = 0; step < Plan::kTurnSteps; ++step) {
      const int begin = step * Config::kKBytes;
      const int stage = begin / kRowBytes;
      const int last = (begin + Config::kKBytes - 1) / kRowBytes;
      const int known = step == 0 ? -1 : (begin - 1) / kRowBytes;
      if (last != known) {
        ptx::mbarrier_wait(shared_.full(at[last].slot), at[last].phase);
        copy_scales(at[last].slot, last, 0);
      }
      multiply_onward(at[stage].slot, at[last].slot, step, accumulate || step != 0);
      if ((begin + Config::kKBytes) / kRowBytes != stage) {
        ptx::tcgen05_commit(shared_.scale_free(stage));
        ptx::tcgen05_commit_multicast<kMaskBits>(shared_.empty(at[stage].slot), kClusterMask);
      }
    }
    scale_phase_ ^= 1;
  }

  // One instruction, from the stage in `slot` on into the one in `next` if it has to. Its six scales start in the
  // middle of a word of four when its number is odd.
  __device__ __forceinline__ void multiply_onward(int slot, int next, int step, bool accumulate) const {
    static_assert(!Plan::kTurns || (Plan::kStacked == 1 && !Plan::kSplitRings),
                  "turns are those of one tile and a joint ring");
    const int offset = step * Config::kKBytes % kRowBytes;
    const int word = step * 6 / 4;
    const uint64_t a = smem_descriptor_onward(kOperand128B, shared_.a_tile(slot) + offset, shared_.a_tile(next));
    const uint64_t b = smem_descriptor_onward(kOperand128B, shared_.b_stage(slot) + offset, shared_.b_stage(next));
    const uint32_t instruction = nvfp4_instruction(256, Config::kNt, kStep, step * 6 % 4);
    ptx::tcgen05_mma_nvfp4<ptx::Collector::kNone>(tmem_ + sum(0) * Plan::kSumStride, a, b, instruction,
                                                  scale_a(0, 0) + word * 4, scale_b(0) + word * Plan::kScaleWordColumns,
                                                  accumulate);
  }

  // A slot of A is the tile of a stage in both kinds of ring: stages turn over together.
  __device__ __forceinline__ int a_slot(int tier) const { return ring_.slot * Plan::kStacked + tier; }

  __device__ __forceinline__ uint32_t scale_a(int tier, int buffer) const {
    return tmem_ + Plan::kSumColumns + (tier * Plan::kScaleBuffers + buffer) * Plan::kScaleAColumns;
  }
  __device__ __forceinline__ uint32_t scale_b(int buffer) const {
    return tmem_ + Plan::kScaleBColumn + buffer * Plan::kScaleBColumns;
  }

  // Scales of the stage in `slot`, its atoms from `first` on, once the instructions that read the buffer before have
  // finished.
  __device__ __forceinline__ void copy_scales(int slot, int buffer, int first) const {
    ptx::mbarrier_wait(shared_.scale_free(buffer), scale_phase_ ^ 1);
    ptx::tcgen05_fence_after();
    const uint32_t source = shared_.scales(slot);
#pragma unroll
    for (int atom = 0; atom < Plan::kBufferAtoms; ++atom) {
      const uint32_t from = source + (first + atom) * kScaleAtomBytes;
#pragma unroll
      for (int tier = 0; tier < Plan::kStacked; ++tier) {
        copy_atom(scale_a(tier, buffer) + atom * 4, from + tier * Plan::kScaleATileBytes);
      }
#pragma unroll
      for (int group = 0; group < Plan::kScaleRowsB / 128; ++group) {
        copy_atom(scale_b(buffer) + atom * Plan::kScaleWordColumns + group * 4,
                  from + Plan::kScaleABytes + group * Plan::kScaleATileBytes);
      }
    }
  }
  static __device__ __forceinline__ void copy_atom(uint32_t destination, uint32_t source) {
    ptx::tcgen05_copy_scales(destination, smem_descriptor(kScaleAtom, source, kStartBits));
  }

  // Gives a tile's slot of A back to every CTA that fills it, as soon as the instructions so far have read it.
  __device__ __forceinline__ void release_a_early(int tier) const {
    if constexpr (Config::kEarlyARelease) {
      ptx::tcgen05_commit_a_read_multicast<kMaskBits>(shared_.empty_a(a_slot(tier)), kClusterMask);
    }
  }

  // Gives the rest of the stage back once its instructions have finished.
  __device__ __forceinline__ void release_stage() const {
    if constexpr (Plan::kSplitRings && !Config::kEarlyARelease) {
#pragma unroll
      for (int tier = 0; tier < Plan::kStacked; ++tier) {
        ptx::tcgen05_commit_multicast<kMaskBits>(shared_.empty_a(a_slot(tier)), kClusterMask);
      }
    }
    ptx::tcgen05_commit_multicast<kMaskBits>(shared_.empty(ring_.slot), kClusterMask);
  }

  const PairShared<Plan>& shared_;
  uint32_t tmem_, pair_mask_, instruction_;
  Ring<Config::kStages> ring_;
  Ring<Config::kAccumulators> sums_;
  uint32_t scale_phase_ = 0;
  uint32_t overlap_phase_ = 0;
  uint32_t first_scale_ = 0;  // column within a word's, of the tile's first
};

}  // namespace tilewright::tcgen05
