// The part of the CUDA runtime that the bookkeeping of launches calls, on devices that a test injects.
#pragma once

#include <cstddef>

using std::size_t;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
using cudaStream_t = void*;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  unsigned long dynamicSmemBytes;
  cudaStream_t stream;
};

cudaError_t cudaGetDevice(int* device);
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value);
cudaError_t cudaGetLastError();

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t*, void (*)(Params...), Args...) {
  return cudaSuccess;
}
