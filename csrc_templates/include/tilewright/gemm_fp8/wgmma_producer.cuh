// The loading side of the wgmma engine of gemm_fp8.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tma.cuh"
#include "tilewright/ptx/tma_store.cuh"
#include "tilewright/ptx/warpgroup.cuh"

namespace tilewright::gemm_fp8 {

// Fills the ring. One thread.
template <class Config>
class WgmmaProducer {
 public:
  using Geometry = WgmmaGeometry<Config>;

  __device__ __forceinline__ WgmmaProducer(const WgmmaParams& params, const CUtensorMap* map_a,
                                           const CUtensorMap* map_a_tail, const CUtensorMap* map_b,
                                           const WgmmaShared<Config>& shared, WgmmaPlace<Config> place)
      : params_(params), map_a_(map_a), map_a_tail_(map_a_tail), map_b_(map_b), shared_(shared), place_(place) {}

  // The first B of the first tile: weights are constants, so this runs before the kernels ahead have finished. More of
  // it would stand in the way of A. Where sums are promoted, into L2 alone: there that is faster.
  __device__ __forceinline__ void start_b(const WgmmaWork& work) {
    const int steps = min(work.end_step - work.first_step, min(kAheadSteps, Config::kStages));
    for (int slot = 0; slot < steps; ++slot) {
      const int k = (work.first_step + slot) * Config::kKc;
      if constexpr (Config::kPromote) {
        ptx::tma_prefetch_3d(map_b_, k, work.column + place_.m * kBRows, work.group);
      } else {
        const uint32_t bytes = brings_tail(work) ? bytes_with_tail() : Geometry::kStageBytes;
        ptx::mbarrier_arrive_expect(shared_.full(slot), bytes);
        load_b(shared_.b_stage(slot), shared_.full(slot), k, work);
      }
    }
    if constexpr (!Config::kPromote) ahead_ = steps;
  }

  // Whether the tile hangs over the end of A, so that fewer rows are brought. Below, the stages keep what they held:
  // it belongs to nobody.
  __device__ __forceinline__ bool is_tail(const WgmmaWork& work) const {
    return params_.tail_rows > 0 && work.row + Config::kMt > params_.rows;
  }

  // Before the first tile, if it is a tail: zeros where nothing will be brought. All threads, and a barrier after it.
  __device__ __forceinline__ void clear_below_tail() {
    constexpr int kPieces = 8;  // of 16 bytes in a row
    const int rows = Config::kMt - params_.tail_rows;
    for (int i = static_cast<int>(threadIdx.x); i < Config::kStages * rows * kPieces; i += Geometry::kThreads) {
      const int slot = i / (rows * kPieces);
      const int at = i - slot * rows * kPieces;
      ptx::sts_float4(shared_.a_stage(slot) + params_.tail_rows * 128 + at * 16, 0.0f, 0.0f, 0.0f, 0.0f);
    }
    ptx::fence_async_shared();
    loaded_ = Config::kStages;
  }

  __device__ __forceinline__ void load(const WgmmaWork& work) {
    if (brings_tail(work)) {
      load_steps(work, map_a_tail_, bytes_with_tail());
    } else {
      load_steps(work, map_a_, Geometry::kStageBytes);
    }
    loaded_ += work.end_step - work.first_step;
  }

 private:
  static constexpr int kAheadSteps = 4;

  // A tile that two blocks share is brought in halves, one by each.
  static constexpr int kARows = Config::kMt / Config::kClusterN;
  static constexpr int kBRows = Config::kNt / Config::kClusterM;

  __device__ __forceinline__ bool brings_tail(const WgmmaWork& work) const {
    return is_tail(work) && loaded_ >= Config::kStages;
  }
  __device__ __forceinline__ uint32_t bytes_with_tail() const {
    return static_cast<uint32_t>(Geometry::kBStageBytes + params_.tail_rows * 128);
  }

  __device__ __forceinline__ void load_steps(const WgmmaWork& work, const CUtensorMap* map_a, uint32_t bytes) {
    int step = work.first_step;
    for (; ahead_ > 0; --ahead_, ++step) {
      load_a(map_a, shared_.a_stage(ring_.slot), shared_.full(ring_.slot), step * Config::kKc, work);
      ring_.advance();
    }
    for (; step < work.end_step; ++step) {
      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);
      const uint32_t full = shared_.full(ring_.slot);
      ptx::mbarrier_arrive_expect(full, bytes);
      load_b(shared_.b_stage(ring_.slot), full, step * Config::kKc, work);
      load_a(map_a, shared_.a_stage(ring_.slot), full, step * Config::kKc, work);
      ring_.advance();
    }
  }

  __device__ __forceinline__ void load_a(const CUtensorMap* map_a, uint32_t stage, uint32_t full, int k,
                                         const WgmmaWork& work) const {
    if constexpr (Config::kClusterN == 1) {
      ptx::tma_load_2d(stage, map_a, full, k, work.row);
    } else {
      const int first = place_.n * kARows;
      ptx::tma_load_2d_multicast(stage + first * 128, map_a, full, k, work.row + first, place_.peers_mask());
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

  const WgmmaParams& params_;
  const CUtensorMap* map_a_;
  const CUtensorMap* map_a_tail_;
  const CUtensorMap* map_b_;
  const WgmmaShared<Config>& shared_;
  WgmmaPlace<Config> place_;
  WgmmaRing<Config::kStages> ring_;
  int ahead_ = 0;   // stages whose B has been asked for already
  int loaded_ = 0;  // stages so far: once all of the ring, no row of it is without a value
};

// Brings the scales that change every 128 of k, a stage at a time. Three warps, each with every third stretch of 32
// rows of A; or one of them, four rows a lane, where the scales of A lie together along m. All lanes of the warps that
// load count at every full barrier.
template <class Config>
class WgmmaScaleLoader {
 public:
  static constexpr int kWarps = 3;

  // `warp` is 0 to kWarps - 1.
  __device__ __forceinline__ WgmmaScaleLoader(const WgmmaParams& params, const WgmmaShared<Config>& shared, int warp)
      : params_(params), shared_(shared), warp_(warp) {}

  static __device__ __forceinline__ int arrivals(const WgmmaParams& params) {
    return params.vector_scales ? 32 : 32 * kWarps;
  }

  __device__ __forceinline__ bool loads() const { return !params_.vector_scales || warp_ == kWarps - 1; }

  __device__ __forceinline__ void load(const WgmmaWork& work) {
    if (params_.vector_scales) {
      load_steps<4, 1>(work, 0, params_.rows);
    } else {
      load_steps<1, kWarps>(work, warp_, work.rows_end);
    }
  }

 private:
  // Scales of A by `kRows` a lane, this warp with every `kTeam`-th stretch of rows from the `index`-th, none past
  // `rows_end`.
  template <int kRows, int kTeam>
  __device__ __forceinline__ void load_steps(const WgmmaWork& work, int index, int rows_end) {
    constexpr int kApart = 32 * kRows * kTeam;
    constexpr int kStretches = (Config::kMt + kApart - 1) / kApart;
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int first = kRows * (32 * index + lane);
    const float* of_a[kStretches];
#pragma unroll
    for (int i = 0; i < kStretches; ++i) {
      const int row = min(work.row + first + kApart * i, rows_end - kRows);
      of_a[i] = params_.scale_a + row * params_.scale_steps.a_m + work.first_step * params_.scale_steps.a_k;
    }
    const bool loads_b = warp_ == kWarps - 1 && lane < Config::kNt / 64;
    const int column = min(work.column + 64 * lane, params_.n - 1);
    const float* of_b = params_.scale_b + work.group * params_.scale_b_group + (column >> 7) * params_.scale_steps.b_n +
                        work.first_step * params_.scale_steps.b_k;
    for (int step = work.first_step; step < work.end_step; ++step) {
      ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);
      const uint32_t stage = shared_.scales(ring_.slot);
#pragma unroll
      for (int i = 0; i < kStretches; ++i) {
        const int at = first + kApart * i;
        if (at < Config::kMt) {
          if constexpr (kRows == 4) {
            ptx::cp_async_16(stage + at * 4, of_a[i], 16);
          } else {
            ptx::cp_async_4(stage + at * 4, of_a[i], 4);
          }
        }
        of_a[i] += params_.scale_steps.a_k;
      }
      if (loads_b) ptx::cp_async_4(stage + (Config::kMt + lane) * 4, of_b, 4);
      of_b += params_.scale_steps.b_k;
      ptx::mbarrier_arrive_copies(shared_.full(ring_.slot));
      ring_.advance();
    }
  }

  const WgmmaParams& params_;
  const WgmmaShared<Config>& shared_;
  WgmmaRing<Config::kStages> ring_;
  int warp_;
};

}  // namespace tilewright::gemm_fp8
