// A plain C interface to the wgmma engine alone, one translation unit per group of tiles (-DTILEWRIGHT_GROUP=0..3).
// Built by wgmma_build.sh, used by benchmarks/wgmma_sweep.py. No torch needed.
#include "tilewright/gemm_4bit/config.h"
#include "tilewright/gemm_4bit/wgmma.cuh"
#include "wgmma_harness.h"
#include "wgmma_tiles.h"

namespace tilewright::test {
namespace {

#define TILEWRIGHT_WGMMA_STRUCT(id, mt, nt, kc, stages, cluster_n, split_k, occupancy, lut_parts, group_parts) \
  struct Tile_##id {                                                                                           \
    static constexpr Engine kEngine = Engine::kWgmma;                                                          \
    static constexpr int kMt = mt;                                                                             \
    static constexpr int kNt = nt;                                                                             \
    static constexpr int kKc = kc;                                                                             \
    static constexpr int kStages = stages;                                                                     \
    static constexpr int kClusterN = cluster_n;                                                                \
    static constexpr int kSplitK = split_k;                                                                    \
    static constexpr int kOccupancy = occupancy;                                                               \
    static constexpr int kLutParts = lut_parts;                                                                \
    static constexpr int kGroupParts = group_parts;                                                            \
  };

#define TILEWRIGHT_WGMMA_ENTRY(id, mt, nt, kc, stages, cluster_n, split_k, occupancy, lut_parts, group_parts) \
  {#id,                                                                                                       \
   {mt, nt, kc, stages, cluster_n, split_k, occupancy, lut_parts, group_parts, smem_bytes<Tile_##id>()},      \
   {TILEWRIGHT_HALF(id),                                                                                      \
    &EngineLauncher<Engine::kWgmma>::launch<Gemm4bitConfig<Tile_##id, __nv_bfloat16>>}},

// -DTILEWRIGHT_BF16_ONLY builds half as much, for sweeps.
#ifdef TILEWRIGHT_BF16_ONLY
#define TILEWRIGHT_HALF(id) nullptr
#else
#define TILEWRIGHT_HALF(id) &EngineLauncher<Engine::kWgmma>::launch<Gemm4bitConfig<Tile_##id, __half>>
#endif

#define TILEWRIGHT_JOIN_(a, b) a##b
#define TILEWRIGHT_JOIN(a, b) TILEWRIGHT_JOIN_(a, b)
#define TILEWRIGHT_TILES TILEWRIGHT_JOIN(TILEWRIGHT_WGMMA_TILES_, TILEWRIGHT_GROUP)

TILEWRIGHT_TILES(TILEWRIGHT_WGMMA_STRUCT)
constexpr WgmmaEntry kEntries[] = {TILEWRIGHT_TILES(TILEWRIGHT_WGMMA_ENTRY)};

}  // namespace

WgmmaGroup TILEWRIGHT_JOIN(wgmma_group_, TILEWRIGHT_GROUP)() {
  return {kEntries, static_cast<int>(sizeof(kEntries) / sizeof(kEntries[0]))};
}

}  // namespace tilewright::test
