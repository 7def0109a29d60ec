// Conversions of eight-bit floating-point numbers, emulated.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// A byte of exponent field 0 is a multiple of 2^-9; each of those is a normal half.
inline uint32_t e4m3_to_half(uint32_t byte) {
  const uint32_t sign = (byte & 0x80u) << 8, magnitude = byte & 0x7fu;
  if (magnitude == 0x7fu) return 0x7fffu;
  if (magnitude >= 8) return sign | ((magnitude << 7) + (8u << 10));
  if (magnitude == 0) return sign;
  const uint32_t top = magnitude >= 4 ? 2 : magnitude >= 2 ? 1 : 0;
  return sign | (6 + top) << 10 | ((magnitude << (10 - top)) & 0x3ffu);
}

inline uint32_t e4m3x2_to_half2(uint32_t bytes) {
  return e4m3_to_half(bytes & 0xffu) | e4m3_to_half(bytes >> 8 & 0xffu) << 16;
}

}  // namespace tilewright::ptx
