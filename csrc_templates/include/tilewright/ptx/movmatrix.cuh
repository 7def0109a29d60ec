// Transposition of an 8 x 8 matrix of 16-bit elements spread over a warp (sm_75 and later).
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// Lane 4r + t holds row r, columns 2t and 2t + 1, before and after. All lanes take part.
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t pair) {
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}

}  // namespace tilewright::ptx
