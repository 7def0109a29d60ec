// The kernel, and the host function that the generated launch table calls for each tile and element type.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "embedded/dense_gemm/args.h"

namespace embedded::dense_gemm {

constexpr int kThreads = 128;

__device__ inline float load(const float* p) { return *p; }
__device__ inline float load(const __half* p) { return __half2float(*p); }
__device__ inline void store(float* p, float x) { *p = x; }
__device__ inline void store(__half* p, float x) { *p = __float2half(x); }

// One block an output tile. Stages of K pass through shared memory; each thread adds up the same few outputs throughout.
template <class Config>
__global__ void __launch_bounds__(kThreads) blocked_kernel(const __grid_constant__ DenseGemmArgs args) {
  using T = typename Config::Element;
  constexpr int kOutputs = Config::kMt * Config::kNt / kThreads;
  __shared__ float a_stage[Config::kMt][Config::kKc + 1];
  __shared__ float b_stage[Config::kNt][Config::kKc + 1];
  static_assert(sizeof(a_stage) + sizeof(b_stage) == Config::kSmemBytes, "specs/families/dense_gemm/tiles.yaml");
  const int64_t m0 = int64_t{blockIdx.x} * Config::kMt;
  const int64_t n0 = int64_t{blockIdx.y} * Config::kNt;
  float sums[kOutputs] = {};
  for (int64_t k0 = 0; k0 < args.k; k0 += Config::kKc) {
    for (int i = threadIdx.x; i < (Config::kMt + Config::kNt) * Config::kKc; i += kThreads) {
      const int row = i / Config::kKc;
      const int64_t k = k0 + i % Config::kKc;
      const bool is_a = row < Config::kMt;
      const int64_t at = is_a ? m0 + row : n0 + row - Config::kMt;
      const T* source = static_cast<const T*>(is_a ? args.a : args.b);
      const float value = at < (is_a ? args.m : args.n) && k < args.k ? load(source + at * args.k + k) : 0.0f;
      (is_a ? a_stage[row] : b_stage[row - Config::kMt])[i % Config::kKc] = value;
    }
    __syncthreads();
    for (int i = 0; i < kOutputs; ++i) {
      const int output = i * kThreads + threadIdx.x;
      for (int k = 0; k < Config::kKc; ++k) {
        sums[i] += a_stage[output / Config::kNt][k] * b_stage[output % Config::kNt][k];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kOutputs; ++i) {
    const int output = i * kThreads + threadIdx.x;
    const int64_t m = m0 + output / Config::kNt;
    const int64_t n = n0 + output % Config::kNt;
    if (m < args.m && n < args.n) store(static_cast<T*>(args.out) + m * args.n + n, sums[i]);
  }
}

template <class Config>
cudaError_t launch_dense_gemm(const DenseGemmArgs& args, cudaStream_t stream) {
  const int64_t columns = (args.n + Config::kNt - 1) / Config::kNt;
  if (columns > 65535) return cudaErrorInvalidValue;
  const dim3 grid(static_cast<unsigned>((args.m + Config::kMt - 1) / Config::kMt), static_cast<unsigned>(columns));
  blocked_kernel<Config><<<grid, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace embedded::dense_gemm
