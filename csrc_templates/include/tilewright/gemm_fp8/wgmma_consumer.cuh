// The multiplying side of the wgmma engine of gemm_fp8.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/warpgroup.cuh"
#include "tilewright/ptx/wgmma.cuh"
#include "tilewright/ptx/wgmma_fp8.cuh"

namespace tilewright::gemm_fp8 {

// The scales of one stage that a thread multiplies by, out of shared memory; ones where they wait for the epilogue.
template <class Config>
class WgmmaStageScales {
 public:
  using Geometry = WgmmaGeometry<Config>;
  // Of A: two for every 8 columns (swapped), else two for every block of 64 rows. Of B: one for every block of 64 rows
  // (swapped), else one for every stretch of columns that cannot straddle two blocks of 128.
  static constexpr int kStretch = Config::kNt % 128 == 0 ? 128 : 64;
  static constexpr int kA = Config::kSwap ? Config::kMt / 4 : 2 * Geometry::kXBlocks;
  static constexpr int kB = Config::kSwap ? Geometry::kXBlocks : Config::kNt / kStretch;

  // `first` is the first row of the 64-row side, within the tile, that this warpgroup holds.
  __device__ __forceinline__ void read(uint32_t stage, int first) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
    if constexpr (Config::kSwap) {
#pragma unroll
      for (int i = 0; i < kA; i += 2) {
        const uint2 pair = ptx::lds_64(stage + (4 * i + 2 * (thread & 3)) * 4);
        a_[i] = __uint_as_float(pair.x);
        a_[i + 1] = __uint_as_float(pair.y);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kA; ++i) {
        const int at = first + 64 * (i / 2) + 16 * (thread >> 5) + (thread >> 2 & 7) + 8 * (i % 2);
        a_[i] = ptx::lds_float(stage + at * 4);
      }
    }
#pragma unroll
    for (int i = 0; i < kB; ++i) {
      const int at = Config::kSwap ? first / 64 + i : i * kStretch / 64;
      b_[i] = ptx::lds_float(stage + (Config::kMt + at) * 4);
    }
  }

  __device__ __forceinline__ void set_ones() {
#pragma unroll
    for (float& value : a_) value = 1.0f;
#pragma unroll
    for (float& value : b_) value = 1.0f;
  }

  // The scale of accumulator `i` of block `block` of 64 rows.
  __device__ __forceinline__ float of(int block, int i) const {
    return Config::kSwap ? a_[i / 4 * 2 + i % 2] * b_[block]
                         : a_[2 * block + i / 2 % 2] * b_[Config::kSwap ? 0 : i / 4 * 8 / kStretch];
  }

 private:
  float a_[kA], b_[kB];
};

// One warpgroup with kXBlocks blocks of 64 rows.
template <class Config, bool kE5m2>
class WgmmaConsumer {
 public:
  using Geometry = WgmmaGeometry<Config>;
  using Ring = WgmmaRing<Config::kStages>;
  using Multiply = ptx::WgmmaFp8<!Config::kSwap && kE5m2, Config::kSwap && kE5m2, Geometry::kYRows>;
  static constexpr int kXBlocks = Geometry::kXBlocks;
  static constexpr int kBlockRegisters = Geometry::kYRows / 2;
  using Accumulators = float[kXBlocks][kBlockRegisters];

  // `member` is this warpgroup's place among those that share its tiles.
  __device__ __forceinline__ WgmmaConsumer(const WgmmaParams& params, const WgmmaShared<Config>& shared,
                                           WgmmaPlace<Config> place, int member)
      : params_(params), shared_(shared), place_(place), first_(uniform(member * kXBlocks * 64)) {}

  // acc = the work's part of k. Without kPromote, calls `all_full()` once, when the last of its stages is full.
  template <class AllFull>
  __device__ __forceinline__ void multiply(Accumulators& acc, Ring& ring, const WgmmaWork& work,
                                           AllFull all_full) const {
    clear(acc);
    const int steps = uniform(work.end_step - work.first_step);
    if (steps <= 0) return;
    ring.slot = uniform(ring.slot);
    if constexpr (!Config::kPromote) {
      multiply_straight(acc, ring, steps, all_full);
    } else {
      multiply_promoted(acc, ring, steps);
    }
  }

  // Hardware barriers 2 + kConsumers and up: whose turn it is.
  static __device__ __forceinline__ int turn_barrier(int of) { return 2 + Config::kConsumers + of; }

  // Stages that are in the tensor core together before they are added, as far as registers allow.
  static constexpr int kStageRegisters = kBlockRegisters + WgmmaStageScales<Config>::kA + WgmmaStageScales<Config>::kB;
  static constexpr int kAtOnce = kXBlocks == 1 && Config::kStages >= 4 &&
                                         kBlockRegisters + 2 * kStageRegisters + 32 <= Geometry::kConsumerRegisters
                                     ? 2
                                     : 1;
  static constexpr bool kTakesTurns = Config::kPromote && Geometry::kTeam == 2;

 private:
  // `value`, the same in all lanes, where the compiler sees it: descriptors are then counted up in uniform registers.
  static __device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

  __device__ __forceinline__ int member() const { return first_ / (kXBlocks * 64); }

  static __device__ __forceinline__ void clear(Accumulators& acc) {
#pragma unroll
    for (int x = 0; x < kXBlocks; ++x) {
#pragma unroll
      for (float& value : acc[x]) value = 0.0f;
    }
  }

  __device__ __forceinline__ uint64_t x_descriptor(int slot) const {
    return ptx::wgmma_descriptor_k_major_128b(shared_.x_stage(slot) + first_ * 128);
  }
  __device__ __forceinline__ uint64_t y_descriptor(int slot) const {
    return ptx::wgmma_descriptor_k_major_128b(shared_.y_stage(slot));
  }

  static constexpr int kParts = Config::kKc / 32;

  // Issues products of one stage with one block of 64 rows: those of parts `kFirst` to `kEnd` - 1 of 32 in k.
  template <int kFirst, int kEnd>
  static __device__ __forceinline__ void issue(float (&acc)[kBlockRegisters], uint64_t x, uint64_t y, int keep) {
#pragma unroll
    for (int part = kFirst; part < kEnd; ++part) {
      Multiply::run(acc, x + 2 * part, y + 2 * part, part == 0 ? keep : 1);
    }
  }

  // Sums stay in the tensor core; the stage before is given back while this one multiplies.
  template <class AllFull>
  __device__ __forceinline__ void multiply_straight(Accumulators& acc, Ring& ring, int steps, AllFull all_full) const {
    int behind = -1;
    for (int step = 0; step < steps; ++step) {
      ptx::mbarrier_wait(shared_.full(ring.slot), ring.phase);
      if (step + 1 == steps) all_full();
      const uint64_t x = x_descriptor(ring.slot), y = y_descriptor(ring.slot);
      ptx::wgmma_fence();
#pragma unroll
      for (int block = 0; block < kXBlocks; ++block) issue<0, kParts>(acc[block], x + 512 * block, y, 1);
      ptx::wgmma_commit();
      ptx::wgmma_wait<1>();
      if (behind >= 0) release(behind);
      behind = ring.slot;
      ring.advance();
    }
    ptx::wgmma_wait<0>();
#pragma unroll
    for (int block = 0; block < kXBlocks; ++block) ptx::wgmma_pin(acc[block]);
    release(behind);
  }

  // Every stage is summed from zero in the tensor core and added up, scaled, in fp32 registers. Two warpgroups take
  // turns to issue: did they run in step, both would be done at the same time, and nobody would multiply while they
  // add.
  __device__ __forceinline__ void multiply_promoted(Accumulators& acc, Ring& ring, int steps) const {
    int step = 0;
    if (steps % kAtOnce != 0) {
      add_stages<1>(acc, ring);
      step = 1;
    }
    for (; step < steps; step += kAtOnce) add_stages<kAtOnce>(acc, ring);
  }

  // Adds the next `kCount` stages. Scales are read before the products start: behind them they would wait for shared
  // memory.
  template <int kCount>
  __device__ __forceinline__ void add_stages(Accumulators& acc, Ring& ring) const {
    WgmmaStageScales<Config> scales[kCount];
    float part[kCount][kBlockRegisters];
    int slots[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      ptx::mbarrier_wait(shared_.full(ring.slot), ring.phase);
      scales[i].set_ones();
      if (params_.by_block) scales[i].read(shared_.scales(ring.slot), first_);
      slots[i] = ring.slot;
      ring.advance();
    }
#pragma unroll
    for (int block = 0; block < kXBlocks; ++block) {
      // The turn passes on before the last product is issued, lest the tensor core run dry while the other one starts.
      if (kTakesTurns) ptx::named_barrier_sync(turn_barrier(member()), 256);
      if (kTakesTurns && kCount == 2) ptx::named_barrier_arrive(turn_barrier(1 - member()), 256);
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const uint64_t x = x_descriptor(slots[i]) + 512 * block, y = y_descriptor(slots[i]);
        issue<0, kParts / 2>(part[i], x, y, 0);
        if (kTakesTurns && kCount == 1) ptx::named_barrier_arrive(turn_barrier(1 - member()), 256);
        issue<kParts / 2, kParts>(part[i], x, y, 0);
        ptx::wgmma_commit();
      }
      add_parts<kCount, 0>(acc[block], part, scales, slots, block);
      if constexpr (kCount == 2) add_parts<kCount, 1>(acc[block], part, scales, slots, block);
      ptx::wgmma_pin(acc[block]);  // added before this warpgroup waits for its next turn
    }
  }

  // Waits for part `kIndex` of `kCount` and adds it.
  template <int kCount, int kIndex>
  __device__ __forceinline__ void add_parts(float (&acc)[kBlockRegisters], float (&part)[kCount][kBlockRegisters],
                                            const WgmmaStageScales<Config> (&scales)[kCount],
                                            const int (&slots)[kCount], int block) const {
    ptx::wgmma_wait<kCount - 1 - kIndex>();
    ptx::wgmma_pin(part[kIndex]);
    if (block + 1 == kXBlocks) release(slots[kIndex]);
#pragma unroll
    for (int i = 0; i < kBlockRegisters; ++i) acc[i] = fmaf(part[kIndex][i], scales[kIndex].of(block, i), acc[i]);
  }

  // Tells every block that writes into this stage that this warp has read it.
  __device__ __forceinline__ void release(int slot) const {
    const int lane = static_cast<int>(threadIdx.x) & 31;
    if constexpr (Geometry::kPeers == 1) {
      if (lane == 0) ptx::mbarrier_arrive(shared_.empty(slot));
    } else {
      if (lane < Geometry::kPeers) {
        const auto rank = static_cast<uint32_t>(place_.split * Geometry::kPeers + lane);
        ptx::mbarrier_arrive_cluster(ptx::map_to_block(shared_.empty(slot), rank));
      }
    }
  }

  const WgmmaParams& params_;
  const WgmmaShared<Config>& shared_;
  WgmmaPlace<Config> place_;
  int first_;
};

}  // namespace tilewright::gemm_fp8
