// bfloat16.
#pragma once

#include <cuda_runtime.h>

#include "narrow.h"

struct __nv_bfloat16_raw { unsigned short x; };
struct __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {}
  __nv_bfloat16(float value) : bits(tilewright::emulator::bf16_bits(value)) {}
  operator float() const { return tilewright::emulator::bf16_float(bits); }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  __nv_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) : x(x), y(y) {}
};

inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16(__nv_bfloat16_raw{bits}); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 pair) { return {__nv_bfloat16(pair.x), __nv_bfloat16(pair.y)}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
inline float2 __bfloat1622float2(__nv_bfloat162 pair) { return {pair.x, pair.y}; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 pair) { return {pair.x, pair.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 pair) { return {pair.y, pair.y}; }
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return {__nv_bfloat16(float(a.x) * float(b.x)), __nv_bfloat16(float(a.y) * float(b.y))};
}
inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(float(a) * float(b)); }
