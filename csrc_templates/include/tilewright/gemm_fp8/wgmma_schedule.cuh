// What the blocks of the wgmma engine of gemm_fp8 share: parameters, shared memory, the stage ring, the order of tiles.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"
#include "tilewright/gemm_fp8/wgmma_plan.h"
#include "tilewright/ptx/cluster.cuh"

namespace tilewright::gemm_fp8 {

struct WgmmaParams {
  const float* scale_a;
  const float* scale_b;
  const void* bias;
  void* out;
  ScaleSteps scale_steps;
  int64_t scale_b_group, bias_group, ldo;
  const int32_t* group_ends;
  const int32_t* group_rows;
  Grouping grouping;
  int groups;
  int m, n;
  int rows;       // of A and out in all: m, times the groups where each has its own
  int steps;      // of 128 in k
  int tiles_m;    // groups of kClusterM tiles of rows; of an ungrouped problem
  int tiles_n;    // groups of kClusterN tiles of columns
  int group_m;    // tiles of rows visited for one group of columns before the next group of rows
  int tail_rows;  // of A that the tile over its end brings; 0: a whole tile, zeros where there are none
  bool vector_scales;  // of A lie together along m and on 16 bytes
  bool b_ahead;     // the first of B may be asked for before the kernels ahead have ended
  bool by_block;    // scales change every 128 of k
  bool vector_out;  // rows of out start on 16 bytes
  bool bulk_out;    // and end on 16 bytes: the copy engine does not cut finer
};

// The shared memory of a block, as 32-bit shared addresses.
template <class Config>
struct WgmmaShared {
  using Geometry = WgmmaGeometry<Config>;
  uint32_t base;

  __device__ __forceinline__ uint32_t a_stage(int slot) const { return base + slot * Geometry::kAStageBytes; }
  __device__ __forceinline__ uint32_t b_stage(int slot) const {
    return base + Geometry::kBOffset + slot * Geometry::kBStageBytes;
  }
  __device__ __forceinline__ uint32_t x_stage(int slot) const { return Config::kSwap ? b_stage(slot) : a_stage(slot); }
  __device__ __forceinline__ uint32_t y_stage(int slot) const { return Config::kSwap ? a_stage(slot) : b_stage(slot); }
  __device__ __forceinline__ uint32_t output(int consumer) const {
    return base + Geometry::kOutputOffset + consumer * Geometry::kOutputBuffers * Geometry::kOutputBytes;
  }
  // kMt scales of A and one of B for every 64 columns.
  __device__ __forceinline__ uint32_t scales(int slot) const {
    return base + Geometry::kScaleOffset + slot * Geometry::kScaleStageBytes;
  }
  __device__ __forceinline__ uint32_t exchange() const { return base + Geometry::kStagesBytes; }
  __device__ __forceinline__ uint32_t received() const { return empty(Config::kStages); }
  __device__ __forceinline__ uint32_t full(int slot) const { return base + Geometry::kBarrierOffset + slot * 8; }
  __device__ __forceinline__ uint32_t empty(int slot) const { return full(slot) + Config::kStages * 8; }
};

// A position in the ring of stages; `phase` is the parity of the pass through it.
template <int kStages>
struct WgmmaRing {
  int slot = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == kStages) {
      slot = 0;
      phase ^= 1;
    }
  }
  // Past `count` stages that are somebody else's.
  __device__ __forceinline__ void skip(int count) {
    const int at = slot + count;
    phase ^= static_cast<uint32_t>(at / kStages) & 1;
    slot = at % kStages;
  }
};

// The place of a block in its cluster: `split` is its part of k, `m` and `n` its tile among those that share an
// operand.
template <class Config>
struct WgmmaPlace {
  static constexpr int kPeers = WgmmaGeometry<Config>::kPeers;
  int split = 0, m = 0, n = 0;

  __device__ __forceinline__ WgmmaPlace() {
    if constexpr (WgmmaGeometry<Config>::kCluster > 1) {
      const int rank = static_cast<int>(ptx::cluster_block_rank());
      split = rank / kPeers;
      m = Config::kClusterM == 2 ? rank % kPeers : 0;
      n = Config::kClusterN == 2 ? rank % kPeers : 0;
    }
  }
  __device__ __forceinline__ int peer() const { return m + n; }
  __device__ __forceinline__ uint16_t peers_mask() const {
    return static_cast<uint16_t>(((1 << kPeers) - 1) << (split * kPeers));
  }
};

// One tile, or a part of its k.
struct WgmmaWork {
  int group;
  int row;        // first row of A and of out, counted over all groups
  int rows_end;   // rows from here on belong to nobody or to another tile
  int column;     // first column of out
  int first_step, end_step;
  bool split;     // the other blocks of the cluster have the rest of k
};

// The work of one block, in order; every role of the block walks it alike. Blocks of a cluster take neighbouring tiles,
// or parts of k of the same tiles.
template <class Config>
class WgmmaSchedule {
 public:
  __device__ __forceinline__ WgmmaSchedule(const WgmmaParams& params, WgmmaPlace<Config> place)
      : params_(params), place_(place) {
    constexpr int kCluster = WgmmaGeometry<Config>::kCluster;
    const int cluster = static_cast<int>(blockIdx.x) / kCluster;
    const int clusters = static_cast<int>(gridDim.x) / kCluster;
    next_ = cluster * Config::kSplitK + place.split;
    stride_ = clusters * Config::kSplitK;
    if (params.grouping == Grouping::kNone) {
      group_ = 0;
      group_tiles_m_ = params.tiles_m;
      first_row_ = 0;
      rows_end_ = params.m;
      count_ = whole_ = params.tiles_m * params.tiles_n;
      if constexpr (Config::kSplitK > 1) {
        const int left = count_ % stride_;
        if (left <= clusters) {
          whole_ = count_ - left;
          if (cluster < left) shared_tile_ = whole_ + cluster;
        }
      }
    } else {
      group_ = -1;
      group_tiles_m_ = first_row_ = rows_end_ = count_ = whole_ = 0;
    }
  }

  // Whether this block's cluster shares a last tile: the same for all blocks of the cluster.
  __device__ __forceinline__ bool shares() const { return Config::kSplitK > 1 && shared_tile_ >= 0; }

  // The next piece of work, or false after the last.
  __device__ __forceinline__ bool take(WgmmaWork& work) {
    if (params_.grouping == Grouping::kNone) {
      if (next_ < whole_) {
        fill(work, next_, 0, params_.steps, false);
        next_ += stride_;
        return true;
      }
      if (!shares() || taken_) return false;
      taken_ = true;
      fill(work, shared_tile_, params_.steps * place_.split / Config::kSplitK,
           params_.steps * (place_.split + 1) / Config::kSplitK, true);
      return true;
    }
    while (next_ >= base_ + count_) {
      base_ += count_;
      if (++group_ >= params_.groups) return false;
      enter_group();
    }
    fill(work, next_ - base_, 0, params_.steps, false);
    next_ += stride_;
    return true;
  }

 private:
  static constexpr int kRowsPerTile = Config::kMt * Config::kClusterM;

  // The ends come from the device: whatever they hold, no row outside the matrix is touched.
  __device__ __forceinline__ void enter_group() {
    if (params_.grouping == Grouping::kContiguous) {
      first_row_ = rows_end_;
      rows_end_ = max(first_row_, min(__ldg(params_.group_ends + group_), params_.m));
    } else {
      first_row_ = group_ * params_.m;
      rows_end_ = first_row_ + max(0, min(__ldg(params_.group_rows + group_), params_.m));
    }
    group_tiles_m_ = (rows_end_ - first_row_ + kRowsPerTile - 1) / kRowsPerTile;
    count_ = group_tiles_m_ * params_.tiles_n;
  }

  // Tiles in an order that keeps `group_m` tiles of A in L2 while B streams past once per group.
  __device__ __forceinline__ void fill(WgmmaWork& work, int index, int first_step, int end_step, bool split) const {
    const int group_m = min(params_.group_m, group_tiles_m_);
    const int per_group = group_m * params_.tiles_n;
    const int band = index / per_group;
    const int within = index - band * per_group;
    const int first = band * group_m;
    const int height = min(group_m, group_tiles_m_ - first);
    const int tile_n = within / height;
    const int tile_m = first + within - tile_n * height;
    work.group = group_;
    work.row = first_row_ + (tile_m * Config::kClusterM + place_.m) * Config::kMt;
    work.rows_end = rows_end_;
    work.column = (tile_n * Config::kClusterN + place_.n) * Config::kNt;
    work.first_step = first_step;
    work.end_step = end_step;
    work.split = split;
  }

  const WgmmaParams& params_;
  WgmmaPlace<Config> place_;
  int next_, stride_, whole_;
  int shared_tile_ = -1;
  bool taken_ = false;
  int group_, base_ = 0, count_, group_tiles_m_, first_row_, rows_end_;
};

}  // namespace tilewright::gemm_fp8
