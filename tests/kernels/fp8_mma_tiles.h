// The tiles that the gemm_fp8 mma.sync and decode harness compiles, in four groups; those of Y in all output types.
// Decode: name, mb, warps, warps_k, depth, occupancy, per_sm, a_kb. Mma: name, mt, nt, stages, warps_m, warps_n.
#pragma once

#define TILEWRIGHT_FP8_DECODE_0(X, Y)   \
  Y(m8k8d3, 8, 8, 8, 3, 2, 1, 52)       \
  X(m8k8d4, 8, 8, 8, 4, 2, 1, 36)       \
  X(m8k8d6, 8, 8, 8, 6, 2, 1, 120)      \
  X(m8k8d3x2, 8, 8, 8, 3, 2, 2, 52)     \
  X(m8k8d4x2, 8, 8, 8, 4, 2, 2, 36)     \
  X(m8w16k16d3, 8, 16, 16, 3, 1, 1, 68)
#define TILEWRIGHT_FP8_DECODE_1(X, Y)   \
  X(m8k4d4, 8, 8, 4, 4, 2, 1, 36)       \
  X(m8k4d4x2, 8, 8, 4, 4, 2, 2, 36)     \
  X(m8k2d4, 8, 8, 2, 4, 2, 1, 36)       \
  X(m8k2d4x2, 8, 8, 2, 4, 2, 2, 36)     \
  X(m8k1d4, 8, 8, 1, 4, 2, 1, 36)       \
  X(m8w4k4d6, 8, 4, 4, 6, 3, 1, 20)
#define TILEWRIGHT_FP8_DECODE_2(X, Y)   \
  Y(m16k8d3, 16, 8, 8, 3, 2, 1, 160)    \
  X(m16k8d2, 16, 8, 8, 2, 2, 1, 68)     \
  X(m16k8d3x2, 16, 8, 8, 3, 2, 2, 52)   \
  X(m16k4d3, 16, 8, 4, 3, 2, 1, 52)     \
  X(m16k4d3x2, 16, 8, 4, 3, 2, 2, 52)
#define TILEWRIGHT_FP8_DECODE_3(X, Y)   \
  X(m16k2d3, 16, 8, 2, 3, 2, 1, 52)     \
  X(m16k2d4x2, 16, 8, 2, 4, 2, 2, 36)   \
  X(m16k1d4x2, 16, 8, 1, 4, 2, 2, 36)   \
  X(m16w16k16d3, 16, 16, 16, 3, 1, 1, 68)

#define TILEWRIGHT_FP8_MMA_0(X, Y)
#define TILEWRIGHT_FP8_MMA_1(X, Y)
#define TILEWRIGHT_FP8_MMA_2(X, Y)
#define TILEWRIGHT_FP8_MMA_3(X, Y)      \
  X(mma-16x64-s4, 16, 64, 4, 1, 4)      \
  X(mma-16x64-s6, 16, 64, 6, 1, 4)      \
  X(mma-16x32-s6, 16, 32, 6, 1, 2)      \
  X(mma-16x32-s8, 16, 32, 8, 1, 2)      \
  X(mma-32x64-s4, 32, 64, 4, 1, 4)      \
  X(mma-64x128-s3, 64, 128, 3, 2, 4)    \
  Y(mma-64x64-s4, 64, 64, 4, 2, 2)
