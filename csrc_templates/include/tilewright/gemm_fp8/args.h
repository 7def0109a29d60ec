// Arguments of the gemm_fp8 family, shared by host code, selectors and kernels. Needs no CUDA header.
#pragma once

#include <cstdint>

#include "tilewright/types.h"

namespace tilewright {

enum class Fp8Type : int { kE4m3 = 0, kE5m2 = 1 };

// What one scale covers: the whole operand; a row of A and a row of B (an output column); 1 x 128 of A by 128 x 128
// of B.
enum class Scaling : int { kTensor = 0, kRow = 1, kBlock = 2 };

// How the rows of A are shared out among `groups` weights.
//   kNone        one weight
//   kContiguous  A is [m, k]; group g owns the rows from group_ends[g - 1] (0 for the first) up to group_ends[g];
//                rows past the last end are left alone
//   kMasked      A is [groups, m, k], out [groups, m, n]; of group g the first group_rows[g] rows are computed
enum class Grouping : int { kNone = 0, kContiguous = 1, kMasked = 2 };

// out[m, n] = sum over K of a[m, k] * scale_a * b[n, k] * scale_b, + bias[n], accumulated in fp32.
//
// a        fp8 of `a_type`, row-major [m, k], `lda` bytes from one row to the next.
// b        e4m3, row-major [n, k], `ldb` bytes from one row to the next; group g starts at g * b_group_stride bytes.
// scale_a  fp32. The scale of (row i, K group q) is scale_a[i * scale_a_m + q * scale_a_k]; a step is 0 where a scale
//          does not change: kTensor both, kRow scale_a_k. kBlock: q = k / 128.
// scale_b  fp32. kTensor: one; kRow: of column j scale_b[j * scale_b_n]; kBlock: of columns j / 128
//          scale_b[(j / 128) * scale_b_n + q * scale_b_k]. Group g starts at g * scale_b_group.
// bias     n elements of `dtype`, or null. Added in fp32 before the one rounding to `dtype`.
// out      row-major [m, n] of `dtype`, `ldo` elements from one row to the next.
// fresh_weights  b or scale_b was written by a kernel that may not be done, so the launch waits for all ahead of it.
//          Otherwise engines may fetch them before the kernels ahead have ended (programmatic dependent launch).
// All pointers are device pointers. `workspace` may be null for tiles that need none.
struct GemmFp8Args {
  const void* a;
  const void* b;
  const float* scale_a;
  const float* scale_b;
  const void* bias;
  void* out;
  int64_t m, n, k, lda, ldb, ldo;
  int64_t scale_a_m, scale_a_k, scale_b_n, scale_b_k;
  int64_t b_group_stride, scale_b_group, bias_group;
  const int32_t* group_ends;
  const int32_t* group_rows;
  int32_t groups;
  Grouping grouping;
  Scaling scaling;
  Fp8Type a_type;
  DType dtype;
  bool fast_accum;
  bool fresh_weights;
  int32_t num_sms;
  void* workspace;
  int64_t workspace_bytes;
};

// The steps of the scales as kernels take them, whatever the arguments hold where a scale does not change: 0 there.
struct ScaleSteps {
  int64_t a_m, a_k, b_n, b_k;
};

inline ScaleSteps scale_steps_of(const GemmFp8Args& args) {
  const bool by_row = args.scaling != Scaling::kTensor, by_block = args.scaling == Scaling::kBlock;
  return {by_row ? args.scale_a_m : 0, by_block ? args.scale_a_k : 0, by_row ? args.scale_b_n : 0,
          by_block ? args.scale_b_k : 0};
}

}  // namespace tilewright
