// What the translation units of the gemm_fp8 wgmma harness share.
#pragma once

#include <cuda_runtime_api.h>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::test {

struct Fp8WgmmaTileInfo {
  int mt, nt, stages, swap, consumers, pingpong, promote, cluster_m, cluster_n, split_k, occupancy, smem_bytes;
};

struct Fp8WgmmaEntry {
  const char* name;
  Fp8WgmmaTileInfo info;
  cudaError_t (*launch[3])(const GemmFp8Args&, cudaStream_t);  // by DType; null where the harness builds none
};

struct Fp8WgmmaGroup {
  const Fp8WgmmaEntry* entries;
  int count;
};

Fp8WgmmaGroup fp8_wgmma_group_0();
Fp8WgmmaGroup fp8_wgmma_group_1();
Fp8WgmmaGroup fp8_wgmma_group_2();
Fp8WgmmaGroup fp8_wgmma_group_3();

}  // namespace tilewright::test
