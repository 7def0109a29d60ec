// Arguments of the gemm_4bit family, shared by host code, selectors and kernels. Needs no CUDA header.
#pragma once

#include <cstdint>

#include "tilewright/types.h"

namespace tilewright {

enum class QuantType : int { kNf4 = 0, kFp4 = 1, kE2m1 = 2 };

// The order of the bytes of `b`. kPacked: as bitsandbytes packs them.
//
// kPrepacked, for N % 16 == 0 and K % 64 == 0: blocks of 16 rows x 64 in k, 512 bytes each, those of the same rows one
// after the other. With g 0..7 and t 0..3, the 16 bytes at 16 (4 g + t) of a block are the bytes 4 w + t (w 0..7) of
// the 32 that row g has in the block, then those of row g + 8: what one lane of a warp multiplies.
enum class WeightLayout : int { kPacked = 0, kPrepacked = 1 };

constexpr int kPrepackedRows = 16;
constexpr int kPrepackedK = 64;
constexpr int kPrepackedBlockBytes = kPrepackedRows * kPrepackedK / 2;

// out[m, n] = a[m, k] * dequantise(b)[n, k]^T + bias[n], accumulated in fp32.
//
// a      row-major elements of `dtype`, `lda` elements from one row to the next.
// b      packed codes, two a byte, over the flattened row-major [n, k] weight.
//        nf4, fp4: the HIGH nibble is the even k. e2m1: the LOW nibble is the even k. Bytes in the order of `layout`.
// scales nf4, fp4: fp32 absmax, one per `blocksize` flattened elements; when `nested_absmax` is set, uint8 codes c with
//        absmax[i] = nested_code[c[i]] * nested_absmax[i / 256] + *offset.
//        e2m1: uint8 e4m3 of shape [n, k / 16], blocksize 16, each multiplied by the fp32 global scale `*offset`.
// bias   n elements of `dtype`, or null. Added in fp32 before the one rounding to `dtype`.
// out    row-major contiguous [m, n] of `dtype`.
// fresh_weights: b or what belongs to it was written by a kernel that may not be done, so the launch waits for all
//        ahead of it. Otherwise engines may fetch weights before the kernels ahead have ended (programmatic dependent
//        launch).
// All pointers are device pointers. `workspace` may be null for engines that need none.
struct Gemm4bitArgs {
  const void* a;
  const uint8_t* b;
  const void* scales;
  const float* nested_absmax;
  const float* nested_code;
  const float* offset;
  const void* bias;
  void* out;
  int64_t m, n, k, lda;
  int32_t blocksize;
  DType dtype;
  QuantType quant_type;
  int32_t num_sms;
  void* workspace;
  int64_t workspace_bytes;
  WeightLayout layout;
  bool fresh_weights;
};

}  // namespace tilewright
