// The shapes of the decode engine that the harness compiles: name, mb, kb, warps_k, warps_n, lut (5: the wide table),
// occupancy.
#pragma once

#define TILEWRIGHT_DECODE_SHAPES_0(X) \
  X(m8k3w8x1, 8, 3, 8, 1, 4, 2)       \
  X(m8k4w8x1, 8, 4, 8, 1, 4, 2)       \
  X(m8k8w8x1, 8, 8, 8, 1, 4, 1)
#define TILEWRIGHT_DECODE_SHAPES_1(X) \
  X(m8k8w8x1w, 8, 8, 8, 1, 5, 1)      \
  X(m8k14w8x1, 8, 14, 8, 1, 4, 1)     \
  X(m8k14w8x1w, 8, 14, 8, 1, 5, 1)
#define TILEWRIGHT_DECODE_SHAPES_2(X) \
  X(m16k2w8x1, 16, 2, 8, 1, 4, 2)     \
  X(m16k3w8x1, 16, 3, 8, 1, 4, 2)     \
  X(m16k4w8x1, 16, 4, 8, 1, 4, 1)     \
  X(m16k4w8x1w, 16, 4, 8, 1, 5, 1)
#define TILEWRIGHT_DECODE_SHAPES_3(X) \
  X(m16k8w4x1, 16, 8, 4, 1, 4, 2)     \
  X(m16k8w8x1w, 16, 8, 8, 1, 5, 1)    \
  X(m16k7w8x1, 16, 7, 8, 1, 4, 1)     \
  X(m16k7w8x1w, 16, 7, 8, 1, 5, 1)
