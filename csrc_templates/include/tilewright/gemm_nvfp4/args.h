// Arguments of the gemm_nvfp4 family, shared by host code, selectors and kernels. Needs no CUDA header.
#pragma once

#include <cstdint>

#include "tilewright/types.h"

namespace tilewright {

// out[m, n] = global_a * global_b * sum over K of a[m, k] * scale_a[m, k / 16] * b[n, k] * scale_b[n, k / 16],
// + bias[n], accumulated in fp32.
//
// a, b      e2m1, two a byte, the LOW nibble is the even k; row-major [m, k / 2] and [n, k / 2] bytes, contiguous.
// scale_*   e4m3, one per 16 along K, in the swizzled layout of nvfp4/scale_layout.h: padded to 128 rows and 4 scales,
//           the padding defined (zero) and never read as data.
// global_*  one fp32 each.
// bias      n elements of `dtype`, or null. Added in fp32 before the one rounding to `dtype`.
// out       row-major [m, n] of `dtype`, `ldo` elements from one row to the next.
// All pointers are device pointers. `workspace` may be null for tiles that need none.
struct GemmNvfp4Args {
  const uint8_t* a;
  const uint8_t* b;
  const uint8_t* scale_a;
  const uint8_t* scale_b;
  const float* global_a;
  const float* global_b;
  const void* bias;
  void* out;
  int64_t m, n, k, ldo;
  DType dtype;
  int32_t num_sms;
  void* workspace;
  int64_t workspace_bytes;
};

}  // namespace tilewright
