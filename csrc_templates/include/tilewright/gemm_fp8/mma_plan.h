// Shared memory of the mma_m16n8k32 engine of gemm_fp8. Needs no CUDA header.
#pragma once

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::gemm_fp8 {

// Tile fields: kMt x kNt outputs of a block of kWarpsM x kWarpsN warps, from a ring of kStages chunks of kKc = 128 in
// k: one row of 128 bytes fills the banks once, and one chunk lies under one scale of Scaling::kBlock.
template <class Tile>
struct MmaLayout {
  static constexpr int kThreads = 32 * Tile::kWarpsM * Tile::kWarpsN;
  static constexpr int kWarpM = Tile::kMt / Tile::kWarpsM;
  static constexpr int kWarpN = Tile::kNt / Tile::kWarpsN;
  static constexpr int kABytes = Tile::kMt * Tile::kKc;
  static constexpr int kBBytes = Tile::kNt * Tile::kKc;
  static constexpr int kStageBytes = kABytes + kBBytes;
  static constexpr int kBytes = Tile::kStages * kStageBytes;

  static_assert(Tile::kKc == 128, "a chunk is 128 bytes of a row");
  static_assert(Tile::kStages >= 2, "one stage is filled while another is read");
  static_assert(kWarpM % 16 == 0 && kWarpM * Tile::kWarpsM == Tile::kMt, "mt is a multiple of 16 * warps_m");
  static_assert(kWarpN % 16 == 0 && kWarpN * Tile::kWarpsN == Tile::kNt, "nt is a multiple of 16 * warps_n");
  static_assert(128 % kWarpN == 0, "the columns of a warp lie under one scale of Scaling::kBlock");
  static_assert(kThreads >= 64 && kThreads <= 1024, "a pass of copies covers whole groups of eight rows");
};

}  // namespace tilewright::gemm_fp8
