// The tiles that the gemm_fp8 mma.sync and decode harness compiles, in four groups; those of Y in all output types.
// Decode: name, mb, warps, warps_k, tiles, depth, occupancy, per_sm. Mma: name, mt, nt, stages, warps_m, warps_n.
#pragma once

#define TILEWRIGHT_FP8_DECODE_0(X, Y)   \
  Y(m8k8t2d4, 8, 8, 8, 2, 4, 2, 1)      \
  X(m8k8t4d4, 8, 8, 8, 4, 4, 2, 1)      \
  X(m8k8t8d4, 8, 8, 8, 8, 4, 2, 1)      \
  X(m8k8t4d6, 8, 8, 8, 4, 6, 2, 1)      \
  X(m8k8t2d4x2, 8, 8, 8, 2, 4, 2, 2)    \
  X(m8k8t4d4x2, 8, 8, 8, 4, 4, 2, 2)    \
  X(m8w16k16t2d3, 8, 16, 16, 2, 3, 1, 1)
#define TILEWRIGHT_FP8_DECODE_1(X, Y)   \
  X(m8k4t2d4, 8, 8, 4, 2, 4, 2, 1)      \
  X(m8k2t1d4, 8, 8, 2, 1, 4, 2, 1)      \
  X(m8k2t3d4, 8, 8, 2, 3, 4, 2, 1)      \
  X(m8k4t6d4, 8, 8, 4, 6, 4, 2, 1)      \
  X(m8k2t4d4, 8, 8, 2, 4, 4, 2, 1)      \
  X(m8k1t2d4, 8, 8, 1, 2, 4, 2, 1)
#define TILEWRIGHT_FP8_DECODE_2(X, Y)   \
  Y(m16k8t2d3, 16, 8, 8, 2, 3, 2, 1)    \
  X(m16k8t4d3, 16, 8, 8, 4, 3, 2, 1)    \
  X(m16k8t4d4, 16, 8, 8, 4, 4, 2, 1)    \
  X(m16k8t8d4, 16, 8, 8, 8, 4, 1, 1)    \
  X(m16k8t2d3x2, 16, 8, 8, 2, 3, 2, 2)  \
  X(m16k4t2d3, 16, 8, 4, 2, 3, 2, 1)    \
  X(m16k2t1d3, 16, 8, 2, 1, 3, 2, 1)
#define TILEWRIGHT_FP8_DECODE_3(X, Y)   \
  X(m16k2t3d3, 16, 8, 2, 3, 3, 2, 1)    \
  X(m16k4t6d3, 16, 8, 4, 6, 3, 1, 1)    \
  X(m16k2t4d3, 16, 8, 2, 4, 3, 2, 1)    \
  X(m16k1t2d3, 16, 8, 1, 2, 3, 2, 1)    \
  X(m32k8t2d3, 32, 8, 8, 2, 3, 1, 1)    \
  X(m32k8t4d4, 32, 8, 8, 4, 4, 1, 1)    \
  X(m32k2t4d3, 32, 8, 2, 4, 3, 1, 1)

#define TILEWRIGHT_FP8_MMA_0(X, Y)
#define TILEWRIGHT_FP8_MMA_1(X, Y)      \
  X(mma-16x64-s4, 16, 64, 4, 1, 4)
#define TILEWRIGHT_FP8_MMA_2(X, Y)
#define TILEWRIGHT_FP8_MMA_3(X, Y)      \
  X(mma-128x128-s3, 128, 128, 3, 2, 4)  \
  Y(mma-64x64-s4, 64, 64, 4, 2, 2)
