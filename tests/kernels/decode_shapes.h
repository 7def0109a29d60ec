// The shapes of the decode engine that the harness compiles: name, mb, kb, warps_k, warps_n, lut, occupancy.
#pragma once

#define TILEWRIGHT_DECODE_SHAPES_0(X)  \
  X(m8k4w4x2, 8, 4, 4, 2, 2, 2)        \
  X(m8k4w4x2mix, 8, 4, 4, 2, 1, 2)     \
  X(m8k4w4x2prmt, 8, 4, 4, 2, 0, 2)    \
  X(m8k7w4x2, 8, 7, 4, 2, 2, 2)
#define TILEWRIGHT_DECODE_SHAPES_1(X)  \
  X(m8k4w8x1, 8, 4, 8, 1, 2, 2)        \
  X(m8k8w8x1, 8, 8, 8, 1, 2, 2)        \
  X(m8k4w4x4, 8, 4, 4, 4, 2, 1)        \
  X(m8k4w8x2, 8, 4, 8, 2, 2, 1)
#define TILEWRIGHT_DECODE_SHAPES_2(X)  \
  X(m16k4w4x2, 16, 4, 4, 2, 2, 2)      \
  X(m16k4w4x2mix, 16, 4, 4, 2, 1, 2)   \
  X(m16k4w8x1, 16, 4, 8, 1, 2, 2)      \
  X(m16k3w4x2, 16, 3, 4, 2, 2, 2)
#define TILEWRIGHT_DECODE_SHAPES_3(X)  \
  X(m16k7w4x2, 16, 7, 4, 2, 2, 1)      \
  X(m16k4w8x2, 16, 4, 8, 2, 2, 1)      \
  X(m16k2w8x2, 16, 2, 8, 2, 2, 1)      \
  X(m32k2w8x1, 32, 2, 8, 1, 2, 1)
