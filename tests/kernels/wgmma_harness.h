// What the translation units of the wgmma harness share.
#pragma once

#include <cuda_runtime_api.h>

#include "tilewright/gemm_4bit/args.h"

namespace tilewright::test {

struct WgmmaTileInfo {
  int mt, nt, kc, stages, cluster_n, split_k, occupancy, lut_parts, group_parts, smem_bytes;
};

struct WgmmaEntry {
  const char* name;
  WgmmaTileInfo info;
  cudaError_t (*launch[2])(const Gemm4bitArgs&, cudaStream_t);  // by DType
};

struct WgmmaGroup {
  const WgmmaEntry* entries;
  int count;
};

WgmmaGroup wgmma_group_0();
WgmmaGroup wgmma_group_1();
WgmmaGroup wgmma_group_2();
WgmmaGroup wgmma_group_3();

}  // namespace tilewright::test
