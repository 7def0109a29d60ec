// What the mma.sync and decode engines of gemm_fp8 ask of their arguments.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::gemm_fp8 {

constexpr int kScaleBlock = 128;  // elements of k, and rows of B, under one scale of Scaling::kBlock

inline bool lies_on(const void* pointer, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

inline int64_t ceil_div(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

inline cudaError_t check_groups(const GemmFp8Args& args) {
  switch (args.grouping) {
    case Grouping::kNone:
      return cudaSuccess;
    case Grouping::kContiguous:
      return args.groups > 0 && args.group_ends != nullptr ? cudaSuccess : cudaErrorInvalidValue;
    case Grouping::kMasked:
      return args.groups > 0 && args.group_rows != nullptr ? cudaSuccess : cudaErrorInvalidValue;
  }
  return cudaErrorInvalidValue;
}

// cudaErrorInvalidValue for a size, stride, pointer or type that no kernel of the family takes; cudaErrorNotSupported
// for rows of 16-byte pieces and whole scale blocks that the engines here need; cudaErrorMisalignedAddress.
// A problem without outputs passes.
inline cudaError_t check_mma(const GemmFp8Args& args, DType built_for) {
  if (args.dtype != built_for) return cudaErrorInvalidValue;
  if (args.m < 0 || args.n < 0 || args.k < 0) return cudaErrorInvalidValue;
  if (args.a_type != Fp8Type::kE4m3 && args.a_type != Fp8Type::kE5m2) return cudaErrorInvalidValue;
  if (args.scaling != Scaling::kTensor && args.scaling != Scaling::kRow && args.scaling != Scaling::kBlock) {
    return cudaErrorInvalidValue;
  }
  if (const cudaError_t error = check_groups(args); error != cudaSuccess) return error;
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  if (args.lda < args.k || args.ldb < args.k || args.ldo < args.n) return cudaErrorInvalidValue;
  if (args.out == nullptr || args.scale_a == nullptr || args.scale_b == nullptr) return cudaErrorInvalidValue;
  if (args.k > 0 && (args.a == nullptr || args.b == nullptr)) return cudaErrorInvalidValue;
  if (args.k % 16 != 0 || args.k > (int64_t{1} << 30)) return cudaErrorNotSupported;
  if (args.scaling == Scaling::kBlock && args.k % kScaleBlock != 0) return cudaErrorNotSupported;
  if (!lies_on(args.a, 16) || !lies_on(args.b, 16) || args.lda % 16 != 0 || args.ldb % 16 != 0 ||
      args.b_group_stride % 16 != 0) {
    return cudaErrorMisalignedAddress;
  }
  const uintptr_t element = args.dtype == DType::kF32 ? 4 : 2;
  if (!lies_on(args.out, element) || !lies_on(args.bias, element)) return cudaErrorMisalignedAddress;
  if (!lies_on(args.scale_a, 4) || !lies_on(args.scale_b, 4)) return cudaErrorMisalignedAddress;
  return cudaSuccess;
}

}  // namespace tilewright::gemm_fp8
