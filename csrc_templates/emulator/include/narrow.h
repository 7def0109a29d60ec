// Rounding of fp32 to 16-bit and 8-bit formats, to nearest even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tilewright::emulator {

inline uint16_t bf16_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline uint16_t half_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {                       // subnormal: multiples of 2^-24
    const float scaled = std::fabs(value) * 0x1p24f;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

inline float bf16_float(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

inline float half_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  uint32_t word = magnitude >= 0x7c00u ? 0x7f800000u | (magnitude & 0x3ffu) << 13 : magnitude << 13;
  float value;
  std::memcpy(&value, &word, 4);
  if (magnitude < 0x7c00u) value *= 0x1p112f;
  std::memcpy(&word, &value, 4);
  word |= sign;
  std::memcpy(&value, &word, 4);
  return value;
}

// Saturating conversion to a small float of `mantissa` bits and exponents from `lowest` (of subnormals' unit, 2^lowest)
// whose largest value is `largest` with pattern `top`.
inline uint8_t small_float_bits(float value, int mantissa, int lowest, float largest, uint8_t top) {
  const float magnitude = std::fabs(value);
  if (magnitude >= largest) return top;
  if (magnitude == 0.0f) return 0;
  int exponent;
  std::frexp(magnitude, &exponent);  // magnitude in [2^(exponent - 1), 2^exponent)
  int unit = exponent - 1 - mantissa;
  if (unit < lowest) unit = lowest;
  auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // Patterns count up through binades: subnormals and the first binade share a unit.
  const int pattern = steps + ((unit - lowest) << mantissa);
  return pattern > top ? top : static_cast<uint8_t>(pattern);
}

}  // namespace tilewright::emulator
