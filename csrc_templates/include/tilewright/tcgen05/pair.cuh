// What the roles of the tcgen05 engine share: parameters, shared memory, ring positions, places and the order of tiles.
#pragma once

#include <cstdint>

#include "tilewright/ptx/cluster.cuh"
#include "tilewright/tcgen05/plan.h"

namespace tilewright::tcgen05 {

// Scales that the epilogue applies: of (row i, K group q) a[i * a_m + q * a_k]; of column j b[j * b_n], or, by block,
// b[(j / 128) * b_n + q * b_k]. K groups are 128 elements and only block scales change along K.
struct EpilogueScales {
  const float* a;
  const float* b;
  int64_t a_m, a_k, b_n, b_k;
  bool block;
};

// Rows of A shared out among several weights; `count` 0 is one weight for all. Group g owns the rows from ends[g - 1]
// (0 for the first) up to ends[g], or, where `ends` is null, rows[g] of the `m` from g * m on.
struct PairGroups {
  const int32_t* ends;
  const int32_t* rows;
  int count;
  int b_rows;             // rows of B from one group to the next
  int64_t scale_b, bias;  // elements from one group to the next
};

struct PairParams {
  void* out;
  const void* bias;
  EpilogueScales scales;
  PairGroups groups;
  int64_t ldo;
  int m, n;
  int stages;         // of K, to be multiplied
  int tiles_m;        // of kTileM rows; of one weight
  int tiles_n;        // of kClusterN columns
  int supergroup;     // tiles along M visited for one column of tiles before the next
  bool bulk_store;    // whether rows of the output start where the copy engine can write
  uint32_t a_format;  // Fp8Format of A; unused for fp4
};

// The dynamic shared memory of a CTA, as 32-bit shared addresses. All CTAs of a cluster have the same base.
template <class Plan>
struct PairShared {
  uint32_t base;

  __device__ __forceinline__ uint32_t tmem_slot() const { return base; }
  __device__ __forceinline__ uint32_t a_tile(int slot) const {
    return base + Plan::kAOffset + slot * Plan::kATileBytes;
  }
  __device__ __forceinline__ uint32_t b_stage(int slot) const { return base + Plan::kBOffset + slot * Plan::kBBytes; }
  __device__ __forceinline__ uint32_t scales(int slot) const {
    return base + Plan::kScaleOffset + slot * Plan::kScaleBytes;
  }
  __device__ __forceinline__ uint32_t output(int warp) const {
    return base + Plan::kOutputOffset + warp * Plan::kWarpOutputBytes;
  }
  __device__ __forceinline__ uint32_t full(int slot) const { return barrier(Plan::kFull + slot); }
  __device__ __forceinline__ uint32_t empty(int slot) const { return barrier(Plan::kEmpty + slot); }
  __device__ __forceinline__ uint32_t full_a(int slot) const { return barrier(Plan::kFullA + slot); }
  __device__ __forceinline__ uint32_t empty_a(int slot) const { return barrier(Plan::kEmptyA + slot); }
  __device__ __forceinline__ uint32_t sum_full(int sum) const { return barrier(Plan::kSumFull + sum); }
  __device__ __forceinline__ uint32_t sum_empty(int sum) const { return barrier(Plan::kSumEmpty + sum); }
  __device__ __forceinline__ uint32_t scale_free(int buffer) const { return barrier(Plan::kScaleFree + buffer); }

 private:
  __device__ __forceinline__ uint32_t barrier(int index) const { return base + Plan::kBarrierOffset + index * 8; }
};

// A position in a ring of `kSlots`; `phase` is the parity of the pass through it.
template <int kSlots>
struct Ring {
  int slot = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

// The place of a CTA: `half` of the rows and columns of its pair, `pair` within the cluster.
struct PairPlace {
  int rank, half, pair;

  __device__ __forceinline__ PairPlace()
      : rank(static_cast<int>(ptx::cluster_block_rank())), half(rank & 1), pair(rank >> 1) {}
  __device__ __forceinline__ bool leads() const { return half == 0; }
  __device__ __forceinline__ uint32_t leader() const { return static_cast<uint32_t>(rank & ~1); }
  // CTAs of this pair; CTAs of this half in every one of `pairs` pairs.
  __device__ __forceinline__ uint32_t pair_mask() const { return 3u << (2 * pair); }
  __device__ __forceinline__ uint32_t half_mask(int pairs) const { return (0x55u & ((1u << (2 * pairs)) - 1)) << half; }
};

// What a pair works on: its first row and column, the row where its group ends, and the group. Rows count over all
// groups.
struct PairTile {
  int m, n, m_end, group;
};

// Tiles of a cluster, in an order that keeps `supergroup` tiles of A in L2 while B streams past once for them. Clusters
// take turns.
template <class Config, class Plan>
class TileOrder {
 public:
  __device__ __forceinline__ explicit TileOrder(const PairParams& params)
      : params_(params),
        next_(static_cast<int>(blockIdx.x) / Config::kCluster),
        stride_(static_cast<int>(gridDim.x) / Config::kCluster) {
    if (!grouped()) {
      enter(0, params.m);
      group_ = 0;
    }
  }

  // The next tile of pair `pair`, or false after the last.
  __device__ __forceinline__ bool take(PairTile& tile, int pair) {
    while (next_ >= first_ + tiles_m_ * params_.tiles_n) {
      if (!grouped() || ++group_ >= params_.groups.count) return false;
      enter_group();
    }
    const int index = next_ - first_;
    const int per_band = params_.supergroup * params_.tiles_n;
    const int band = index / per_band;
    const int within = index - band * per_band;
    const int height = min(params_.supergroup, tiles_m_ - band * params_.supergroup);
    tile.m = row_ + (band * params_.supergroup + within % height) * Plan::kTileM;
    tile.n = within / height * Plan::kClusterN + pair * Config::kNt;
    tile.m_end = row_end_;
    tile.group = group_;
    next_ += stride_;
    return true;
  }

 private:
  __device__ __forceinline__ bool grouped() const { return Plan::kGroups && params_.groups.count > 0; }

  __device__ __forceinline__ void enter(int row, int end) {
    row_ = row;
    row_end_ = end;
    tiles_m_ = (max(end - row, 0) + Plan::kTileM - 1) / Plan::kTileM;
  }

  __device__ __forceinline__ void enter_group() {
    first_ += tiles_m_ * params_.tiles_n;
    if (params_.groups.ends != nullptr) {
      const int row = row_end_;
      enter(row, max(row, min(__ldg(params_.groups.ends + group_), params_.m)));
    } else {
      const int row = group_ * params_.m;
      enter(row, row + max(0, min(__ldg(params_.groups.rows + group_), params_.m)));
    }
  }

  const PairParams& params_;
  int next_, stride_;
  int first_ = 0, tiles_m_ = 0;  // of the group: number of its first tile, tiles along M
  int row_ = 0, row_end_ = 0;
  int group_ = -1;
};

}  // namespace tilewright::tcgen05
