// Quantises f16, bf16 or f32 values to e4m3 or e5m2.
#pragma once

#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/quantize/fp8_args.h"
#include "tilewright/quantize/greatest.cuh"

namespace tilewright {
namespace kernels {

constexpr int kFp8Threads = 256;
constexpr int kFp8Block = 128;
constexpr uint8_t kFp8Nan = 0x7f;

template <Fp8Type kType>
struct Fp8Format {
  static constexpr float kMax = kType == Fp8Type::kE4m3 ? 448.0f : 57344.0f;
  static constexpr __nv_fp8_interpretation_t kKind = kType == Fp8Type::kE4m3 ? __NV_E4M3 : __NV_E5M2;
};

template <Fp8Type kType>
__device__ __forceinline__ float fp8_scale(float amax) {
  return amax == 0.0f ? 1.0f : fmaxf(__fdiv_rn(amax, Fp8Format<kType>::kMax), 1.175494351e-38f);
}

template <Fp8Type kType>
__device__ __forceinline__ uint8_t fp8_code(float value, float scale) {
  const float scaled = __fdiv_rn(value, scale);
  if (!is_finite(value) || scaled != scaled) return kFp8Nan;
  return __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, Fp8Format<kType>::kKind);
}

// codes[first, first + count) from the same values; `count` values from `first` on, by one thread of `threads`.
template <class Element, Fp8Type kType, int kCount>
__device__ __forceinline__ void encode_packs(const QuantizeFp8Args& args, int64_t first, int64_t packs, float scale,
                                             int thread, int threads) {
  using Values = Pack<Element, kCount>;
  using Codes = Pack<uint8_t, kCount>;
  const Element* values = static_cast<const Element*>(args.values) + first;
  for (int64_t i = thread; i < packs; i += threads) {
    const Values in = reinterpret_cast<const Values*>(values)[i];
    Codes out;
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      out.values[j] = fp8_code<kType>(ElementTraits<Element>::to_float(in.values[j]), scale);
    reinterpret_cast<Codes*>(args.codes + first)[i] = out;
  }
}

// One block a row; kCount divides the columns.
template <class Element, Fp8Type kType, int kCount>
__global__ void __launch_bounds__(kFp8Threads) quantize_fp8_row_kernel(const __grid_constant__ QuantizeFp8Args args) {
  using Values = Pack<Element, kCount>;
  __shared__ float shared[kFp8Threads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t packs = args.columns / kCount;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const int64_t first = row * args.columns;
    const Element* values = static_cast<const Element*>(args.values) + first;
    float amax = 0.0f;
    for (int64_t i = thread; i < packs; i += kFp8Threads) {
      const Values in = reinterpret_cast<const Values*>(values)[i];
#pragma unroll
      for (int j = 0; j < kCount; ++j)
        amax = fmaxf(amax, finite_magnitude(ElementTraits<Element>::to_float(in.values[j])));
    }
    const float scale = fp8_scale<kType>(block_greatest(amax, shared));
    if (thread == 0) args.scales[row * args.scale_row] = scale;
    encode_packs<Element, kType, kCount>(args, first, packs, scale, thread, kFp8Threads);
  }
}

// One warp takes 128 neighbouring values of a row, 4 a lane; kCount, 1 or 4, divides the columns.
template <class Element, Fp8Type kType, int kCount>
__global__ void __launch_bounds__(kFp8Threads) quantize_fp8_1x128_kernel(const __grid_constant__ QuantizeFp8Args args) {
  using Values = Pack<Element, kCount>;
  using Codes = Pack<uint8_t, kCount>;
  constexpr int kPacks = 4 / kCount;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t across = (args.columns + kFp8Block - 1) / kFp8Block;
  const int64_t warps = int64_t{gridDim.x} * (kFp8Threads / 32);
  for (int64_t part = int64_t{blockIdx.x} * (kFp8Threads / 32) + threadIdx.x / 32; part < args.rows * across;
       part += warps) {
    const int64_t row = part / across;
    const int64_t column = part % across * kFp8Block;
    const int64_t base = row * args.columns + column;
    const int64_t left = args.columns - column;
    Values in[kPacks];
    float amax = 0.0f;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int64_t at = (i * 32 + lane) * kCount;
      if (at >= left) continue;
      in[i] = *reinterpret_cast<const Values*>(static_cast<const Element*>(args.values) + base + at);
#pragma unroll
      for (int j = 0; j < kCount; ++j)
        amax = fmaxf(amax, finite_magnitude(ElementTraits<Element>::to_float(in[i].values[j])));
    }
    const float scale = fp8_scale<kType>(warp_greatest(amax));
    if (lane == 0) args.scales[row * args.scale_row + part % across * args.scale_column] = scale;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int64_t at = (i * 32 + lane) * kCount;
      if (at >= left) continue;
      Codes out;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        out.values[j] = fp8_code<kType>(ElementTraits<Element>::to_float(in[i].values[j]), scale);
      }
      *reinterpret_cast<Codes*>(args.codes + base + at) = out;
    }
  }
}

// One block takes 128 x 128 values, a thread every second row of a column.
template <class Element, Fp8Type kType>
__global__ void __launch_bounds__(kFp8Threads)
    quantize_fp8_128x128_kernel(const __grid_constant__ QuantizeFp8Args args) {
  __shared__ float shared[kFp8Threads / 32];
  const int64_t across = (args.columns + kFp8Block - 1) / kFp8Block;
  const int64_t parts = (args.rows + kFp8Block - 1) / kFp8Block * across;
  for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
    const int64_t first_row = part / across * kFp8Block;
    const int64_t column = part % across * kFp8Block + threadIdx.x % kFp8Block;
    const int64_t end_row = first_row + kFp8Block < args.rows ? first_row + kFp8Block : args.rows;
    const int64_t row = first_row + threadIdx.x / kFp8Block;
    const Element* values = static_cast<const Element*>(args.values);
    float amax = 0.0f;
    if (column < args.columns) {
      for (int64_t r = row; r < end_row; r += kFp8Threads / kFp8Block) {
        amax = fmaxf(amax, finite_magnitude(ElementTraits<Element>::to_float(values[r * args.columns + column])));
      }
    }
    const float scale = fp8_scale<kType>(block_greatest(amax, shared));
    if (threadIdx.x == 0) args.scales[part / across * args.scale_row + part % across * args.scale_column] = scale;
    if (column >= args.columns) continue;
    for (int64_t r = row; r < end_row; r += kFp8Threads / kFp8Block) {
      const int64_t at = r * args.columns + column;
      args.codes[at] = fp8_code<kType>(ElementTraits<Element>::to_float(values[at]), scale);
    }
  }
}

// One scale for all: given, or from the greatest magnitude that a kernel before has found.
template <class Element, Fp8Type kType>
__global__ void __launch_bounds__(kFp8Threads)
    quantize_fp8_tensor_kernel(const __grid_constant__ QuantizeFp8Args args) {
  constexpr int kCount = 16 / static_cast<int>(sizeof(Element));
  const float scale = args.given != nullptr ? *args.given : fp8_scale<kType>(*args.amax);
  const int threads = static_cast<int>(gridDim.x) * kFp8Threads;
  const int thread = static_cast<int>(blockIdx.x) * kFp8Threads + static_cast<int>(threadIdx.x);
  const int64_t count = args.rows * args.columns;
  const int64_t packs = count / kCount;
  if (thread == 0) args.scales[0] = scale;
  encode_packs<Element, kType, kCount>(args, 0, packs, scale, thread, threads);
  for (int64_t i = packs * kCount + thread; i < count; i += threads) {
    args.codes[i] =
        fp8_code<kType>(ElementTraits<Element>::to_float(static_cast<const Element*>(args.values)[i]), scale);
  }
}

}  // namespace kernels

namespace host {

template <class Element, Fp8Type kType>
inline cudaError_t launch_quantize_fp8(const QuantizeFp8Args& args, cudaStream_t stream) {
  constexpr int kCount = 16 / static_cast<int>(sizeof(Element));
  const dim3 threads(kernels::kFp8Threads);
  const int64_t across = ceil_div(args.columns, kernels::kFp8Block);
  switch (args.granularity) {
    case Granularity::kTensor: {
      const int64_t count = args.rows * args.columns;
      if (args.given == nullptr) {
        if (const cudaError_t error = launch_greatest<Element>(args.values, count, args.amax, stream);
            error != cudaSuccess) {
          return error;
        }
      }
      const dim3 grid = quantize_grid(ceil_div(count, kernels::kFp8Threads * kCount));
      return launch_kernel(&kernels::quantize_fp8_tensor_kernel<Element, kType>, grid, threads, 0, stream, args);
    }
    case Granularity::kRow: {
      const auto kernel = args.columns % kCount == 0 ? &kernels::quantize_fp8_row_kernel<Element, kType, kCount>
                                                     : &kernels::quantize_fp8_row_kernel<Element, kType, 1>;
      return launch_kernel(kernel, dim3(static_cast<unsigned>(args.rows < kMaxGridX ? args.rows : kMaxGridX)), threads,
                           0, stream, args);
    }
    case Granularity::kBlock1x128: {
      const auto kernel = args.columns % 4 == 0 ? &kernels::quantize_fp8_1x128_kernel<Element, kType, 4>
                                                : &kernels::quantize_fp8_1x128_kernel<Element, kType, 1>;
      return launch_kernel(kernel, quantize_grid(ceil_div(args.rows * across, kernels::kFp8Threads / 32)), threads, 0,
                           stream, args);
    }
    case Granularity::kBlock128x128:
      return launch_kernel(&kernels::quantize_fp8_128x128_kernel<Element, kType>,
                           quantize_grid(ceil_div(args.rows, kernels::kFp8Block) * across), threads, 0, stream, args);
  }
  return cudaErrorInvalidValue;
}

template <class Element>
inline cudaError_t launch_quantize_fp8(const QuantizeFp8Args& args, cudaStream_t stream) {
  return args.type == Fp8Type::kE4m3 ? launch_quantize_fp8<Element, Fp8Type::kE4m3>(args, stream)
                                     : launch_quantize_fp8<Element, Fp8Type::kE5m2>(args, stream);
}

}  // namespace host

// Runs on `stream` of the current device without waiting. cudaErrorInvalidValue for sizes or pointers that do not fit;
// otherwise what the CUDA runtime says of the launch.
inline cudaError_t quantize_fp8(const QuantizeFp8Args& args, cudaStream_t stream) {
  if (args.rows < 0 || args.columns < 0) return cudaErrorInvalidValue;
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
  if (args.values == nullptr || args.codes == nullptr || args.scales == nullptr) return cudaErrorInvalidValue;
  if (args.granularity == Granularity::kTensor && args.given == nullptr && args.amax == nullptr)
    return cudaErrorInvalidValue;
  switch (args.dtype) {
    case DType::kF16:
      return host::launch_quantize_fp8<__half>(args, stream);
    case DType::kBf16:
      return host::launch_quantize_fp8<__nv_bfloat16>(args, stream);
    case DType::kF32:
      return host::launch_quantize_fp8<float>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace tilewright
