// What a launch of the decode engine of gemm_fp8 decides on the host: shared memory, and the share of each block.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::gemm_fp8 {

// Bytes of k that a warp takes from 16 rows of the weight in one step: also what one scale of Scaling::kBlock covers.
constexpr int kDecodeUnit = 128;

// Dynamic shared memory, in this order: the rings of the warps, of weights and of A; then scales and bias. Once a pass over k
// is done the sums of the warps lie over the rings.
//
// Tile fields: kMb rows of A at most; kWarps in a block, kWarpsK of them along k; kTiles of 16 weight rows that a warp
// multiplies at a time; kDepth steps of 2 KB that it keeps in flight; kOccupancy blocks that must fit a multiprocessor;
// kPerSm blocks of the grid to a multiprocessor.
template <class Tile>
struct DecodeLayout {
  static constexpr int kThreads = Tile::kWarps * 32;
  static constexpr int kWarpsN = Tile::kWarps / Tile::kWarpsK;
  static constexpr int kColumnTiles = Tile::kMb / 8;
  static constexpr int kPassRows = 16 * kWarpsN * Tile::kTiles;
  static_assert(Tile::kMb % 8 == 0 && Tile::kMb >= 8 && Tile::kMb <= 64, "columns of A come eight at a time");
  static_assert(kWarpsN * Tile::kWarpsK == Tile::kWarps && Tile::kWarps <= 32, "warps are shared out evenly");
  static_assert(Tile::kDepth >= 2 && Tile::kDepth <= 16, "one step is multiplied while others are under way");
  static_assert(Tile::kTiles >= 1 && Tile::kTiles <= 16, "sums of all tiles are in registers");

  static constexpr int kStepBytes = 16 * kDecodeUnit;
  static constexpr int kWeightRingBytes = Tile::kDepth * kStepBytes;
  // Of A: the unit in use and those that the steps in flight belong to, each with its scales.
  static constexpr int kASlots = (Tile::kDepth - 1 + Tile::kTiles - 1) / Tile::kTiles + 1;
  static constexpr int kASlotBytes = Tile::kMb * (kDecodeUnit + 4);
  static constexpr int kWarpRingBytes = kWeightRingBytes + kASlots * kASlotBytes;
  static constexpr int kConstantsOffset = Tile::kWarps * kWarpRingBytes;
  static constexpr int kConstantsBytes = 16 * 1024;  // at most
  static constexpr int kBytes = kConstantsOffset + kConstantsBytes;
  static_assert(kBytes <= 227 * 1024, "the most that a block may have on sm_90");

  // A warp's sums of a tile: kMb rows of 16, the pitch spreads a fragment's elements over the banks.
  static constexpr int kSumPitch = 20;
  static constexpr int kSumBytes = Tile::kMb * kSumPitch * 4;
  static constexpr int kSumsRoom = kConstantsOffset / (Tile::kWarps * kSumBytes);
  static constexpr int kSumsBatch = kSumsRoom < Tile::kTiles ? kSumsRoom : Tile::kTiles;  // tiles of a warp added up at a time
  static_assert(kSumsBatch >= 1, "the sums of a tile fit over the rings");
};

struct DecodeParams {
  const uint8_t* a;
  const uint8_t* b;
  const float* scale_a;
  const float* scale_b;
  const void* bias;
  void* out;
  int64_t lda, ldb, ldo;
  int64_t scale_a_m, scale_a_k, scale_b_n, scale_b_k;
  int m, n, k;
  int units;           // of k, the last one perhaps not whole
  int scale_b_offset;  // in shared memory, fp32
  int bias_offset;
};

}  // namespace tilewright::gemm_fp8
