// The gemm_fp8 wgmma tiles that the harness builds, for sweeps: a superset of those worth shipping.
#pragma once

// TILE(id, mt, nt, stages, swap, consumers, pingpong, promote, cluster_m, cluster_n, split_k, occupancy)
// Names: f straight sums or p promoted, mt x nt, t swapped, c or d two or three warpgroups on a tile, pp ping-pong,
// cm/cn cluster, s split, o occupancy. Group 0 is built for every output type and is what the correctness checks run.
#define TILEWRIGHT_FP8_TILES_0(TILE)                      \
  TILE(f256x128t_c, 256, 128, 4, 1, 2, 0, 0, 1, 1, 1, 1)  \
  TILE(f128x128t_pp, 128, 128, 5, 1, 2, 1, 0, 2, 1, 1, 1) \
  TILE(f64x128t_s2, 64, 128, 7, 1, 2, 0, 0, 1, 1, 2, 1)   \
  TILE(p256x128_c, 256, 128, 4, 0, 2, 0, 1, 1, 1, 1, 1)   \
  TILE(p64x128t_s2, 64, 128, 7, 1, 2, 0, 1, 1, 1, 2, 1)
#define TILEWRIGHT_FP8_TILES_1(TILE)                        \
  TILE(f256x128t_cm, 256, 128, 4, 1, 2, 0, 0, 2, 1, 1, 1)   \
  TILE(f256x128t_cn, 256, 128, 4, 1, 2, 0, 0, 1, 2, 1, 1)   \
  TILE(f128x256_cm, 128, 256, 4, 0, 2, 0, 0, 2, 1, 1, 1)    \
  TILE(f128x128t_ppn, 128, 128, 5, 1, 2, 1, 0, 1, 2, 1, 1)  \
  TILE(f128x128t_pp1, 128, 128, 5, 1, 2, 1, 0, 1, 1, 1, 1)  \
  TILE(f256x64t_pp, 256, 64, 4, 1, 2, 1, 0, 2, 1, 1, 1)     \
  TILE(f192x192t_d, 192, 192, 3, 1, 3, 0, 0, 1, 1, 1, 1)    \
  TILE(f192x128t_c, 192, 128, 4, 1, 2, 0, 0, 1, 1, 1, 1)    \
  TILE(f128x128t_c, 128, 128, 6, 1, 2, 0, 0, 1, 1, 1, 1)
#define TILEWRIGHT_FP8_TILES_2(TILE)                          \
  TILE(f128x128t_s2, 128, 128, 6, 1, 2, 0, 0, 1, 1, 2, 1)     \
  TILE(f128x128t_s3, 128, 128, 6, 1, 2, 0, 0, 1, 1, 3, 1)     \
  TILE(f128x128t_s4o2, 128, 128, 3, 1, 1, 0, 0, 1, 1, 4, 2)   \
  TILE(f128x256t_s4, 128, 256, 4, 1, 2, 0, 0, 1, 1, 4, 1)     \
  TILE(f128x64t_s2o2, 128, 64, 4, 1, 1, 0, 0, 1, 1, 2, 2)     \
  TILE(f128x64t_cns2o2, 128, 64, 4, 1, 1, 0, 0, 1, 2, 2, 2)   \
  TILE(f64x128t_c, 64, 128, 8, 1, 2, 0, 0, 1, 1, 1, 1)        \
  TILE(f64x128t_s4o2, 64, 128, 4, 1, 1, 0, 0, 1, 1, 4, 2)     \
  TILE(f64x64t_1, 64, 64, 12, 1, 1, 0, 0, 1, 1, 1, 1)         \
  TILE(f64x64t_s2o2, 64, 64, 6, 1, 1, 0, 0, 1, 1, 2, 2)       \
  TILE(f16x64t_1, 16, 64, 20, 1, 1, 0, 0, 1, 1, 1, 1)         \
  TILE(f16x64t_o2, 16, 64, 10, 1, 1, 0, 0, 1, 1, 1, 2)        \
  TILE(f16x128t_c, 16, 128, 11, 1, 2, 0, 0, 1, 1, 1, 1)       \
  TILE(f16x64t_s2o2, 16, 64, 10, 1, 1, 0, 0, 1, 1, 2, 2)
#define TILEWRIGHT_FP8_TILES_3(TILE)                      \
  TILE(p128x128_c, 128, 128, 5, 0, 2, 0, 1, 1, 1, 1, 1)   \
  TILE(p128x192_c, 128, 192, 5, 0, 2, 0, 1, 1, 1, 1, 1)   \
  TILE(p256x128_cm, 256, 128, 4, 0, 2, 0, 1, 2, 1, 1, 1)  \
  TILE(p256x128_cn, 256, 128, 4, 0, 2, 0, 1, 1, 2, 1, 1)  \
  TILE(p128x128_cm, 128, 128, 6, 0, 2, 0, 1, 2, 1, 1, 1)  \
  TILE(p128x64t_s2o2, 128, 64, 4, 1, 1, 0, 1, 1, 1, 2, 2) \
  TILE(p64x64t_o2, 64, 64, 6, 1, 1, 0, 1, 1, 1, 1, 2)     \
  TILE(p64x64t_s2o2, 64, 64, 6, 1, 1, 0, 1, 1, 1, 2, 2)   \
  TILE(p16x64t_o2, 16, 64, 10, 1, 1, 0, 1, 1, 1, 1, 2)    \
  TILE(p16x64t_s2o2, 16, 64, 10, 1, 1, 0, 1, 1, 1, 2, 2)
