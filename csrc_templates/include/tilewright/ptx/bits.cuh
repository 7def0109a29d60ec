// Byte and bit selection within 32-bit words.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// Picks four bytes of {high, low}, one nibble of `selector` each.
__device__ __forceinline__ uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) {
  uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}

// Byte `kIndex` of `word`, zero-extended.
template <int kIndex>
__device__ __forceinline__ uint32_t byte_of(uint32_t word) {
  static_assert(kIndex >= 0 && kIndex < 4, "a word has four bytes");
  return prmt(word, 0u, 0x4440u | kIndex);
}

// Rotates `word` right by `count` (0..31) bits.
__device__ __forceinline__ uint32_t rotate_right(uint32_t word, uint32_t count) {
  uint32_t result;
  asm("shf.r.wrap.b32 %0, %1, %1, %2;" : "=r"(result) : "r"(word), "r"(count));
  return result;
}

// (word & kMask) | other, in one instruction that the compiler does not split.
template <uint32_t kMask>
__device__ __forceinline__ uint32_t merge_masked(uint32_t word, uint32_t other) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "n"(kMask), "r"(other));
  return result;
}

// `value`, of which the compiler knows nothing: it stays in registers instead of being computed anew at every use.
template <class T>
__device__ __forceinline__ T* opaque(T* value) {
  asm("" : "+l"(value));
  return value;
}

__device__ __forceinline__ uint32_t opaque(uint32_t value) {
  asm("" : "+r"(value));
  return value;
}

}  // namespace tilewright::ptx
