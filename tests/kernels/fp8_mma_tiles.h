// The tiles that the gemm_fp8 mma.sync and decode harness compiles, in four groups; those of Y in all output types. Tiles
// named with _s fit the 99 KB of shared memory of sm_89 and sm_120.
// Decode: name, mb, warps, warps_k, depth, occupancy, per_sm, a_kb. Mma: name, mt, nt, stages, warps_m, warps_n.
#pragma once

#define TILEWRIGHT_FP8_DECODE_0(X, Y) \
  Y(d8x4, 8, 8, 4, 4, 2, 1, 36)       \
  X(d8x2, 8, 8, 2, 4, 2, 1, 36)       \
  X(d8x4_s, 8, 8, 4, 3, 2, 1, 36)
#define TILEWRIGHT_FP8_DECODE_1(X, Y) \
  X(d8x8_p2, 8, 8, 8, 4, 2, 2, 36)    \
  X(d8x8, 8, 8, 8, 6, 2, 1, 72)       \
  X(d8x8_l, 8, 8, 8, 4, 2, 1, 140)
#define TILEWRIGHT_FP8_DECODE_2(X, Y) \
  Y(d16x4_s, 16, 8, 4, 3, 2, 1, 40)   \
  X(d16x2, 16, 8, 2, 3, 2, 1, 52)     \
  X(d16x8, 16, 8, 8, 3, 2, 1, 160)
#define TILEWRIGHT_FP8_DECODE_3(X, Y)

#define TILEWRIGHT_FP8_MMA_0(X, Y)
#define TILEWRIGHT_FP8_MMA_1(X, Y)
#define TILEWRIGHT_FP8_MMA_2(X, Y)
#define TILEWRIGHT_FP8_MMA_3(X, Y)      \
  X(m16x64_s4, 16, 64, 4, 1, 4)         \
  X(m16x64_s6, 16, 64, 6, 1, 4)         \
  X(m32x64_s4, 32, 64, 4, 1, 4)         \
  Y(m64x64_s4, 64, 64, 4, 2, 2)         \
  X(m128x128_s3, 128, 128, 3, 2, 4)
