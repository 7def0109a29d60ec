// Conversions between fp32 and the element types, and pairs of elements in one register.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tilewright/gemm_4bit/args.h"

namespace tilewright {

template <class Element>
struct ElementTraits;

template <>
struct ElementTraits<__half> {
  static constexpr DType kDType = DType::kF16;
  static __device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
  static __device__ __forceinline__ __half from_float(float value) { return __float2half_rn(value); }
  // `low` in the lower half-word, each rounded to nearest even.
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  static __device__ __forceinline__ float2 unpack(uint32_t pair) {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  }
};

template <>
struct ElementTraits<__nv_bfloat16> {
  static constexpr DType kDType = DType::kBf16;
  static __device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __device__ __forceinline__ __nv_bfloat16 from_float(float value) { return __float2bfloat16_rn(value); }
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  static __device__ __forceinline__ float2 unpack(uint32_t pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
};

template <>
struct ElementTraits<float> {
  static constexpr DType kDType = DType::kF32;
  static __device__ __forceinline__ float to_float(float value) { return value; }
  static __device__ __forceinline__ float from_float(float value) { return value; }
};

}  // namespace tilewright
