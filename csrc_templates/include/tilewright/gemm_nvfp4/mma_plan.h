// Shared memory of the mma_block_scaled engine of gemm_nvfp4. Needs no CUDA header.
#pragma once

#include "tilewright/gemm_nvfp4/args.h"
#include "tilewright/nvfp4/scale_layout.h"

namespace tilewright::gemm_nvfp4 {

// Tile fields: kMt x kNt outputs of a block of kWarpsM x kWarpsN warps, from a ring of kStages chunks of kKc = 256
// elements of k: a row of 128 bytes, and four scale atoms for each 128 rows. A stage holds, in this order, A, B, scales
// of A, of B.
template <class Tile>
struct MmaLayout {
  static constexpr int kThreads = 32 * Tile::kWarpsM * Tile::kWarpsN;
  static constexpr int kWarpM = Tile::kMt / Tile::kWarpsM;
  static constexpr int kWarpN = Tile::kNt / Tile::kWarpsN;
  static constexpr int kRowBytes = Tile::kKc / 2;
  static constexpr int kABytes = Tile::kMt * kRowBytes;
  static constexpr int kBBytes = Tile::kNt * kRowBytes;
  static constexpr int kAtoms = Tile::kKc / 64;  // of 128 rows
  static constexpr int kAScaleGroups = (Tile::kMt + nvfp4::kScaleAtomRows - 1) / nvfp4::kScaleAtomRows;
  static constexpr int kBScaleGroups = (Tile::kNt + nvfp4::kScaleAtomRows - 1) / nvfp4::kScaleAtomRows;
  static constexpr int kScaleGroupBytes = kAtoms * nvfp4::kScaleAtomBytes;
  static constexpr int kBOffset = kABytes;
  static constexpr int kAScaleOffset = kABytes + kBBytes;
  static constexpr int kBScaleOffset = kAScaleOffset + kAScaleGroups * kScaleGroupBytes;
  static constexpr int kStageBytes = kBScaleOffset + kBScaleGroups * kScaleGroupBytes;
  static constexpr int kBytes = Tile::kStages * kStageBytes;

  static_assert(Tile::kKc == 256, "a chunk is 128 bytes of a row");
  static_assert(Tile::kStages >= 2, "one stage is filled while another is read");
  static_assert(kWarpM % 16 == 0 && kWarpM * Tile::kWarpsM == Tile::kMt, "mt is a multiple of 16 * warps_m");
  static_assert(kWarpN % 16 == 0 && kWarpN * Tile::kWarpsN == Tile::kNt, "nt is a multiple of 16 * warps_n");
  static_assert((Tile::kMt % 128 == 0 || 128 % Tile::kMt == 0) && (Tile::kNt % 128 == 0 || 128 % Tile::kNt == 0),
                "tiles start on a scale atom or lie within one");
  static_assert(kThreads >= 64 && kThreads <= 1024, "a pass of copies covers whole groups of eight rows");
  static_assert(kBytes <= 99 * 1024, "the most that a block may have on sm_120");
};

}  // namespace tilewright::gemm_nvfp4
