// Tiles of the kernel tests: X(engine, name, fields...). Broader than any spec, so that a tile is tested before it is used.
#pragma once

#include "tilewright/gemm_4bit/args.h"

// mt, nt, kc, stages, warps_m, warps_n, warps_k
#define TILEWRIGHT_TEST_MMA_TILES(X)                   \
  X(mma_32x64_64_w2x4x1, 32, 64, 64, 3, 2, 4, 1)       \
  X(mma_32x128_64_w2x4x1, 32, 128, 64, 3, 2, 4, 1)     \
  X(mma_64x64_64_w4x2x1, 64, 64, 64, 3, 4, 2, 1)       \
  X(mma_64x128_64_w4x2x1, 64, 128, 64, 3, 4, 2, 1)     \
  X(mma_128x64_64_w4x2x1, 128, 64, 64, 3, 4, 2, 1)     \
  X(mma_128x128_64_w4x2x1, 128, 128, 64, 3, 4, 2, 1)   \
  X(mma_32x64_128_w2x4x1, 32, 64, 128, 3, 2, 4, 1)     \
  X(mma_32x128_128_w2x4x1, 32, 128, 128, 3, 2, 4, 1)   \
  X(mma_32x256_128_w2x4x1, 32, 256, 128, 3, 2, 4, 1)   \
  X(mma_64x32_128_w4x2x1, 64, 32, 128, 3, 4, 2, 1)     \
  X(mma_64x64_128_w4x2x1, 64, 64, 128, 3, 4, 2, 1)     \
  X(mma_8x32_256_w1x2x4, 8, 32, 256, 4, 1, 2, 4)       \
  X(mma_16x32_256_w1x2x4, 16, 32, 256, 4, 1, 2, 4)     \
  X(mma_16x64_256_w1x4x4, 16, 64, 256, 3, 1, 4, 4)     \
  X(mma_16x64_256_w1x4x2, 16, 64, 256, 3, 1, 4, 2)     \
  X(mma_32x32_256_w1x2x4, 32, 32, 256, 3, 1, 2, 4)     \
  X(mma_32x64_256_w1x4x2, 32, 64, 256, 3, 1, 4, 2)     \
  X(mma_32x64_128_w1x4x2, 32, 64, 128, 4, 1, 4, 2)     \
  X(mma_64x64_128_w1x4x2, 64, 64, 128, 3, 1, 4, 2)     \
  X(mma_64x128_64_w1x8x1, 64, 128, 64, 4, 1, 8, 1)     \
  X(mma_64x128_128_w1x4x2, 64, 128, 128, 3, 1, 4, 2)   \
  X(mma_128x128_64_w2x4x1, 128, 128, 64, 4, 2, 4, 1)   \
  X(mma_128x128_128_w2x4x1, 128, 128, 128, 2, 2, 4, 1) \
  X(mma_128x256_64_w2x4x1, 128, 256, 64, 3, 2, 4, 1)   \
  X(mma_16x32_256_w1x2x2, 16, 32, 256, 3, 1, 2, 2)     \
  X(mma_16x64_128_w1x4x2, 16, 64, 128, 4, 1, 4, 2)     \
  X(mma_32x32_128_w1x2x2, 32, 32, 128, 4, 1, 2, 2)     \
  X(mma_32x128_128_w1x8x1, 32, 128, 128, 3, 1, 8, 1)   \
  X(mma_64x256_64_w1x8x1, 64, 256, 64, 3, 1, 8, 1)     \
  X(mma_128x128_64_w1x8x1, 128, 128, 64, 3, 1, 8, 1)   \
  X(mma_48x96_192_w2x3x3, 48, 96, 192, 2, 2, 3, 3)

// mb, warps
#define TILEWRIGHT_TEST_SIMT_TILES(X) \
  X(simt_1x4, 1, 4)                   \
  X(simt_1x8, 1, 8)                   \
  X(simt_2x4, 2, 4)                   \
  X(simt_4x4, 4, 4)                   \
  X(simt_8x4, 8, 4)                   \
  X(simt_8x8, 8, 8)

namespace tilewright::test {

#define TILEWRIGHT_DEFINE_TILE(name, mt, nt, kc, stages, warps_m, warps_n, warps_k) \
  struct Tile_##name {                                                        \
    static constexpr Engine kEngine = Engine::kMmaM16n8k16;                   \
    static constexpr int kMt = mt, kNt = nt, kKc = kc, kStages = stages;      \
    static constexpr int kWarpsM = warps_m, kWarpsN = warps_n, kWarpsK = warps_k; \
  };
TILEWRIGHT_TEST_MMA_TILES(TILEWRIGHT_DEFINE_TILE)
#undef TILEWRIGHT_DEFINE_TILE

#define TILEWRIGHT_DEFINE_TILE(name, mb, warps)        \
  struct Tile_##name {                                 \
    static constexpr Engine kEngine = Engine::kSimt;   \
    static constexpr int kMb = mb, kWarps = warps;     \
  };
TILEWRIGHT_TEST_SIMT_TILES(TILEWRIGHT_DEFINE_TILE)
#undef TILEWRIGHT_DEFINE_TILE

}  // namespace tilewright::test
