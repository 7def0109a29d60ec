// Arguments of the kernels that quantise to FP8 and NVFP4. Needs no CUDA header.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"
#include "tilewright/types.h"

namespace tilewright {

// What one scale covers.
enum class Granularity : int { kTensor = 0, kRow = 1, kBlock1x128 = 2, kBlock128x128 = 3 };

// codes[rows, columns] and scales from values[rows, columns] of `dtype`, row-major, contiguous, `values` and `codes` on
// 16 bytes.
//
// A scale is the greatest finite magnitude it covers over the greatest value of the type, at least the least normal
// number, and 1 where that magnitude is 0. Codes are values over their scale, rounded to nearest even and saturated;
// 0x7f (NaN) for values that are not finite. The scale of (row group i, column group j) is scales[i * scale_row + j *
// scale_column].
// kTensor: `given` is the scale to use, or null; then `amax` is one float of scratch.
struct QuantizeFp8Args {
  const void* values;
  uint8_t* codes;
  float* scales;
  float* amax;
  const float* given;
  int64_t rows, columns;
  int64_t scale_row, scale_column;
  DType dtype;
  Fp8Type type;
  Granularity granularity;
};

// codes[rows, columns / 2] (e2m1, the even column in the low nibble), scales (e4m3, laid out as nvfp4/scale_layout.h
// says, the padding zero) and the global scale, from values[rows, columns] of `dtype`; columns a multiple of 16.
//
// The global scale is `given`, or takes the greatest finite magnitude of all to 6 * 448 (1 where that is 0); then
// `amax` is one float of scratch. A group that holds NaN or an infinity has the scale NaN.
struct QuantizeNvfp4Args {
  const void* values;
  uint8_t* codes;
  uint8_t* scales;
  float* global_scale;
  float* amax;
  const float* given;
  int64_t rows, columns;
  DType dtype;
};

}  // namespace tilewright
