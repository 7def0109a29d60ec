// What the translation units of the gemm_fp8 mma.sync and decode harness share.
#pragma once

#include <cuda_runtime_api.h>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::test {

// The largest M (0: any) and the shared memory of a tile.
struct Fp8TileInfo {
  int max_m, smem_bytes, decode;
};

struct Fp8Entry {
  const char* name;
  Fp8TileInfo info;
  cudaError_t (*launch[3])(const GemmFp8Args&, cudaStream_t);  // by DType; null where not built
};

struct Fp8Group {
  const Fp8Entry* entries;
  int count;
};

Fp8Group fp8_group_0();
Fp8Group fp8_group_1();
Fp8Group fp8_group_2();
Fp8Group fp8_group_3();

}  // namespace tilewright::test
