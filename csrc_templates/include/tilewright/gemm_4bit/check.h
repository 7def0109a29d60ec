// What every gemm_4bit engine asks of its arguments.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/gemm_4bit/args.h"

namespace tilewright::host {

inline bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

inline bool is_aligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// The format: blocksize a power of two from 32 to 4096 for nf4 and fp4, 16 for e2m1, with the scale pointers that go
// with it.
inline cudaError_t check_scales(const void* scales, const float* nested_absmax, const float* nested_code,
                                const float* offset, int blocksize, QuantType quant_type) {
  if (scales == nullptr) return cudaErrorInvalidValue;
  switch (quant_type) {
    case QuantType::kE2m1:
      return blocksize == 16 && offset != nullptr && nested_absmax == nullptr ? cudaSuccess : cudaErrorInvalidValue;
    case QuantType::kNf4:
    case QuantType::kFp4:
      if (!is_power_of_two(blocksize) || blocksize < 32 || blocksize > 4096) return cudaErrorInvalidValue;
      if (nested_absmax != nullptr && (nested_code == nullptr || offset == nullptr)) return cudaErrorInvalidValue;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

// cudaErrorInvalidValue for a size, dtype, pointer or format that no engine of the family takes.
inline cudaError_t check_gemm_4bit(const Gemm4bitArgs& args, DType built_for) {
  if (args.dtype != built_for) return cudaErrorInvalidValue;
  if (args.m < 0 || args.n < 0 || args.k < 0 || args.lda < args.k) return cudaErrorInvalidValue;
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  if (args.out == nullptr) return cudaErrorInvalidValue;
  if (args.k > 0 && (args.a == nullptr || args.b == nullptr)) return cudaErrorInvalidValue;
  if (args.quant_type == QuantType::kE2m1 && args.k % 16 != 0) return cudaErrorInvalidValue;
  return check_scales(args.scales, args.nested_absmax, args.nested_code, args.offset, args.blocksize, args.quant_type);
}

inline int64_t ceil_div(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

constexpr int64_t kMaxGridX = 2147483647;

}  // namespace tilewright::host
