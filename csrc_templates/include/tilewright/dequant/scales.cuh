// Block scales: fp32 absmax, nested (uint8) absmax, or e4m3 with a global scale, behind one interface.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "tilewright/gemm_4bit/args.h"

namespace tilewright::dequant {

enum class ScaleKind : int { kAbsmax, kNestedAbsmax, kE4m3 };

constexpr int kNestedCodeSize = 256;
constexpr int kNestedBlockShift = 8;  // the inner blocks of a nested absmax hold 256 scales, always

// Where the scales of one weight lie. Block `i` covers the flattened elements
// [i << block_shift, (i + 1) << block_shift).
struct ScaleSource {
  const void* scales;
  const float* nested_absmax;
  const float* nested_code;
  const float* offset;
  ScaleKind kind;
  int block_shift;
};

// A scale as loaded: its arithmetic can wait until the loads have arrived.
struct RawScale {
  uint32_t bits;
  float outer;
};

inline int log2_exact(int64_t power_of_two) {
  int shift = 0;
  while ((int64_t{1} << shift) < power_of_two) ++shift;
  return shift;
}

// `blocksize` has been checked to be a power of two.
inline ScaleSource make_scale_source(const void* scales, const float* nested_absmax, const float* nested_code,
                                     const float* offset, int blocksize, QuantType quant_type) {
  const ScaleKind kind = quant_type == QuantType::kE2m1 ? ScaleKind::kE4m3
                         : nested_absmax != nullptr      ? ScaleKind::kNestedAbsmax
                                                         : ScaleKind::kAbsmax;
  return {scales, nested_absmax, nested_code, offset, kind, log2_exact(blocksize)};
}

// Exact: an e4m3 byte shifted by seven is the half of the same value divided by 256, subnormals included.
__device__ __forceinline__ float e4m3_value(uint32_t bits) {
  const uint32_t magnitude = bits & 0x7fu;
  if (magnitude == 0x7fu) return __int_as_float(0x7fffffff);
  const uint32_t half_bits = (bits & 0x80u) << 8 | magnitude << 7;
  return __half2float(__ushort_as_half(static_cast<unsigned short>(half_bits))) * 256.0f;
}

// `kKind` is the source's kind, known at compile time where a loop must not branch on it.
template <ScaleKind kKind>
__device__ __forceinline__ RawScale load_scale(const ScaleSource& source, int64_t block) {
  if constexpr (kKind == ScaleKind::kAbsmax) return {__ldg(static_cast<const uint32_t*>(source.scales) + block), 0.0f};
  const uint32_t code = __ldg(static_cast<const uint8_t*>(source.scales) + block);
  if constexpr (kKind == ScaleKind::kE4m3) return {code, 0.0f};
  return {code, __ldg(source.nested_absmax + (block >> kNestedBlockShift))};
}

__device__ __forceinline__ RawScale load_scale(const ScaleSource& source, int64_t block) {
  if (source.kind == ScaleKind::kAbsmax) return load_scale<ScaleKind::kAbsmax>(source, block);
  if (source.kind == ScaleKind::kE4m3) return load_scale<ScaleKind::kE4m3>(source, block);
  return load_scale<ScaleKind::kNestedAbsmax>(source, block);
}

// The additive offset (nested absmax), the global factor (e4m3), or 0: one load per thread, kept in a register.
__device__ __forceinline__ float load_offset(const ScaleSource& source) {
  return source.kind == ScaleKind::kAbsmax ? 0.0f : __ldg(source.offset);
}

// `nested_code` is the 256-entry table, in any memory; it is read for nested scales only. The product is rounded before
// the sum, as when the absmax array is rebuilt in memory first.
template <ScaleKind kKind>
__device__ __forceinline__ float finish_scale(RawScale raw, float offset, const float* nested_code) {
  if constexpr (kKind == ScaleKind::kAbsmax) return __uint_as_float(raw.bits);
  if constexpr (kKind == ScaleKind::kE4m3) return e4m3_value(raw.bits) * offset;
  return __fadd_rn(__fmul_rn(nested_code[raw.bits], raw.outer), offset);
}

__device__ __forceinline__ float finish_scale(const ScaleSource& source, RawScale raw, float offset,
                                              const float* nested_code) {
  if (source.kind == ScaleKind::kAbsmax) return finish_scale<ScaleKind::kAbsmax>(raw, offset, nested_code);
  if (source.kind == ScaleKind::kE4m3) return finish_scale<ScaleKind::kE4m3>(raw, offset, nested_code);
  return finish_scale<ScaleKind::kNestedAbsmax>(raw, offset, nested_code);
}

__device__ __forceinline__ float read_scale(const ScaleSource& source, int64_t block, float offset) {
  return finish_scale(source, load_scale(source, block), offset, source.nested_code);
}

}  // namespace tilewright::dequant
