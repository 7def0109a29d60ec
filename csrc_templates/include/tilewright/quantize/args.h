// Arguments of the stand-alone quantise and dequantise kernels. Needs no CUDA header.
#pragma once

#include <cstdint>

#include "tilewright/gemm_4bit/args.h"

namespace tilewright {

// out[numel] of `dtype` from packed codes; the fields mean what they mean in Gemm4bitArgs. Weights are computed in fp32
// and rounded once. An odd numel uses only the first nibble of the last byte.
struct Dequantize4bitArgs {
  const uint8_t* b;
  const void* scales;
  const float* nested_absmax;
  const float* nested_code;
  const float* offset;
  void* out;
  int64_t numel;
  int32_t blocksize;
  DType dtype;
  QuantType quant_type;
  WeightLayout layout;
  int64_t k;  // elements of a row; for kPrepacked only
};

// packed[(numel + 1) / 2] and absmax[ceil(numel / blocksize)] from values[numel] of `dtype`. nf4 and fp4 only.
struct Quantize4bitArgs {
  const void* values;
  uint8_t* packed;
  float* absmax;
  int64_t numel;
  int32_t blocksize;
  DType dtype;
  QuantType quant_type;
};

}  // namespace tilewright
