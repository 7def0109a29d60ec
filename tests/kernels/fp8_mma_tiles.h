// The tiles that the gemm_fp8 mma.sync and decode harness compiles, in four groups; those of Y in all output types. Tiles
// named with _s fit the 99 KB of shared memory of sm_89 and sm_120.
// Decode: name, mb, warps, warps_k, depth, occupancy, per_sm, a_kb. Mma: name, mt, nt, stages, warps_m, warps_n.
// Bulk, the decode engine's kernel for Hopper: name, mb, warps, depth, cluster, occupancy, per_sm, a_kb.
#pragma once

#define TILEWRIGHT_FP8_DECODE_0(X, Y) X(d8x4_s, 8, 8, 4, 3, 2, 1, 36)
#define TILEWRIGHT_FP8_DECODE_1(X, Y) X(d8x8_pair, 8, 8, 8, 4, 2, 2, 42)
#define TILEWRIGHT_FP8_DECODE_2(X, Y) Y(d16x4_s, 16, 8, 4, 3, 2, 1, 40)
#define TILEWRIGHT_FP8_DECODE_3(X, Y)

#define TILEWRIGHT_FP8_BULK_0(X, Y)         \
  Y(d8_s1, 8, 4, 12, 1, 2, 1, 24)           \
  X(d8_s2, 8, 4, 12, 2, 2, 1, 24)           \
  X(d8_s1_pair, 8, 4, 11, 1, 2, 2, 24)      \
  X(d8_s2_pair, 8, 4, 11, 2, 2, 2, 24)      \
  X(d8_wide_pair, 8, 8, 6, 1, 2, 2, 24)
#define TILEWRIGHT_FP8_BULK_1(X, Y)         \
  X(d16_s1, 16, 4, 10, 1, 2, 1, 24)         \
  Y(d16_s2, 16, 4, 10, 2, 2, 1, 24)         \
  X(d16_s1_pair, 16, 4, 10, 1, 2, 2, 24)    \
  X(d16_s2_pair, 16, 4, 10, 2, 2, 2, 24)    \
  X(d16_wide_pair, 16, 8, 6, 1, 2, 2, 24)
#define TILEWRIGHT_FP8_BULK_2(X, Y)         \
  X(d32_s1, 32, 4, 9, 1, 2, 1, 24)          \
  X(d32_s2, 32, 4, 8, 2, 2, 1, 24)          \
  X(d32_s1_pair, 32, 4, 8, 1, 2, 2, 24)     \
  X(d32_s2_pair, 32, 4, 8, 2, 2, 2, 24)     \
  X(d32_wide_pair, 32, 8, 5, 1, 2, 2, 24)
#define TILEWRIGHT_FP8_BULK_3(X, Y)         \
  X(d64_s1, 64, 4, 6, 1, 2, 1, 24)          \
  Y(d64_s2, 64, 4, 6, 2, 2, 1, 24)          \
  X(d64_s2_pair, 64, 4, 6, 2, 2, 2, 24)     \
  X(d64_wide_pair, 64, 8, 4, 1, 2, 2, 24)   \
  X(d64_wide_deep, 64, 8, 7, 1, 1, 1, 40)

#define TILEWRIGHT_FP8_MMA_0(X, Y)
#define TILEWRIGHT_FP8_MMA_1(X, Y)
#define TILEWRIGHT_FP8_MMA_2(X, Y)
#define TILEWRIGHT_FP8_MMA_3(X, Y)      \
  X(m16x64_s4, 16, 64, 4, 1, 4)         \
  X(m16x64_s6, 16, 64, 6, 1, 4)         \
  X(m32x64_s4, 32, 64, 4, 1, 4)         \
  Y(m64x64_s4, 64, 64, 4, 2, 2)         \
  X(m128x128_s3, 128, 128, 3, 2, 4)
