// Fills the rings of the tcgen05 engine by bulk tensor copies. Every CTA loads its own share; the leader's barriers
// count the bytes of both CTAs of a pair.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tcgen05_tma.cuh"
#include "tilewright/ptx/tma.cuh"
#include "tilewright/tcgen05/pair.cuh"

namespace tilewright::tcgen05 {

struct PairMaps {
  const CUtensorMap* a;
  const CUtensorMap* b;
  const CUtensorMap* scale_a;
  const CUtensorMap* scale_b;
};

// One thread of a producer warp. A joint ring has one producer, of A, B and scales; split rings have one of A and one
// of the rest.
template <class Config, class Plan>
class PairProducer {
 public:
  __device__ __forceinline__ PairProducer(const PairMaps& maps, const PairShared<Plan>& shared, const PairPlace& place)
      : maps_(maps), shared_(shared), place_(place) {}

  // B and scales of `stages` stages; A too when the ring is joint. A group's B starts `group_rows` behind the last
  // one's.
  __device__ __forceinline__ void load(PairTile tile, int stages, int group_rows) {
    const int b_row = tile.group * group_rows + tile.n + place_.half * Plan::kBRows;
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);
      constexpr int kBytes = Plan::kBBytes + Plan::kScaleBytes + (Plan::kSplitRings ? 0 : Plan::kABytes);
      const uint32_t full = open(shared_.full(ring_.slot), kBytes);
      ptx::tma_load_2d_pair(shared_.b_stage(ring_.slot), maps_.b, full, stage * kRowBytes, b_row);
      if constexpr (!Plan::kSplitRings) {
#pragma unroll
        for (int tier = 0; tier < Plan::kStacked; ++tier)
          load_a(ring_.slot * Plan::kStacked + tier, tile, stage, tier, full);
      }
      if constexpr (Plan::kScaled) load_scales(tile, stage, full);
      ring_.advance();
    }
  }

  // B of the first stages, into L2 only: this may run before the kernels it depends on have finished.
  __device__ __forceinline__ void prefetch_b(PairTile tile, int stages) const {
    for (int stage = 0; stage < stages && stage < Config::kStages; ++stage) {
      ptx::tma_prefetch_2d(maps_.b, stage * kRowBytes, tile.n + place_.half * Plan::kBRows);
    }
  }

  // A of `stages` stages, when it has a ring of its own: a slot for each tile of a stage.
  __device__ __forceinline__ void load_a_ring(PairTile tile, int stages) {
    for (int stage = 0; stage < stages; ++stage) {
#pragma unroll
      for (int tier = 0; tier < Plan::kStacked; ++tier) {
        ptx::mbarrier_wait(shared_.empty_a(ring_a_.slot), ring_a_.phase ^ 1);
        const uint32_t full = open(shared_.full_a(ring_a_.slot), Plan::kATileBytes);
        load_a(ring_a_.slot, tile, stage, tier, full);
        ring_a_.advance();
      }
    }
  }

  // Returns once every slot has been used up: no arrival is on its way to this CTA any more.
  __device__ __forceinline__ void drain() {
    for (int i = 0; i < Config::kStages; ++i) {
      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);
      ring_.advance();
    }
  }
  __device__ __forceinline__ void drain_a_ring() {
    for (int i = 0; i < Plan::kASlots; ++i) {
      ptx::mbarrier_wait(shared_.empty_a(ring_a_.slot), ring_a_.phase ^ 1);
      ring_a_.advance();
    }
  }

 private:
  static constexpr ptx::MaskBits kMaskBits = Config::kMulticast32b ? ptx::MaskBits::k32 : ptx::MaskBits::k16;

  // The leader's barrier, told what each CTA of the pair receives. Bytes may arrive before it is told.
  __device__ __forceinline__ uint32_t open(uint32_t barrier, int bytes) const {
    if (place_.leads()) ptx::mbarrier_arrive_expect(barrier, 2 * bytes);
    return ptx::map_to_block(barrier, place_.leader());
  }

  // The pairs of a cluster share A: each loads a part for all.
  __device__ __forceinline__ void load_a(int slot, PairTile tile, int stage, int tier, uint32_t full) const {
    constexpr int kRows = kCtaRows / Plan::kPairs;
    const uint32_t destination = shared_.a_tile(slot);
    const int row = tile.m + tier * 256 + place_.half * kCtaRows;
    if constexpr (Plan::kPairs == 1) {
      ptx::tma_load_2d_pair(destination, maps_.a, full, stage * kRowBytes, row);
    } else {
      ptx::tma_load_2d_pair_multicast<kMaskBits>(destination + place_.pair * kRows * kRowBytes, maps_.a, full,
                                                 stage * kRowBytes, row + place_.pair * kRows,
                                                 place_.half_mask(Plan::kPairs));
    }
  }

  // Scales are read as rows of atoms, in units of 8 bytes: one row for every 128 rows of the operand.
  __device__ __forceinline__ void load_scales(PairTile tile, int stage, uint32_t full) const {
    constexpr int kAtomWords = kScaleAtomBytes / 8;
    const uint32_t destination = shared_.scales(ring_.slot);
    const int first = stage * Plan::kStageAtoms;
#pragma unroll
    for (int tier = 0; tier < Plan::kStacked; ++tier) {
      const uint32_t place = destination + tier * Plan::kScaleATileBytes;
      const int group = tile.m / 128 + tier * 2 + place_.half;
      if constexpr (Plan::kPairs == 1) {
        ptx::tma_load_2d_pair(place, maps_.scale_a, full, first * kAtomWords, group);
      } else {
        constexpr int kAtoms = Plan::kStageAtoms / Plan::kPairs;
        ptx::tma_load_2d_pair_multicast<kMaskBits>(place + place_.pair * kAtoms * kScaleAtomBytes, maps_.scale_a, full,
                                                   (first + place_.pair * kAtoms) * kAtomWords, group,
                                                   place_.half_mask(Plan::kPairs));
      }
    }
    // Both CTAs need the scales of all columns: each loads half of them for both.
    const uint32_t half = destination + Plan::kScaleABytes + place_.half * (Plan::kScaleBBytes / 2);
    const bool by_rows = Config::kNt == 256;
    const int atom = by_rows ? first : first + place_.half * Plan::kStageAtoms / 2;
    const int group = tile.n / 128 + (by_rows ? place_.half : 0);
    ptx::tma_load_2d_pair_multicast<kMaskBits>(half, maps_.scale_b, full, atom * kAtomWords, group, place_.pair_mask());
  }

  const PairMaps& maps_;
  const PairShared<Plan>& shared_;
  const PairPlace& place_;
  Ring<Config::kStages> ring_;
  Ring<Plan::kASlots == 0 ? 1 : Plan::kASlots> ring_a_;
};

}  // namespace tilewright::tcgen05
