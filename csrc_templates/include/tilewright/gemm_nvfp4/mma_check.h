// What the mma_block_scaled engine of gemm_nvfp4 asks of its arguments.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "tilewright/gemm_nvfp4/args.h"

namespace tilewright::gemm_nvfp4 {

// cudaErrorInvalidValue for a size, stride, pointer or type that no kernel of the family takes; cudaErrorNotSupported
// for rows that are not whole 16-byte pieces; cudaErrorMisalignedAddress. A problem without outputs passes.
inline cudaError_t check_mma(const GemmNvfp4Args& args, DType built_for) {
  const auto lies_on = [](const void* pointer, uintptr_t bytes) {
    return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
  };
  if (args.dtype != built_for) return cudaErrorInvalidValue;
  if (args.m < 0 || args.n < 0 || args.k < 0 || args.k % 16 != 0) return cudaErrorInvalidValue;
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  if (args.ldo < args.n || args.out == nullptr) return cudaErrorInvalidValue;
  if (args.global_a == nullptr || args.global_b == nullptr) return cudaErrorInvalidValue;
  const bool operands = args.a != nullptr && args.b != nullptr && args.scale_a != nullptr && args.scale_b != nullptr;
  if (args.k > 0 && !operands) return cudaErrorInvalidValue;
  if (args.k % 32 != 0 || args.k > (int64_t{1} << 30)) return cudaErrorNotSupported;
  if (!lies_on(args.a, 16) || !lies_on(args.b, 16) || !lies_on(args.scale_a, 16) || !lies_on(args.scale_b, 16)) {
    return cudaErrorMisalignedAddress;
  }
  const uintptr_t element = args.dtype == DType::kF32 ? 4 : 2;
  return lies_on(args.out, element) && lies_on(args.bias, element) ? cudaSuccess : cudaErrorMisalignedAddress;
}

}  // namespace tilewright::gemm_nvfp4
