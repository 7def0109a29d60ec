// The wgmma tiles that the harness builds: a superset of those the specs use, for sweeps.
#pragma once

#include "tilewright/gemm_4bit/args.h"

// TILE(id, mt, nt, kc, stages, cluster_n, split_k, occupancy)
#define TILEWRIGHT_WGMMA_TILES_0(TILE)              \
  TILE(m256n128c2, 256, 128, 64, 5, 2, 1, 1)        \
  TILE(m256n128c1, 256, 128, 64, 5, 1, 1, 1)        \
  TILE(m256n128s2, 256, 128, 64, 5, 1, 2, 1)        \
  TILE(m224n128c2, 224, 128, 64, 5, 2, 1, 1)        \
  TILE(m192n128c2, 192, 128, 64, 6, 2, 1, 1)        \
  TILE(m160n128c2, 160, 128, 64, 6, 2, 1, 1)        \
  TILE(m160n192c2, 160, 192, 64, 6, 2, 1, 1)        \
  TILE(m128n192c2, 128, 192, 64, 6, 2, 1, 1)        \
  TILE(m96n256c2, 96, 256, 64, 6, 2, 1, 1)
#define TILEWRIGHT_WGMMA_TILES_1(TILE)              \
  TILE(m128n128c2, 128, 128, 128, 4, 2, 1, 1)       \
  TILE(m128n128c1, 128, 128, 128, 4, 1, 1, 1)       \
  TILE(m128n128s2, 128, 128, 128, 4, 1, 2, 1)       \
  TILE(m128n128c2s2, 128, 128, 128, 4, 2, 2, 1)     \
  TILE(m128n128s4, 128, 128, 128, 4, 1, 4, 1)       \
  TILE(m128n64s2o2, 128, 64, 64, 4, 1, 2, 2)        \
  TILE(m128n64s4o2, 128, 64, 64, 4, 1, 4, 2)        \
  TILE(m96n128c2, 96, 128, 128, 4, 2, 1, 1)
#define TILEWRIGHT_WGMMA_TILES_2(TILE)              \
  TILE(m64n128c1, 64, 128, 128, 6, 1, 1, 1)         \
  TILE(m64n128c2, 64, 128, 128, 6, 2, 1, 1)         \
  TILE(m64n128s2, 64, 128, 128, 6, 1, 2, 1)         \
  TILE(m64n128c2s2, 64, 128, 128, 6, 2, 2, 1)       \
  TILE(m64n128s4, 64, 128, 128, 6, 1, 4, 1)         \
  TILE(m64n128s8, 64, 128, 128, 6, 1, 8, 1)         \
  TILE(m64n128s4o2, 64, 128, 128, 3, 1, 4, 2)       \
  TILE(m64n64s1o2, 64, 64, 128, 4, 1, 1, 2)         \
  TILE(m64n64s2o2, 64, 64, 128, 4, 1, 2, 2)         \
  TILE(m64n64s4o2, 64, 64, 128, 4, 1, 4, 2)         \
  TILE(m64n256s4, 64, 256, 128, 5, 1, 4, 1)
#define TILEWRIGHT_WGMMA_TILES_3(TILE)              \
  TILE(m32n128c1, 32, 128, 128, 8, 1, 1, 1)         \
  TILE(m32n128s2, 32, 128, 128, 8, 1, 2, 1)         \
  TILE(m32n128s4, 32, 128, 128, 8, 1, 4, 1)         \
  TILE(m32n128s4o2, 32, 128, 128, 5, 1, 4, 2)       \
  TILE(m32n128s8o2, 32, 128, 128, 5, 1, 8, 2)       \
  TILE(m32n64s2o2, 32, 64, 128, 6, 1, 2, 2)         \
  TILE(m32n64s4o2, 32, 64, 128, 6, 1, 4, 2)         \
  TILE(m16n128s2, 16, 128, 128, 8, 1, 2, 1)         \
  TILE(m16n128s4o2, 16, 128, 128, 6, 1, 4, 2)       \
  TILE(m16n128s8o2, 16, 128, 128, 6, 1, 8, 2)       \
  TILE(m16n64s4o2, 16, 64, 128, 8, 1, 4, 2)
