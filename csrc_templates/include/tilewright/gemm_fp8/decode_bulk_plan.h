// What a launch of the decode engine's Hopper kernel decides on the host: shared memory, and the share of each block.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::gemm_fp8 {

// Tile fields, where kCluster is not 0: kMb rows of A at most, an N of wgmma; kWarps that multiply, 4 or 8, 16 weight
// rows each; kDepth stages of 128 in k; kCluster blocks that share out k; kOccupancy blocks that must fit a
// multiprocessor; kPerSm blocks of the grid to a multiprocessor; kAKb of shared memory for the scales of
// Scaling::kBlock, at most.
template <class Tile>
struct DecodeBulkLayout {
  static constexpr int kRows = 16 * Tile::kWarps;  // of the weight in a tile, at most
  static constexpr int kThreads = 32 * (Tile::kWarps + 1);
  static constexpr int kPeers = Tile::kCluster > 1 ? Tile::kCluster - 1 : 0;
  static constexpr int kShareWarps = Tile::kCluster > 1 ? Tile::kWarps / Tile::kCluster : Tile::kWarps;
  static_assert(Tile::kWarps == 4 || Tile::kWarps == 8, "one or two warpgroups multiply");
  static_assert(Tile::kMb % 8 == 0 && Tile::kMb >= 8 && Tile::kMb <= 64, "columns of A come eight at a time");
  static_assert(Tile::kCluster == 1 || Tile::kCluster == 2 || Tile::kCluster == 4, "each block adds up whole warps");
  static_assert(Tile::kDepth >= 2, "one stage is multiplied while another is under way");

  // Dynamic shared memory, in this order: stages x weights, stages x A, rows of 128 swizzled bytes each; what the other
  // blocks of the cluster send; a full and an empty barrier per stage and one for the sums; the scales of
  // Scaling::kBlock. And 1024 bytes to align the whole.
  static constexpr int kAlignment = 1024;
  static constexpr int kWeightBytes = kRows * 128;
  static constexpr int kABytes = Tile::kMb * 128;
  static constexpr int kAOffset = Tile::kDepth * kWeightBytes;
  static constexpr int kExchangeOffset = Tile::kDepth * (kWeightBytes + kABytes);
  static constexpr int kExchangeBytes = kPeers * Tile::kMb * 16 * kShareWarps * 4;
  static constexpr int kBarrierOffset = kExchangeOffset + kExchangeBytes;
  static constexpr int kScalesOffset = kBarrierOffset + Tile::kDepth * 16 + 16;
  static constexpr int kLeastBytes = kAlignment + kScalesOffset;
  static constexpr int kBytes = kLeastBytes + Tile::kAKb * 1024;
  static_assert(kBytes <= 227 * 1024, "the most that a block may have on sm_90");
};

struct DecodeBulkParams {
  const float* scale_a;
  const float* scale_b;
  const void* bias;
  void* out;
  int64_t ldo;
  ScaleSteps scale_steps;
  int m, n;
  int units;      // of 128 in k, the last one perhaps not whole
  int tile_rows;  // of the weight
  int tiles;
  bool fresh;  // the weight may not have been written yet by the kernels ahead
  bool wide;   // rows of out start on four elements
};

// Rows of the weight in a tile, a multiple of 8 up to `most`: one tile for each of `slots` clusters where that is
// enough, else what is done first; short tiles, which leave the stages half empty, and the end of each tile cost
// something too.
inline int64_t best_tile_rows(int64_t n, int64_t slots, int64_t most) {
  if (n <= slots * most) return (n + slots * 8 - 1) / (slots * 8) * 8;
  int64_t best = most, best_cost = INT64_MAX;
  for (int64_t rows = most; rows * 8 >= most * 5; rows -= 8) {
    const int64_t tiles = (n + rows - 1) / rows;
    const int64_t cost = (tiles + slots - 1) / slots * (rows + 4);
    if (cost < best_cost) {
      best = rows;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace tilewright::gemm_fp8
