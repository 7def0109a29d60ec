// Quantises f16, bf16 or f32 values to NVFP4: e2m1 codes, e4m3 scales per 16 in the layout of block-scaled tensor
// cores, and one fp32 scale.
#pragma once

#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/nvfp4/scale_layout.h"
#include "tilewright/quantize/fp8_args.h"
#include "tilewright/quantize/greatest.cuh"

namespace tilewright {
namespace kernels {

constexpr int kNvfp4Threads = 256;

__device__ __forceinline__ float nvfp4_global_scale(float amax) {
  return amax == 0.0f ? 1.0f : fmaxf(__fdiv_rn(amax, 6.0f * 448.0f), 1.175494351e-38f);
}

// Nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6, ties to the even code, past 6 saturated; the sign in bit 3. NaN has the
// code 7.
__device__ __forceinline__ uint32_t e2m1_code(float x) {
  const float magnitude = fabsf(x);
  if (magnitude != magnitude) return 7;
  constexpr float kMidpoints[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  uint32_t code = 0;
#pragma unroll
  for (int i = 0; i < 7; ++i) code += magnitude > kMidpoints[i] || (magnitude == kMidpoints[i] && i % 2 == 1) ? 1u : 0u;
  return code | (x < 0.0f ? 8u : 0u);
}

// The e4m3 scale of a group, and what it stands for together with the global scale.
struct Nvfp4Scale {
  uint8_t code;
  float effective;

  __device__ __forceinline__ Nvfp4Scale(float amax, bool finite, float global) {
    float wanted = __fdiv_rn(__fdiv_rn(amax, 6.0f), global);
    wanted = wanted > 448.0f ? 448.0f : wanted;
    if (!finite || wanted != wanted) {
      code = 0x7f;
      effective = __int_as_float(0x7fffffff);
      return;
    }
    code = __nv_cvt_float_to_fp8(wanted, __NV_SATFINITE, __NV_E4M3);
    effective = __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3))) * global;
  }
};

// One thread takes one group of 16.
template <class Element>
__global__ void __launch_bounds__(kNvfp4Threads) quantize_nvfp4_kernel(const __grid_constant__ QuantizeNvfp4Args args) {
  constexpr int kGroup = nvfp4::kScaleGroup;
  constexpr int kCount = 16 / static_cast<int>(sizeof(Element));
  using Values = Pack<Element, kCount>;
  const float global = args.given != nullptr ? *args.given : nvfp4_global_scale(*args.amax);
  const int64_t across = args.columns / kGroup;
  const int64_t threads = int64_t{gridDim.x} * kNvfp4Threads;
  const int64_t thread = int64_t{blockIdx.x} * kNvfp4Threads + threadIdx.x;
  if (thread == 0) *args.global_scale = global;
  for (int64_t group = thread; group < args.rows * across; group += threads) {
    Values in[kGroup / kCount];
    float amax = 0.0f;
    bool finite = true;
#pragma unroll
    for (int i = 0; i < kGroup / kCount; ++i) {
      in[i] = static_cast<const Values*>(args.values)[group * (kGroup / kCount) + i];
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const float value = ElementTraits<Element>::to_float(in[i].values[j]);
        finite = finite && is_finite(value);
        amax = fmaxf(amax, fabsf(value));
      }
    }
    const Nvfp4Scale scale(amax, finite, global);
    const float divisor = scale.effective == 0.0f ? 1.0f : scale.effective;
    uint32_t words[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const float value = ElementTraits<Element>::to_float(in[i / kCount].values[i % kCount]);
      const uint32_t code = scale.effective == 0.0f ? 0u : e2m1_code(__fdiv_rn(value, divisor));
      words[i / 8] |= code << (i % 8 * 4);
    }
    reinterpret_cast<uint2*>(args.codes)[group] = make_uint2(words[0], words[1]);
    args.scales[nvfp4::scale_offset(group / across, group % across, args.columns)] = scale.code;
  }
}

}  // namespace kernels

namespace host {

template <class Element>
inline cudaError_t launch_quantize_nvfp4(const QuantizeNvfp4Args& args, cudaStream_t stream) {
  if (args.given == nullptr) {
    const cudaError_t error = launch_greatest<Element>(args.values, args.rows * args.columns, args.amax, stream);
    if (error != cudaSuccess) return error;
  }
  const int64_t groups = args.rows * (args.columns / nvfp4::kScaleGroup);
  const int64_t bytes = nvfp4::scale_bytes(args.rows, args.columns);
  if (bytes != groups) {  // the padding
    const cudaError_t error = cudaMemsetAsync(args.scales, 0, static_cast<size_t>(bytes), stream);
    if (error != cudaSuccess) return error;
  }
  return launch_kernel(&kernels::quantize_nvfp4_kernel<Element>,
                       quantize_grid(ceil_div(groups, kernels::kNvfp4Threads)), dim3(kernels::kNvfp4Threads), 0, stream,
                       args);
}

}  // namespace host

// Runs on `stream` of the current device without waiting. cudaErrorInvalidValue for sizes or pointers that do not fit;
// otherwise what the CUDA runtime says of the launch.
inline cudaError_t quantize_nvfp4(const QuantizeNvfp4Args& args, cudaStream_t stream) {
  if (args.rows < 0 || args.columns < 0 || args.columns % nvfp4::kScaleGroup != 0) return cudaErrorInvalidValue;
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
  if (args.values == nullptr || args.codes == nullptr || args.scales == nullptr || args.global_scale == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (args.given == nullptr && args.amax == nullptr) return cudaErrorInvalidValue;
  switch (args.dtype) {
    case DType::kF16:
      return host::launch_quantize_nvfp4<__half>(args, stream);
    case DType::kBf16:
      return host::launch_quantize_nvfp4<__nv_bfloat16>(args, stream);
    case DType::kF32:
      return host::launch_quantize_nvfp4<float>(args, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace tilewright
