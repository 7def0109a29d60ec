// Byte and bit selection within 32-bit words, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline uint32_t prmt(uint32_t low, uint32_t high, uint32_t selector) { return __byte_perm(low, high, selector); }

template <int kIndex>
inline uint32_t byte_of(uint32_t word) {
  static_assert(kIndex >= 0 && kIndex < 4, "a word has four bytes");
  return word >> 8 * kIndex & 255u;
}

inline uint32_t rotate_right(uint32_t word, uint32_t count) {
  count &= 31u;
  return count == 0 ? word : word >> count | word << (32u - count);
}

template <uint32_t kMask>
inline uint32_t merge_masked(uint32_t word, uint32_t other) {
  return (word & kMask) | other;
}

template <class T>
inline T opaque(T value) {
  return value;
}

}  // namespace tilewright::ptx
