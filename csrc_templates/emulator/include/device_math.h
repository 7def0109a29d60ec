// Arithmetic intrinsics of kernels.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

template <class To, class From>
inline To tilewright_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline float __uint_as_float(unsigned bits) { return tilewright_bits<float>(bits); }
inline float __int_as_float(int bits) { return tilewright_bits<float>(bits); }
inline unsigned __float_as_uint(float value) { return tilewright_bits<unsigned>(value); }
inline int __float_as_int(float value) { return tilewright_bits<int>(value); }

inline float __fmul_rn(float a, float b) { return tilewright::emulator::rounded(a * b); }
inline float __fadd_rn(float a, float b) { return tilewright::emulator::rounded(a + b); }
inline float __fsub_rn(float a, float b) { return tilewright::emulator::rounded(a - b); }
inline float __fdiv_rn(float a, float b) { return tilewright::emulator::rounded(a / b); }
inline float __frcp_rn(float a) { return tilewright::emulator::rounded(1.0f / a); }
inline float __fmaf_rn(float a, float b, float c) { return tilewright::emulator::rounded(std::fma(a, b, c)); }
inline float __fdividef(float a, float b) { return a / b; }
using std::fabs;
using std::fma;
using std::isnan;

inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value)); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline unsigned __brev(unsigned value) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (value >> i & 1u) << (31 - i);
  return result;
}
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }

inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> 4 * i & 15u;
    unsigned byte = static_cast<unsigned>(bytes >> 8 * (nibble & 7u)) & 255u;
    if (nibble & 8u) byte = byte & 0x80u ? 255u : 0u;
    result |= byte << 8 * i;
  }
  return result;
}

#define TILEWRIGHT_MIN_MAX(T)                           \
  inline constexpr T min(T a, T b) { return b < a ? b : a; } \
  inline constexpr T max(T a, T b) { return a < b ? b : a; }
TILEWRIGHT_MIN_MAX(int)
TILEWRIGHT_MIN_MAX(unsigned)
TILEWRIGHT_MIN_MAX(long)
TILEWRIGHT_MIN_MAX(unsigned long)
TILEWRIGHT_MIN_MAX(long long)
TILEWRIGHT_MIN_MAX(unsigned long long)
TILEWRIGHT_MIN_MAX(float)
#undef TILEWRIGHT_MIN_MAX
