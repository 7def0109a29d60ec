// The number formats of matrix multiplications.
#pragma once

#include <cstdint>
#include <cstring>

namespace tilewright::emulator {

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline float bf16_value(uint16_t bits) { return float_of_bits(static_cast<uint32_t>(bits) << 16); }

inline float half_value(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Scaling by 2^112 turns the shifted pattern into the value, subnormals included.
  const float scaled = float_of_bits(magnitude << 13) * 0x1p112f;
  return sign != 0 ? -scaled : scaled;
}

// Values of 8-bit patterns.
struct ByteTables {
  float e4m3[256], e5m2[256], ue8m0[256];
  float e2m1[16];
  ByteTables() {
    for (int i = 0; i < 256; ++i) {
      e5m2[i] = half_value(static_cast<uint16_t>(i << 8));
      const int exponent = i >> 3 & 15, mantissa = i & 7;
      const float magnitude = (i & 0x7f) == 0x7f ? float_of_bits(0x7fc00000u)
                              : exponent == 0
                                  ? mantissa * 0x1p-9f
                                  : (8 + mantissa) * float_of_bits(static_cast<uint32_t>(exponent - 10 + 127) << 23);
      e4m3[i] = i & 0x80 ? -magnitude : magnitude;
      ue8m0[i] = i == 255 ? float_of_bits(0x7fc00000u)
                 : i == 0 ? 0x1p-127f
                          : float_of_bits(static_cast<uint32_t>(i) << 23);
    }
    constexpr float kMagnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    for (int i = 0; i < 16; ++i) e2m1[i] = i & 8 ? -kMagnitudes[i & 7] : kMagnitudes[i & 7];
  }
};

inline const ByteTables& byte_tables() {
  static const ByteTables tables;
  return tables;
}

}  // namespace tilewright::emulator
