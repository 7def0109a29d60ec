// Quantises f16, bf16 or f32 values to nf4 or fp4 blocks with an fp32 absmax each.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_4bit/check.h"
#include "tilewright/host/kernel_launch.cuh"
#include "tilewright/quantize/args.h"

namespace tilewright {
namespace kernels {

constexpr int kQuantizeThreads = 128;

// The number of midpoints that x exceeds: strictly, so a value on a midpoint takes the lower code.
__device__ __forceinline__ uint32_t quantize_nf4(float x) {
  static constexpr float kMidpoints[15] = {
      -0.8480964303016663f,  -0.6106328964233398f,  -0.4599952697753906f, -0.33967941999435425f, -0.23460739850997925f,
      -0.13791173696517944f, -0.045525018125772476f, 0.03979014977812767f, 0.1202552542090416f,   0.2035212516784668f,
      0.2920137643814087f,   0.3893125355243683f,   0.5016633868217468f,  0.6427869200706482f,   0.8614783883094788f,
  };
  uint32_t code = 0;
#pragma unroll
  for (int i = 0; i < 15; ++i) code += x > kMidpoints[i] ? 1u : 0u;
  return code;
}

// The magnitudes in order of value have the codes 0, 1, 6, 7, 4, 5, 2, 3.
__device__ __forceinline__ uint32_t quantize_fp4(float x) {
  const float magnitude = fabsf(x);
  uint32_t code = 0;
  code = magnitude > 0.0026041700039058924f ? 1u : code;
  code = magnitude > 0.0859375f ? 6u : code;
  code = magnitude > 0.2083333283662796f ? 7u : code;
  code = magnitude > 0.2916666567325592f ? 4u : code;
  code = magnitude > 0.4166666865348816f ? 5u : code;
  code = magnitude > 0.5833330154418945f ? 2u : code;
  code = magnitude > 0.8333333134651184f ? 3u : code;
  return x < 0.0f ? code | 8u : code;
}

// fmaxf would drop a NaN; here it becomes the absmax, so that the whole block dequantises to NaN.
__device__ __forceinline__ float max_or_nan(float most, float value) {
  return value > most || value != value ? value : most;
}

template <QuantType kQuantType>
__device__ __forceinline__ uint32_t quantize_value(float x) {
  static_assert(kQuantType == QuantType::kNf4 || kQuantType == QuantType::kFp4, "blocks with an absmax are nf4 or fp4");
  if constexpr (kQuantType == QuantType::kNf4) return quantize_nf4(x);
  return quantize_fp4(x);
}

// One warp quantises one block of values. The block's end past `numel` counts for nothing in its absmax; the nibble
// after an odd last value is the code of zero. A block of zeros gets absmax 0 and the code of zero.
template <class Element, QuantType kQuantType>
__global__ void __launch_bounds__(kQuantizeThreads)
    quantize_4bit_kernel(const __grid_constant__ Quantize4bitArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t warps = int64_t{gridDim.x} * (kQuantizeThreads / 32);
  const int64_t blocks = (args.numel + args.blocksize - 1) / args.blocksize;
  int64_t block = int64_t{blockIdx.x} * (kQuantizeThreads / 32) + threadIdx.x / 32;
  for (; block < blocks; block += warps) {
    const int64_t first = block * args.blocksize;
    const int64_t rest = args.numel - first;
    const int count = rest < args.blocksize ? static_cast<int>(rest) : args.blocksize;
    const Element* values = static_cast<const Element*>(args.values) + first;
    float absmax = 0.0f;
    for (int i = lane; i < count; i += 32) {
      absmax = max_or_nan(absmax, fabsf(ElementTraits<Element>::to_float(values[i])));
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      absmax = max_or_nan(absmax, __shfl_xor_sync(0xffffffffu, absmax, distance));
    }
    if (lane == 0) args.absmax[block] = absmax;
    const float divisor = absmax > 0.0f ? absmax : 1.0f;
    for (int i = 2 * lane; i < count; i += 64) {
      const float even = __fdiv_rn(ElementTraits<Element>::to_float(values[i]), divisor);
      const float odd = i + 1 < count ? __fdiv_rn(ElementTraits<Element>::to_float(values[i + 1]), divisor) : 0.0f;
      const uint32_t byte = quantize_value<kQuantType>(even) << 4 | quantize_value<kQuantType>(odd);
      args.packed[(first + i) / 2] = static_cast<uint8_t>(byte);
    }
  }
}

}  // namespace kernels

namespace host {

template <class Element>
inline cudaError_t launch_quantize_4bit(const Quantize4bitArgs& args, cudaStream_t stream) {
  constexpr int64_t kMaxBlocks = 132 * 64;  // enough to fill any GPU; the kernel loops over the rest
  const int64_t blocks = ceil_div(ceil_div(args.numel, args.blocksize), kernels::kQuantizeThreads / 32);
  const auto kernel = args.quant_type == QuantType::kNf4 ? &kernels::quantize_4bit_kernel<Element, QuantType::kNf4>
                                                         : &kernels::quantize_4bit_kernel<Element, QuantType::kFp4>;
  return launch_kernel(kernel, dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)),
                       dim3(kernels::kQuantizeThreads), 0, stream, args);
}

}  // namespace host

// Runs on `stream` of the current device without waiting. cudaErrorInvalidValue for a size, pointer or blocksize that
// no format has, cudaErrorNotSupported for e2m1; otherwise what the CUDA runtime says of the launch.
inline cudaError_t quantize_4bit(const Quantize4bitArgs& args, cudaStream_t stream) {
  if (args.quant_type == QuantType::kE2m1) return cudaErrorNotSupported;
  if (args.numel < 0 || !host::is_power_of_two(args.blocksize)) return cudaErrorInvalidValue;
  if (args.blocksize < 32 || args.blocksize > 4096) return cudaErrorInvalidValue;
  if (args.numel == 0) return cudaSuccess;
  if (args.values == nullptr || args.packed == nullptr || args.absmax == nullptr) return cudaErrorInvalidValue;
  switch (args.dtype) {
    case DType::kF16:
      return host::launch_quantize_4bit<__half>(args, stream);
    case DType::kBf16:
      return host::launch_quantize_4bit<__nv_bfloat16>(args, stream);
    case DType::kF32:
      return host::launch_quantize_4bit<float>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace tilewright
