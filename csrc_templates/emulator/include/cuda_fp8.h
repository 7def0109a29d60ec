// 8-bit floats as storage and their conversions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned;
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };

struct __nv_fp8_e4m3 {
  __nv_fp8_storage_t __x;
};
struct __nv_fp8_e5m2 {
  __nv_fp8_storage_t __x;
};

inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind) {
  if (kind == __NV_E5M2) return {static_cast<unsigned short>(bits << 8)};
  if ((bits & 0x7f) == 0x7f) return {0x7fff};
  const auto shifted = static_cast<unsigned short>((bits & 0x80) << 8 | (bits & 0x7f) << 7);  // the value / 256
  return {tilewright::emulator::half_bits(tilewright::emulator::half_float(shifted) * 256.0f)};
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t bits, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(bits), kind).x,
          __nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(bits >> 8), kind).x};
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t, __nv_fp8_interpretation_t kind) {
  if (value != value) return 0x7f;
  const unsigned char sign = std::signbit(value) ? 0x80 : 0;
  return sign | (kind == __NV_E4M3 ? tilewright::emulator::small_float_bits(value, 3, -9, 448.0f, 0x7e)
                                   : tilewright::emulator::small_float_bits(value, 2, -16, 57344.0f, 0x7b));
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 pair, __nv_saturation_t mode,
                                                     __nv_fp8_interpretation_t kind) {
  return static_cast<unsigned short>(__nv_cvt_float_to_fp8(pair.x, mode, kind) |
                                     __nv_cvt_float_to_fp8(pair.y, mode, kind) << 8);
}
