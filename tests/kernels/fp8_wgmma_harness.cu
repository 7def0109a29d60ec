// A plain C interface to the wgmma engine of gemm_fp8 alone, one translation unit per group of tiles
// (-DTILEWRIGHT_GROUP=0..3). Built by fp8_wgmma_build.sh, used by benchmarks/fp8_sweep.py. No torch needed.
#include "fp8_wgmma_harness.h"
#include "fp8_wgmma_tiles.h"
#include "tilewright/gemm_fp8/config.h"
#include "tilewright/gemm_fp8/wgmma.cuh"

namespace tilewright::test {
namespace {

#define TILEWRIGHT_FP8_STRUCT(id, mt, nt, stages, swap, consumers, pingpong, promote, cm, cn, split, blocks) \
  struct Tile_##id {                                                                                         \
    static constexpr Engine kEngine = Engine::kWgmma;                                                        \
    static constexpr int kMt = mt;                                                                           \
    static constexpr int kNt = nt;                                                                           \
    static constexpr int kKc = 128;                                                                          \
    static constexpr int kStages = stages;                                                                   \
    static constexpr int kSwap = swap;                                                                       \
    static constexpr int kConsumers = consumers;                                                             \
    static constexpr int kPingpong = pingpong;                                                               \
    static constexpr int kPromote = promote;                                                                 \
    static constexpr int kClusterM = cm;                                                                     \
    static constexpr int kClusterN = cn;                                                                     \
    static constexpr int kSplitK = split;                                                                    \
    static constexpr int kOccupancy = blocks;                                                                \
  };

template <class Tile, class T>
constexpr auto launcher() {
  return &gemm_fp8::EngineLauncher<Engine::kWgmma>::launch<GemmFp8Config<Tile, T>>;
}

// Every output type for tiles of group 0, bf16 alone for the others: a sweep needs no more.
#if TILEWRIGHT_GROUP == 0
#define TILEWRIGHT_FP8_LAUNCH(id) \
  { launcher<Tile_##id, __half>(), launcher<Tile_##id, __nv_bfloat16>(), launcher<Tile_##id, float>() }
#else
#define TILEWRIGHT_FP8_LAUNCH(id) \
  { nullptr, launcher<Tile_##id, __nv_bfloat16>(), nullptr }
#endif

#define TILEWRIGHT_FP8_ENTRY(id, mt, nt, stages, swap, consumers, pingpong, promote, cm, cn, split, blocks) \
  {#id,                                                                                                     \
   {mt, nt, stages, swap, consumers, pingpong, promote, cm, cn, split, blocks,                              \
    gemm_fp8::WgmmaGeometry<Tile_##id>::kBytes},                                                            \
   TILEWRIGHT_FP8_LAUNCH(id)},

#define TILEWRIGHT_JOIN_(a, b) a##b
#define TILEWRIGHT_JOIN(a, b) TILEWRIGHT_JOIN_(a, b)
#define TILEWRIGHT_TILES TILEWRIGHT_JOIN(TILEWRIGHT_FP8_TILES_, TILEWRIGHT_GROUP)

TILEWRIGHT_TILES(TILEWRIGHT_FP8_STRUCT)
constexpr Fp8WgmmaEntry kEntries[] = {TILEWRIGHT_TILES(TILEWRIGHT_FP8_ENTRY)};

}  // namespace

Fp8WgmmaGroup TILEWRIGHT_JOIN(fp8_wgmma_group_, TILEWRIGHT_GROUP)() {
  return {kEntries, static_cast<int>(sizeof(kEntries) / sizeof(kEntries[0]))};
}

}  // namespace tilewright::test
