// Shared-memory formulas of the gemm_4bit engines, usable from host code without CUDA headers.
#pragma once

#include <type_traits>

#include "tilewright/gemm_4bit/args.h"

namespace tilewright {

// Warps of an mma_m16n8k16 block that share out the k of one output tile: the field `warps_k`, 1 where a tile has none.
template <class Tile, class = void>
struct MmaM16n8k16WarpsK {
  static constexpr int kValue = 1;
};

template <class Tile>
struct MmaM16n8k16WarpsK<Tile, std::void_t<decltype(Tile::kWarpsK)>> {
  static constexpr int kValue = Tile::kWarpsK;
};

// Layout of one mma_m16n8k16 block's dynamic shared memory, in this order:
//   stages x A      mt * kc elements of 2 bytes
//   stages x B      nt * kc / 2 bytes of packed codes
//   stages x scale  kc / 16 rows of (nt + 8) floats; the 8 spread the rows over the banks
//   codebook        16 floats
//   nested code     256 floats
// At the end the partial sums of the warps that share k, (warps_k - 1) * mt * nt floats, lie over the stages.
template <class Tile>
struct MmaM16n8k16Smem {
  static constexpr int kWarpsK = MmaM16n8k16WarpsK<Tile>::kValue;
  static constexpr int kThreads = 32 * Tile::kWarpsM * Tile::kWarpsN * kWarpsK;

  static constexpr int kAStageBytes = Tile::kMt * Tile::kKc * 2;
  static constexpr int kBStageBytes = Tile::kNt * Tile::kKc / 2;
  static constexpr int kScaleRowFloats = Tile::kNt + 8;
  static constexpr int kScaleStageBytes = Tile::kKc / 16 * kScaleRowFloats * 4;
  static constexpr int kTableBytes = (16 + 256) * 4;

  static constexpr int kAOffset = 0;
  static constexpr int kBOffset = kAOffset + Tile::kStages * kAStageBytes;
  static constexpr int kScaleOffset = kBOffset + Tile::kStages * kBStageBytes;
  static constexpr int kCodebookOffset = kScaleOffset + Tile::kStages * kScaleStageBytes;
  static constexpr int kNestedCodeOffset = kCodebookOffset + 16 * 4;
  static constexpr int kBytes = kCodebookOffset + kTableBytes;
  static_assert((kWarpsK - 1) * Tile::kMt * Tile::kNt * 4 <= kCodebookOffset, "partial sums fit over the stages");
};

template <Engine engine, class Tile>
struct EngineSmem;

template <class Tile>
struct EngineSmem<Engine::kMmaM16n8k16, Tile> {
  static constexpr int kBytes = MmaM16n8k16Smem<Tile>::kBytes;
};

// The simt engine keeps 64 bytes of codebook in static shared memory and asks for no dynamic shared memory.
template <class Tile>
struct EngineSmem<Engine::kSimt, Tile> {
  static constexpr int kBytes = 0;
};

// Dynamic shared memory of one block of `Tile`, in bytes. Mirrored by the generator's resource model; a generated
// static_assert compares the two.
template <class Tile>
constexpr int smem_bytes() {
  return EngineSmem<Tile::kEngine, Tile>::kBytes;
}

}  // namespace tilewright
