// What the blocks of the wgmma engine share: parameters, the order of tiles, the stage ring.
#pragma once

#include <cstdint>

#include "tilewright/dequant/scales.cuh"
#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/wgmma_smem.h"
#include "tilewright/ptx/cluster.cuh"

namespace tilewright::kernels {

// Steps of 64 in k are taken two at a time: one turn.
constexpr int kStepK = 64;
constexpr int kTurnK = 2 * kStepK;

struct WgmmaParams {
  void* out;
  const void* bias;
  dequant::ScaleSource source;
  QuantType quant_type;
  int m, n;
  int steps;       // k / 64
  int tiles_m;     // tiles of kMt rows of A
  int clusters_n;  // groups of kClusterN tiles of kNt weight rows
  int group_m;     // tiles of A visited for one group of weight rows before the next group
  int last_rows;   // rows of A that are copied for the last tile of it
};

// The shared memory of a block, as 32-bit shared addresses.
template <class Config>
struct WgmmaShared {
  using Geometry = WgmmaGeometry<Config>;
  uint32_t base;

  __device__ __forceinline__ uint32_t a_stage(int slot) const {
    return base + Geometry::kAOffset + slot * Geometry::kAStageBytes;
  }
  __device__ __forceinline__ uint32_t w_stage(int slot) const {
    return base + Geometry::kWOffset + slot * Geometry::kWStageBytes;
  }
  __device__ __forceinline__ uint32_t output(int consumer) const {
    return base + Geometry::kOutputOffset + consumer * Geometry::kOutputBytes;
  }
  __device__ __forceinline__ uint32_t byte_table() const { return base + Geometry::kByteTableOffset; }
  __device__ __forceinline__ uint32_t tables() const { return base + Geometry::kTablesOffset; }
  __device__ __forceinline__ uint32_t nested_code() const { return base + Geometry::kNestedCodeOffset; }
  __device__ __forceinline__ uint32_t full(int slot) const { return base + Geometry::kBarrierOffset + slot * 8; }
  __device__ __forceinline__ uint32_t empty(int slot) const { return full(slot) + Config::kStages * 8; }
  __device__ __forceinline__ uint32_t received() const { return full(2 * Config::kStages); }
  // Nobody waits here: for arrivals that mean nothing yet.
  __device__ __forceinline__ uint32_t spare() const { return received() + 8; }
};

// A position in the ring of stages; `phase` is the parity of the pass through it.
template <int kStages>
struct RingPosition {
  int slot = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == kStages) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// The place of a block in its cluster: `split` is its part of k, `peer` its tile among those that share A.
template <class Config>
struct WgmmaPlace {
  int split = 0;
  int peer = 0;

  __device__ __forceinline__ WgmmaPlace() {
    if constexpr (Config::kSplitK * Config::kClusterN > 1) {
      const int rank = static_cast<int>(ptx::cluster_block_rank());
      split = rank / Config::kClusterN;
      peer = rank % Config::kClusterN;
    }
  }
  __device__ __forceinline__ int first_turn(int turns) const { return turns * split / Config::kSplitK; }
  __device__ __forceinline__ int end_turn(int turns) const { return turns * (split + 1) / Config::kSplitK; }
};

// One tile's worth of work of a block.
struct WgmmaWork {
  int tile;
  int first_turn, end_turn;
  bool split;  // the cluster's blocks share the tile, each with its part of k
};

// The work of a block, in order. Without split_k every tile is one block's, and blocks take them in turns. With split_k
// the blocks of a cluster take whole tiles while those last for all blocks; the tiles left over, when no more than
// clusters, are shared one to a cluster, so that the last round is short.
template <class Config>
class WgmmaSchedule {
 public:
  __device__ __forceinline__ WgmmaSchedule(int tiles, int turns, WgmmaPlace<Config> place)
      : turns_(turns), first_turn_(place.first_turn(turns)), end_turn_(place.end_turn(turns)) {
    const int blocks = static_cast<int>(gridDim.x) / Config::kClusterN;  // blocks that share A count as one
    next_ = static_cast<int>(blockIdx.x) / Config::kClusterN;
    stride_ = blocks;
    whole_ = tiles;
    shared_tile_ = kNone;
    if constexpr (Config::kSplitK > 1) {
      const int clusters = blocks / Config::kSplitK;
      const int left = tiles % blocks;
      if (left <= clusters) {
        whole_ = tiles - left;
        const int cluster = static_cast<int>(blockIdx.x) / (Config::kSplitK * Config::kClusterN);
        if (cluster < left) shared_tile_ = whole_ + cluster;
      }
      // Blocks of one A-sharing group are neighbours within their part of k.
      next_ = static_cast<int>(blockIdx.x) / (Config::kSplitK * Config::kClusterN) * Config::kSplitK + place.split;
    }
  }

  // Whole tiles each block of a sharing cluster takes first.
  __device__ __forceinline__ int whole_tiles() const { return whole_ / stride_; }

  // Whether this block's cluster shares a last tile: the same for all blocks of the cluster.
  __device__ __forceinline__ bool shares() const { return Config::kSplitK > 1 && shared_tile_ != kNone; }

  // The next piece of work, or false after the last.
  __device__ __forceinline__ bool take(WgmmaWork& work) {
    if (next_ < whole_) {
      work = {next_, 0, turns_, false};
      next_ += stride_;
      return true;
    }
    if (!shares() || taken_) return false;
    taken_ = true;
    work = {shared_tile_, first_turn_, end_turn_, true};
    return true;
  }

 private:
  static constexpr int kNone = -1;
  int turns_, first_turn_, end_turn_;
  int next_, stride_, whole_, shared_tile_;
  bool taken_ = false;
};

// Where a block takes what its cluster sends of a shared tile: over the A panels, from the stage after its last, round to
// the stages of its last turn. All blocks have taken equally many whole tiles before.
template <class Config>
class WgmmaExchange {
 public:
  using Geometry = WgmmaGeometry<Config>;

  __device__ __forceinline__ WgmmaExchange(int whole_tiles, int turns)
      : before_(whole_tiles % Config::kStages * turns), turns_(turns) {}

  // The offset from the first stage of A at which block `split` of the cluster begins; past the last stage, wrap() it.
  __device__ __forceinline__ uint32_t first(int split) const {
    const int own = turns_ * (split + 1) / Config::kSplitK - turns_ * split / Config::kSplitK;
    return static_cast<uint32_t>((before_ + own) * (kTurnK / Config::kKc) % Config::kStages * Geometry::kAStageBytes);
  }
  static __device__ __forceinline__ uint32_t wrap(uint32_t offset) {
    return offset < Geometry::kPanelsBytes ? offset : offset - Geometry::kPanelsBytes;
  }

 private:
  int before_, turns_;
};

// Tiles in an order that keeps `group_m` tiles of A in L2 while the weights stream past once per group.
struct WgmmaTile {
  int m;  // tile of A
  int n;  // group of kClusterN weight tiles
};

__device__ __forceinline__ WgmmaTile tile_at(const WgmmaParams& params, int index) {
  const int per_group = params.group_m * params.clusters_n;
  const int group = index / per_group;
  const int within = index - group * per_group;
  const int first_m = group * params.group_m;
  const int height = min(params.group_m, params.tiles_m - first_m);
  return {first_m + within % height, within / height};
}

}  // namespace tilewright::kernels
