// The tiles that the gemm_fp8 mma.sync and decode harness compiles, in four groups.
// Decode: name, mb, warps, warps_k, depth, occupancy, cluster, per_sm, a_kb, ahead_kb. Those of Y in all output types.
#pragma once

#define TILEWRIGHT_FP8_DECODE_0(X, Y)                     \
  Y(m8w8k8d3, 8, 8, 8, 3, 2, 1, 1, 64, 0)                 \
  X(m8w8k8d4, 8, 8, 8, 4, 2, 1, 1, 64, 0)                 \
  X(m8w8k8d6, 8, 8, 8, 6, 2, 1, 1, 64, 0)                 \
  X(m8w8k8d3-a64, 8, 8, 8, 3, 2, 1, 1, 64, 64)            \
  X(m8w8k8d4-a128, 8, 8, 8, 4, 2, 1, 1, 64, 128)          \
  X(m8w8k8d3x2, 8, 8, 8, 3, 2, 1, 2, 64, 0)               \
  X(m8w8k8d3x2-a64, 8, 8, 8, 3, 2, 1, 2, 64, 64)
#define TILEWRIGHT_FP8_DECODE_1(X, Y)                     \
  X(m8w16k16d3, 8, 16, 16, 3, 1, 1, 1, 64, 0)             \
  X(m8w16k16d2, 8, 16, 16, 2, 1, 1, 1, 64, 0)             \
  X(m8w16k8d3-a64, 8, 16, 8, 3, 1, 1, 1, 64, 64)          \
  X(m8w8k4d4-a64, 8, 8, 4, 4, 2, 1, 1, 64, 64)            \
  X(m8w8k2d4, 8, 8, 2, 4, 2, 1, 1, 64, 0)                 \
  X(m8w8k2d4x2-a64, 8, 8, 2, 4, 2, 1, 2, 64, 64)          \
  X(m8w8k1d4-a64, 8, 8, 1, 4, 2, 1, 1, 64, 64)            \
  X(m8w8k1d4x2, 8, 8, 1, 4, 2, 1, 2, 64, 0)
#define TILEWRIGHT_FP8_DECODE_2(X, Y)                     \
  X(m16w8k8d3, 16, 8, 8, 3, 1, 1, 1, 120, 0)              \
  X(m16w8k8d4-a128, 16, 8, 8, 4, 1, 1, 1, 120, 128)       \
  X(m16w16k16d3-a128, 16, 16, 16, 3, 1, 1, 1, 80, 128)    \
  X(m16w8k4d3x2-a64, 16, 8, 4, 3, 2, 1, 2, 64, 64)        \
  X(m16w8k1d4-a64, 16, 8, 1, 4, 1, 1, 1, 64, 64)          \
  X(m16w8k2d3x2, 16, 8, 2, 3, 1, 1, 2, 64, 0)             \
  Y(m16w8k8d4c2-a64, 16, 8, 8, 4, 1, 2, 1, 120, 64)
#define TILEWRIGHT_FP8_DECODE_3(X, Y)                     \
  X(m16w8k8d4c4, 16, 8, 8, 4, 1, 4, 1, 80, 0)             \
  X(m32w8k8d2-a128, 32, 8, 8, 2, 1, 1, 1, 120, 128)       \
  X(m32w8k8d2c2-a128, 32, 8, 8, 2, 1, 2, 1, 100, 128)     \
  X(m32w8k4d2c4-a64, 32, 8, 4, 2, 1, 4, 1, 100, 64)
