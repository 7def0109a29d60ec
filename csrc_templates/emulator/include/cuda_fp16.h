// IEEE half.
#pragma once

#include <cuda_runtime.h>

#include "narrow.h"

struct __half_raw { unsigned short x; };
struct alignas(4) __half2_raw { unsigned short x, y; };

struct __half {
  unsigned short bits;
  __half() = default;
  __half(__half_raw raw) : bits(raw.x) {}
  __half(float value) : bits(tilewright::emulator::half_bits(value)) {}
  operator float() const { return tilewright::emulator::half_float(bits); }
};
struct alignas(4) __half2 {
  __half x, y;
  __half2() = default;
  __half2(__half x, __half y) : x(x), y(y) {}
  __half2(__half2_raw raw) : x(__half_raw{raw.x}), y(__half_raw{raw.y}) {}
};
using half = __half;
using half2 = __half2;

inline float __half2float(__half value) { return value; }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half __float2half(float value) { return __half(value); }
inline __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 pair) { return {__half(pair.x), __half(pair.y)}; }
inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __low2half2(__half2 pair) { return {pair.x, pair.x}; }
inline __half2 __high2half2(__half2 pair) { return {pair.y, pair.y}; }
inline float2 __half22float2(__half2 pair) { return {pair.x, pair.y}; }
inline float __low2float(__half2 pair) { return pair.x; }
inline float __high2float(__half2 pair) { return pair.y; }
inline __half2 __hmul2(__half2 a, __half2 b) {
  return {__half(float(a.x) * float(b.x)), __half(float(a.y) * float(b.y))};
}
inline __half2 __hadd2(__half2 a, __half2 b) {
  return {__half(float(a.x) + float(b.x)), __half(float(a.y) + float(b.y))};
}
inline __half2 __hsub2(__half2 a, __half2 b) {
  return {__half(float(a.x) - float(b.x)), __half(float(a.y) - float(b.y))};
}
inline __half __hmul(__half a, __half b) { return __half(float(a) * float(b)); }
