// The rows of A of one decode warp, on their way into registers.
#pragma once

#include <cstdint>

#include "tilewright/gemm_4bit/decode_plan.h"
#include "tilewright/ptx/ldmatrix.cuh"
#include "tilewright/ptx/lds.cuh"

namespace tilewright::kernels {

enum class DecodeKind : int {
  kBlock64,        // absmax blocks of 64 or more: the scale multiplies the fp32 sum of 64 products
  kBlock64Nested,  // the same, nested
  kBlock32,        // absmax blocks of 32, nested or not
  kE2m1,           // e4m3 blocks of 16: code * scale is exact in 16 bits, so the scale multiplies the operand
};

// Exchanges words within a quad: lane t gets in values[w] the values[t] of lane w.
__device__ __forceinline__ void transpose_quad(uint32_t (&values)[4], int t) {
  const bool odd = t & 1, upper = t & 2;
  const uint32_t low1 = __shfl_xor_sync(0xffffffffu, odd ? values[0] : values[1], 1);
  const uint32_t high1 = __shfl_xor_sync(0xffffffffu, odd ? values[2] : values[3], 1);
  if (odd) {
    values[0] = low1;
    values[2] = high1;
  } else {
    values[1] = low1;
    values[3] = high1;
  }
  const uint32_t low2 = __shfl_xor_sync(0xffffffffu, upper ? values[0] : values[2], 2);
  const uint32_t high2 = __shfl_xor_sync(0xffffffffu, upper ? values[1] : values[3], 2);
  if (upper) {
    values[0] = low2;
    values[1] = high2;
  } else {
    values[2] = low2;
    values[3] = high2;
  }
}

// The rows of A over this warp's part of k, as mma operands in registers. Rows past m and blocks past the part are zeros.
template <class Shape, DecodeKind kKind>
struct DecodeActivations {
  uint32_t pairs[Shape::kKb][Shape::kColumnTiles][8];

  // Chunk `chunk` of the warp, which lies at shared address `from`: rows of 128 bytes, the 16-byte pieces of row r in the
  // order piece ^ (r % 8). Prepacked, the four lanes of a quad need each other's words, which ldmatrix deals out.
  __device__ __forceinline__ void take_chunk(uint32_t from, int chunk, int count, int lane) {
    const int t = lane & 3;
    const int row = Shape::kPrepacked ? lane & 7 : lane >> 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int piece = Shape::kPrepacked ? 4 * h + (lane >> 3) : kKind == DecodeKind::kBlock32 ? 4 * h + t : 2 * t + h;
      const uint32_t lane_from = from + row * 128 + (piece ^ row) * 16;
#pragma unroll
      for (int i = 0; i < Shape::kChunkBlocks; ++i) {
        const int b = chunk * Shape::kChunkBlocks + i;
#pragma unroll
        for (int c = 0; c < Shape::kColumnTiles; ++c) {
          const uint32_t address = lane_from + (i * Shape::kMb + c * 8) * 128;
          uint32_t words[4];
          if constexpr (Shape::kPrepacked) {
            ptx::ldmatrix_x4(words, address);
          } else {
            const uint4 value = ptx::lds_128(address);
            words[0] = value.x;
            words[1] = value.y;
            words[2] = value.z;
            words[3] = value.w;
          }
#pragma unroll
          for (int w = 0; w < 4; ++w) pairs[b][c][4 * h + w] = b < count ? words[w] : 0u;
        }
      }
    }
  }

  __device__ __forceinline__ void load(const DecodeParams& params, int first_block, int count, int lane) {
    using Element = typename Shape::Element;
    const int t = lane & 3;
#pragma unroll
    for (int c = 0; c < Shape::kColumnTiles; ++c) {
      const int row = c * 8 + (lane >> 2);
      const Element* source = static_cast<const Element*>(params.a) + row * params.lda + first_block * 64;
#pragma unroll
      for (int b = 0; b < Shape::kKb; ++b) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const bool halves = Shape::kPrepacked || kKind == DecodeKind::kBlock32;
          const int k = b * 64 + (halves ? h * 32 + t * 8 : t * 16 + h * 8);
          uint4 value{0, 0, 0, 0};
          if (row < params.m && b < count) value = *reinterpret_cast<const uint4*>(source + k);
          uint32_t words[4] = {value.x, value.y, value.z, value.w};
          if constexpr (Shape::kPrepacked) transpose_quad(words, t);
#pragma unroll
          for (int i = 0; i < 4; ++i) pairs[b][c][4 * h + i] = words[i];
        }
      }
    }
  }
};

}  // namespace tilewright::kernels
