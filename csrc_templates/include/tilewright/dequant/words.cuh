// Packed words of eight 4-bit codes.
#pragma once

#include <cstdint>

#include "tilewright/gemm_4bit/args.h"
#include "tilewright/ptx/bits.cuh"
#include "tilewright/ptx/lds.cuh"

namespace tilewright::dequant {

// How far a word turns right so that the code of the even k lands in bits 2..5 of each byte: a byte offset into a table
// of floats. The other nibble gets there by turning the same distance to the left.
__device__ __forceinline__ uint32_t even_rotation(QuantType quant_type) {
  return quant_type == QuantType::kE2m1 ? 30u : 2u;
}

// Four table offsets (code * 4) of the even and of the odd elements of a word, a byte each.
struct WordOffsets {
  uint32_t even;
  uint32_t odd;
};

__device__ __forceinline__ WordOffsets split_word(uint32_t word, uint32_t rotation) {
  constexpr uint32_t kOffsetMask = 0x3c3c3c3cu;
  return {ptx::rotate_right(word, rotation) & kOffsetMask, ptx::rotate_right(word, 32u - rotation) & kOffsetMask};
}

// The two fp32 weights of byte `kByte`: codebook * scale, rounded once to fp32.
template <int kByte>
__device__ __forceinline__ float2 byte_weights(WordOffsets offsets, float scale, uint32_t codebook) {
  const float even = ptx::lds_constant_float(codebook + ptx::byte_of<kByte>(offsets.even));
  const float odd = ptx::lds_constant_float(codebook + ptx::byte_of<kByte>(offsets.odd));
  return {__fmul_rn(even, scale), __fmul_rn(odd, scale)};
}

// The code of flattened element `index`, whatever its byte's alignment.
__device__ __forceinline__ int code_at(const uint8_t* packed, int64_t index, QuantType quant_type) {
  const int byte = __ldg(packed + (index >> 1));
  const bool high = ((index & 1) == 0) != (quant_type == QuantType::kE2m1);
  return high ? byte >> 4 : byte & 15;
}

}  // namespace tilewright::dequant
