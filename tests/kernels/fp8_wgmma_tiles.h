// The gemm_fp8 wgmma tiles that the harness builds, for sweeps: a superset of those worth shipping.
#pragma once

// TILE(id, mt, nt, stages, swap, consumers, pingpong, promote, cluster_m, cluster_n, split_k, occupancy)
// Names: f straight sums or p promoted, mt x nt, t swapped, 1 or c one or two warpgroups on a tile, pp ping-pong,
// m/n cluster, s split, o occupancy. Group 0 is built for every output type.
#define TILEWRIGHT_FP8_TILES_0(TILE)                      \
  TILE(f256x128t_c, 256, 128, 4, 1, 2, 0, 0, 1, 1, 1, 1)  \
  TILE(f128x128t_pp, 128, 128, 6, 1, 2, 1, 0, 1, 1, 1, 1) \
  TILE(f64x64t_s2, 64, 64, 12, 1, 1, 0, 0, 1, 1, 2, 1)    \
  TILE(p128x128_c, 128, 128, 5, 0, 2, 0, 1, 1, 1, 1, 1)   \
  TILE(p64x64t_s2, 64, 64, 11, 1, 1, 0, 1, 1, 1, 2, 1)    \
  TILE(p128x64_s2, 128, 64, 7, 0, 2, 0, 1, 1, 1, 2, 1)    \
  TILE(f128x112_s2, 128, 112, 6, 0, 2, 0, 0, 1, 1, 2, 1)
#define TILEWRIGHT_FP8_TILES_1(TILE)                       \
  TILE(f192x128t_pp, 192, 128, 5, 1, 2, 1, 0, 1, 1, 1, 1)  \
  TILE(f160x128t_pp, 160, 128, 5, 1, 2, 1, 0, 1, 1, 1, 1)  \
  TILE(f128x160_pp, 128, 160, 5, 0, 2, 1, 0, 1, 1, 1, 1)   \
  TILE(f128x192_c, 128, 192, 4, 0, 2, 0, 0, 1, 1, 1, 1)    \
  TILE(f128x224_c, 128, 224, 4, 0, 2, 0, 0, 1, 1, 1, 1)    \
  TILE(f256x128t_n, 256, 128, 4, 1, 2, 0, 0, 1, 2, 1, 1)   \
  TILE(f128x128t_c, 128, 128, 6, 1, 2, 0, 0, 1, 1, 1, 1)   \
  TILE(f128x256_c, 128, 256, 4, 0, 2, 0, 0, 1, 1, 1, 1)
#define TILEWRIGHT_FP8_TILES_2(TILE)                      \
  TILE(f128x64t_1, 128, 64, 8, 1, 1, 0, 0, 1, 1, 1, 1)    \
  TILE(f128x64t_s2, 128, 64, 8, 1, 1, 0, 0, 1, 1, 2, 1)   \
  TILE(f192x64t_s2, 192, 64, 6, 1, 1, 0, 0, 1, 1, 2, 1)   \
  TILE(f160x64t_s2, 160, 64, 7, 1, 1, 0, 0, 1, 1, 2, 1)   \
  TILE(f128x96_s2, 128, 96, 6, 0, 2, 0, 0, 1, 1, 2, 1)    \
  TILE(f128x128_s2, 128, 128, 5, 0, 2, 0, 0, 1, 1, 2, 1)  \
  TILE(f64x64t_1, 64, 64, 12, 1, 1, 0, 0, 1, 1, 1, 1)     \
  TILE(f64x128t_pp, 64, 128, 8, 1, 2, 1, 0, 1, 1, 1, 1)   \
  TILE(f32x64t_1, 32, 64, 16, 1, 1, 0, 0, 1, 1, 1, 1)     \
  TILE(f32x64t_s2o2, 32, 64, 8, 1, 1, 0, 0, 1, 1, 2, 2)   \
  TILE(f16x64t_1, 16, 64, 20, 1, 1, 0, 0, 1, 1, 1, 1)     \
  TILE(f16x64t_s2o2, 16, 64, 10, 1, 1, 0, 0, 1, 1, 2, 2)
#define TILEWRIGHT_FP8_TILES_3(TILE)                     \
  TILE(p192x128_3, 192, 128, 4, 0, 3, 0, 1, 1, 1, 1, 1)  \
  TILE(p128x192_c, 128, 192, 4, 0, 2, 0, 1, 1, 1, 1, 1)  \
  TILE(p256x128_c, 256, 128, 4, 0, 2, 0, 1, 1, 1, 1, 1)  \
  TILE(p128x128_s2, 128, 128, 5, 0, 2, 0, 1, 1, 1, 2, 1) \
  TILE(p128x64_c, 128, 64, 8, 0, 2, 0, 1, 1, 1, 1, 1)    \
  TILE(p64x64t_1, 64, 64, 12, 1, 1, 0, 1, 1, 1, 1, 1)    \
  TILE(p64x128t_s2, 64, 128, 7, 1, 2, 0, 1, 1, 1, 2, 1)  \
  TILE(p32x64t_1, 32, 64, 16, 1, 1, 0, 1, 1, 1, 1, 1)    \
  TILE(p32x64t_s2, 32, 64, 15, 1, 1, 0, 1, 1, 1, 2, 1)   \
  TILE(p16x64t_1, 16, 64, 20, 1, 1, 0, 1, 1, 1, 1, 1)    \
  TILE(p16x64t_s2o2, 16, 64, 10, 1, 1, 0, 1, 1, 1, 2, 2)
