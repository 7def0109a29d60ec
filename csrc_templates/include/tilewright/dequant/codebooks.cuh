// The sixteen values of each 4-bit format.
#pragma once

#include <cstdint>

#include "tilewright/gemm_4bit/args.h"

namespace tilewright::dequant {

constexpr int kCodebookSize = 16;

// NF4: quantiles of the normal distribution, in order of value.
__device__ __forceinline__ float nf4_value(int code) {
  static constexpr float kValues[kCodebookSize] = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
  return kValues[code];
}

// The FP4 of bitsandbytes: bit 3 is the sign, the magnitudes are not in order of code. This is not OCP E2M1.
__device__ __forceinline__ float fp4_value(int code) {
  static constexpr float kMagnitudes[8] = {0.0f,        0.0625f / 12, 8.0f / 12, 1.0f,
                                           4.0f / 12, 0.5f,         2.0f / 12, 0.25f};
  const float magnitude = kMagnitudes[code & 7];
  return code & 8 ? -magnitude : magnitude;
}

// OCP E2M1: sign, two exponent bits, one mantissa bit.
__device__ __forceinline__ float e2m1_value(int code) {
  static constexpr float kMagnitudes[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = kMagnitudes[code & 7];
  return code & 8 ? -magnitude : magnitude;
}

__device__ __forceinline__ float codebook_value(QuantType quant_type, int code) {
  switch (quant_type) {
    case QuantType::kNf4:
      return nf4_value(code);
    case QuantType::kFp4:
      return fp4_value(code);
    case QuantType::kE2m1:
      return e2m1_value(code);
  }
  return __int_as_float(0x7fffffff);  // not a quant type: NaN shows
}

// Threads 0..15 of the block write the codebook to shared memory; the caller synchronises. Sixteen words lie in sixteen
// banks, so a warp looks up any mix of codes without a conflict.
__device__ __forceinline__ void fill_codebook(float* table, QuantType quant_type) {
  if (threadIdx.x < kCodebookSize) table[threadIdx.x] = codebook_value(quant_type, static_cast<int>(threadIdx.x));
}

}  // namespace tilewright::dequant
