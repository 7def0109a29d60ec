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

  // Whether registers allow the sums and the products of two stages: one is added while the other multiplies.
  static constexpr int kStageRegisters = kBlockRegisters + WgmmaStageScales<Config>::kA + WgmmaStageScales<Config>::kB;
  static constexpr bool kOverlaps =
      kXBlocks == 1 && kBlockRegisters + 2 * kStageRegisters + 32 <= Geometry::kConsumerRegisters;
  static constexpr bool kTakesTurns = Config::kPromote && Geometry::kTeam == 2 && !kOverlaps;

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

  // Every stage is summed from zero in the tensor core and added up, scaled, in fp32 registers.
  __device__ __forceinline__ void multiply_promoted(Accumulators& acc, Ring& ring, int steps) const {
    if constexpr (kOverlaps) {
      add_overlapped(acc[0], ring, steps);
    } else {
      for (int step = 0; step < steps; ++step) add_stage(acc, ring);
    }
  }

  // One stage with blocks of 64 rows one after the other. Two warpgroups take turns to issue: did they run in step,
  // both would be done at the same time, and nobody would multiply while they add.
  __device__ __forceinline__ void add_stage(Accumulators& acc, Ring& ring) const {
    Stage stage;
    open(stage, ring);
#pragma unroll
    for (int block = 0; block < kXBlocks; ++block) {
      if (kTakesTurns) ptx::named_barrier_sync(turn_barrier(member()), 256);
      ptx::wgmma_fence();
      const uint64_t x = x_descriptor(stage.slot) + 512 * block, y = y_descriptor(stage.slot);
      issue<0, kParts / 2>(stage.part, x, y, 0);
      // The turn passes on before the last product is issued, lest the tensor core run dry while the other one starts.
      if (kTakesTurns) ptx::named_barrier_arrive(turn_barrier(1 - member()), 256);
      issue<kParts / 2, kParts>(stage.part, x, y, 0);
      ptx::wgmma_commit();
      add<0>(acc[block], stage, block);
    }
  }

  // One of two stages always multiplies while the other is added.
  __device__ __forceinline__ void add_overlapped(float (&acc)[kBlockRegisters], Ring& ring, int steps) const {
    Stage even, odd;
    start(even, ring);
    int left = steps - 1;
    for (; left >= 2; left -= 2) {
      start(odd, ring);
      add<1>(acc, even, 0);
      start(even, ring);
      add<1>(acc, odd, 0);
    }
    if (left > 0) {
      start(odd, ring);
      add<1>(acc, even, 0);
      add<0>(acc, odd, 0);
    } else {
      add<0>(acc, even, 0);
    }
  }

  struct Stage {
    WgmmaStageScales<Config> scales;
    float part[kBlockRegisters];
    int slot;
  };

  // The next stage, once it is full. Scales are read before the products start: behind them they would wait for shared
  // memory.
  __device__ __forceinline__ void open(Stage& stage, Ring& ring) const {
    ptx::mbarrier_wait(shared_.full(ring.slot), ring.phase);
    stage.scales.set_ones();
    if (params_.by_block) stage.scales.read(shared_.scales(ring.slot), first_);
    stage.slot = ring.slot;
    ring.advance();
  }

  __device__ __forceinline__ void start(Stage& stage, Ring& ring) const {
    open(stage, ring);
    ptx::wgmma_fence();
    issue<0, kParts>(stage.part, x_descriptor(stage.slot), y_descriptor(stage.slot), 0);
    ptx::wgmma_commit();
  }

  // Waits until no more than `kPending` newer products run, and adds those of `stage` with its block `block`.
  template <int kPending>
  __device__ __forceinline__ void add(float (&acc)[kBlockRegisters], Stage& stage, int block) const {
    ptx::wgmma_wait<kPending>();
    ptx::wgmma_pin(stage.part);
    if (block + 1 == kXBlocks) release(stage.slot);
#pragma unroll
    for (int i = 0; i < kBlockRegisters; ++i) acc[i] = fmaf(stage.part[i], stage.scales.of(block, i), acc[i]);
    ptx::wgmma_pin(acc);  // added before this warpgroup starts another stage or waits for its turn
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
