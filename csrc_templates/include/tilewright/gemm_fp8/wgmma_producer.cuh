// The loading side of the wgmma engine of gemm_fp8.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tma.cuh"
#include "tilewright/ptx/tma_store.cuh"

namespace tilewright::gemm_fp8 {

// Fills the ring. One thread.
template <class Config>
class WgmmaProducer {
 public:
  using Geometry = WgmmaGeometry<Config>;

  __device__ __forceinline__ WgmmaProducer(const CUtensorMap* map_a, const CUtensorMap* map_b,
                                           const WgmmaShared<Config>& shared, WgmmaPlace<Config> place)
      : map_a_(map_a), map_b_(map_b), shared_(shared), place_(place) {}

  // B of the first stages, into L2 only: this may run before the kernels it depends on have finished.
  __device__ __forceinline__ void prefetch_b(const WgmmaWork& work) const {
    for (int stage = 0; stage < Config::kStages && work.first_step + stage < work.end_step; ++stage) {
      ptx::tma_prefetch_3d(map_b_, (work.first_step + stage) * Config::kKc, work.column + place_.m * kBRows, work.group);
    }
  }

  __device__ __forceinline__ void load(const WgmmaWork& work) {
    for (int step = work.first_step; step < work.end_step; ++step) {
      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);
      const uint32_t full = shared_.full(ring_.slot);
      ptx::mbarrier_arrive_expect(full, Geometry::kStageBytes);
      load_b(shared_.b_stage(ring_.slot), full, step * Config::kKc, work);
      load_a(shared_.a_stage(ring_.slot), full, step * Config::kKc, work);
      ring_.advance();
    }
  }

 private:
  // A tile that two blocks share is brought in halves, one by each.
  static constexpr int kARows = Config::kMt / Config::kClusterN;
  static constexpr int kBRows = Config::kNt / Config::kClusterM;

  __device__ __forceinline__ void load_a(uint32_t stage, uint32_t full, int k, const WgmmaWork& work) const {
    if constexpr (Config::kClusterN == 1) {
      ptx::tma_load_2d(stage, map_a_, full, k, work.row);
    } else {
      const int first = place_.n * kARows;
      ptx::tma_load_2d_multicast(stage + first * 128, map_a_, full, k, work.row + first, place_.peers_mask());
    }
  }

  __device__ __forceinline__ void load_b(uint32_t stage, uint32_t full, int k, const WgmmaWork& work) const {
    if constexpr (Config::kClusterM == 1) {
      ptx::tma_load_3d(stage, map_b_, full, k, work.column, work.group);
    } else {
      const int first = place_.m * kBRows;
      ptx::tma_load_3d_multicast(stage + first * 128, map_b_, full, k, work.column + first, work.group,
                                 place_.peers_mask());
    }
  }

  const CUtensorMap* map_a_;
  const CUtensorMap* map_b_;
  const WgmmaShared<Config>& shared_;
  WgmmaPlace<Config> place_;
  WgmmaRing<Config::kStages> ring_;
};

}  // namespace tilewright::gemm_fp8
