// The greatest finite magnitude of many values: in registers, over a block, and over a whole tensor.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_4bit/check.h"
#include "tilewright/host/kernel_launch.cuh"

namespace tilewright {
namespace kernels {

constexpr int kGreatestThreads = 256;

// kCount neighbouring values, in one access of at most 16 bytes; `from` is aligned to them all.
template <class Element, int kCount>
struct alignas(kCount * sizeof(Element)) Pack {
  Element values[kCount];
};

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) <= 3.402823466e+38f; }

__device__ __forceinline__ float finite_magnitude(float x) { return is_finite(x) ? fabsf(x) : 0.0f; }

// Over the warp; every lane has the result.
__device__ __forceinline__ float warp_greatest(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// Over the block; every thread has the result. `shared` has one float a warp.
__device__ __forceinline__ float block_greatest(float value, float* shared) {
  value = warp_greatest(value);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  __syncthreads();  // the one before may still be read
  if (threadIdx.x % 32 == 0) shared[warp] = value;
  __syncthreads();
  float found = shared[0];
  for (int i = 1; i < warps; ++i) found = fmaxf(found, shared[i]);
  return found;
}

// Into *amax, which is zero before. Magnitudes are not negative, so their bits are ordered as integers.
template <class Element>
__global__ void __launch_bounds__(kGreatestThreads) greatest_kernel(const void* values, int64_t count, float* amax) {
  constexpr int kCount = 16 / static_cast<int>(sizeof(Element));
  using Values = Pack<Element, kCount>;
  __shared__ float shared[kGreatestThreads / 32];
  const int64_t threads = int64_t{gridDim.x} * kGreatestThreads;
  const int64_t first = int64_t{blockIdx.x} * kGreatestThreads + threadIdx.x;
  float found = 0.0f;
  for (int64_t i = first; i < count / kCount; i += threads) {
    const Values part = static_cast<const Values*>(values)[i];
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      found = fmaxf(found, finite_magnitude(ElementTraits<Element>::to_float(part.values[j])));
  }
  for (int64_t i = count / kCount * kCount + first; i < count; i += threads) {
    found = fmaxf(found, finite_magnitude(ElementTraits<Element>::to_float(static_cast<const Element*>(values)[i])));
  }
  found = block_greatest(found, shared);
  if (threadIdx.x == 0 && found > 0.0f) atomicMax(reinterpret_cast<int*>(amax), __float_as_int(found));
}

}  // namespace kernels

namespace host {

constexpr int64_t kMaxQuantizeBlocks = 132 * 16;  // enough to fill any GPU; the kernels loop over the rest

inline dim3 quantize_grid(int64_t blocks) {
  return dim3(static_cast<unsigned>(blocks < kMaxQuantizeBlocks ? (blocks > 0 ? blocks : 1) : kMaxQuantizeBlocks));
}

template <class Element>
inline cudaError_t launch_greatest(const void* values, int64_t count, float* amax, cudaStream_t stream) {
  if (const cudaError_t error = cudaMemsetAsync(amax, 0, sizeof(float), stream); error != cudaSuccess) return error;
  const int64_t per_block = kernels::kGreatestThreads * 16 / static_cast<int64_t>(sizeof(Element));
  return launch_kernel(&kernels::greatest_kernel<Element>, quantize_grid(ceil_div(count, per_block)),
                       dim3(kernels::kGreatestThreads), 0, stream, values, count, amax);
}

}  // namespace host
}  // namespace tilewright
