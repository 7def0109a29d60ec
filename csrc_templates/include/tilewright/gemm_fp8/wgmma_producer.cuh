// The loading side of the wgmma engine of gemm_fp8.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/ptx/cp_async.cuh"
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

  // The first B of a tile, into L2 only: this may run before the kernels it depends on have finished.
  __device__ __forceinline__ void prefetch_b(const WgmmaWork& work) const {
    const int end = min(work.end_step, work.first_step + kPrefetchSteps);
    for (int step = work.first_step; step < end; ++step) {
      ptx::tma_prefetch_3d(map_b_, step * Config::kKc, work.column + place_.m * kBRows, work.group);
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
  static constexpr int kPrefetchSteps = 4;  // more of them stand in the way of the loads

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

// Brings the scales that change every 128 of k, a stage at a time. Three warps, each with every third stretch of 32
// rows of A; all of their lanes count at every full barrier.
template <class Config>
class WgmmaScaleLoader {
 public:
  static constexpr int kWarps = 3;
  static constexpr int kArrivals = 32 * kWarps;

  // `warp` is 0 to kWarps - 1.
  __device__ __forceinline__ WgmmaScaleLoader(const WgmmaParams& params, const WgmmaShared<Config>& shared, int warp)
      : params_(params), shared_(shared), warp_(warp) {}

  __device__ __forceinline__ void load(const WgmmaWork& work) {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int first = 32 * warp_ + lane;
    const float* of_a[kStretches];
#pragma unroll
    for (int i = 0; i < kStretches; ++i) {
      const int row = min(work.row + first + 32 * kWarps * i, work.rows_end - 1);
      of_a[i] = params_.scale_a + row * params_.scale_a_m + work.first_step * params_.scale_a_k;
    }
    const bool loads_b = warp_ == kWarps - 1 && lane < Config::kNt / 64;
    const int column = min(work.column + 64 * lane, params_.n - 1);
    const float* of_b = params_.scale_b + work.group * params_.scale_b_group + (column >> 7) * params_.scale_b_n +
                        work.first_step * params_.scale_b_k;
    for (int step = work.first_step; step < work.end_step; ++step) {
      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);
      const uint32_t stage = shared_.scales(ring_.slot);
#pragma unroll
      for (int i = 0; i < kStretches; ++i) {
        const int at = first + 32 * kWarps * i;
        if (at < Config::kMt) ptx::cp_async_4(stage + at * 4, of_a[i], 4);
        of_a[i] += params_.scale_a_k;
      }
      if (loads_b) ptx::cp_async_4(stage + (Config::kMt + lane) * 4, of_b, 4);
      of_b += params_.scale_b_k;
      ptx::mbarrier_arrive_copies(shared_.full(ring_.slot));
      ring_.advance();
    }
  }

 private:
  static constexpr int kStretches = (Config::kMt + 32 * kWarps - 1) / (32 * kWarps);

  const WgmmaParams& params_;
  const WgmmaShared<Config>& shared_;
  WgmmaRing<Config::kStages> ring_;
  int warp_;
};

}  // namespace tilewright::gemm_fp8
