// What the translation units of the decode harness share.
#pragma once

#include <cuda_runtime_api.h>

#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/decode_plan.h"

namespace tilewright::test {

struct DecodeShapeInfo {
  int mb, kb, warps_k, warps_n, lut, occupancy;
  int ring_kb;  // the most that `occupancy` blocks of one multiprocessor have room for
};

struct DecodeEntry {
  const char* name;
  DecodeShapeInfo info;
  cudaError_t (*launch[2])(const Gemm4bitArgs&, const DecodeTuning&, cudaStream_t);  // by DType
};

struct DecodeGroup {
  const DecodeEntry* entries;
  int count;
};

DecodeGroup decode_group_0();
DecodeGroup decode_group_1();
DecodeGroup decode_group_2();
DecodeGroup decode_group_3();

}  // namespace tilewright::test
