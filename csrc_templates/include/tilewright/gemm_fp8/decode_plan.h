// What a launch of the decode engine of gemm_fp8 decides on the host: shared memory, and the share of each block.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::gemm_fp8 {

// Bytes of k that a warp takes from 16 rows of the weight in one step: also what one scale of Scaling::kBlock covers.
constexpr int kDecodeUnit = 128;

// Dynamic shared memory, in this order: the rings of the warps, the sums of the warps, then what depends on the problem
// and has kAKb in all: A, scales, bias.
//
// Tile fields: kMb rows of A at most; kWarps in a block, kWarpsK of them along k; kDepth steps of 2 KB that a warp
// keeps in flight; kOccupancy blocks that must fit a multiprocessor; kPerSm blocks of the grid to a multiprocessor;
// kAKb.
template <class Tile>
struct DecodeLayout {
  static constexpr int kThreads = Tile::kWarps * 32;
  static constexpr int kWarpsN = Tile::kWarps / Tile::kWarpsK;
  static constexpr int kColumnTiles = Tile::kMb / 8;
  static_assert(Tile::kMb % 8 == 0 && Tile::kMb >= 8 && Tile::kMb <= 64, "columns of A come eight at a time");
  static_assert(kWarpsN * Tile::kWarpsK == Tile::kWarps && Tile::kWarps <= 32, "warps are shared out evenly");
  static_assert(Tile::kDepth >= 2 && Tile::kDepth <= 16, "one step is multiplied while others are under way");

  static constexpr int kStepBytes = 16 * kDecodeUnit;
  static constexpr int kWarpRingBytes = Tile::kDepth * kStepBytes;
  static constexpr int kSumsOffset = Tile::kWarps * kWarpRingBytes;

  // Tiles of 16 rows that a warp finishes between two meetings of the block.
  static constexpr int kSlots = Tile::kMb <= 8 ? 2 : 1;
  // A warp's sums of a tile: kMb rows of 16, the pitch spreads a fragment's elements over the banks.
  static constexpr int kSumPitch = 20;
  static constexpr int kSumBytes = Tile::kMb * kSumPitch * 4;
  static constexpr int kAOffset = kSumsOffset + kSlots * Tile::kWarps * kSumBytes;
  static constexpr int kBytes = kAOffset + Tile::kAKb * 1024;
  static_assert(kBytes <= 227 * 1024, "the most that a block may have on sm_90");
};

struct DecodeParams {
  const uint8_t* a;
  const uint8_t* b;
  const float* scale_a;
  const float* scale_b;
  const void* bias;
  void* out;
  int64_t lda, ldb, ldo;
  ScaleSteps scale_steps;
  int m, n, k;
  int units;           // of k, the last one perhaps not whole
  int scale_a_offset;  // in shared memory, of each: fp32
  int scale_b_offset;
  int bias_offset;
};

}  // namespace tilewright::gemm_fp8
