// The arithmetic of one decode warp of gemm_fp8: kTiles x 16 weight rows times the rows of A over 128 of k.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "tilewright/gemm_fp8/decode_constants.cuh"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/gemm_fp8/decode_stream.cuh"
#include "tilewright/ptx/mma.cuh"
#include "tilewright/ptx/mma_fp8.cuh"

namespace tilewright::gemm_fp8::kernels {

// The weight is the 16-row operand. Where tensor cores do not take 8-bit operands in warp-level instructions both sides are
// unpacked to f16, which is exact: the weights once for all rows of A, and few rows of A once for all tiles.
template <class Config, bool kBlock, Fp8Type kAType>
class DecodeAccumulator {
 public:
  using Layout = DecodeLayout<Config>;
  static constexpr int kColumns = Layout::kColumnTiles;
  static constexpr bool kNative = ptx::kNativeFp8Mma;
  static constexpr bool kUnpackFirst = !kNative && kColumns == 1;

  // Reads the current unit of A.
  __device__ __forceinline__ void load(const DecodeStream<Config, kBlock>& stream, int lane) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 words = stream.read_a(half, c);
        const uint32_t list[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if constexpr (kUnpackFirst) {
            const uint2 pairs = ptx::unpack_fp8x4<kAType>(list[i]);
            a_[c][half][2 * i] = pairs.x;
            a_[c][half][2 * i + 1] = pairs.y;
          } else {
            a_[c][half][i] = list[i];
          }
        }
      }
      if constexpr (kBlock) {
        scales_[c][0] = stream.read_scale_a(c * 8 + (lane & 3) * 2);
        scales_[c][1] = stream.read_scale_a(c * 8 + (lane & 3) * 2 + 1);
      }
    }
  }

  // Adds the product of the weights of tile `tile` and the unit; `row` is this lane's first weight row in the tile.
  __device__ __forceinline__ void multiply(int tile, const uint4 (&weights)[2][2],
                                           const DecodeConstants<Config, kBlock>& constants, int unit, int row) {
    if constexpr (kBlock) {
      float fresh[kColumns][4] = {};
      float more[kColumns][4] = {};
      multiply_into(fresh, more, weights);
      const float upper = constants.block_scale(unit, row);
      const float lower = constants.block_scale(unit, row + 8);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float scale = scales_[c][e % 2] * (e < 2 ? upper : lower);
          const float sum = kChains == 2 ? fresh[c][e] + more[c][e] : fresh[c][e];
          sums_[tile][0][c][e] = fmaf(sum, scale, sums_[tile][0][c][e]);
        }
      }
    } else {
      multiply_into(sums_[tile][0], sums_[tile][kPersistent - 1], weights);
    }
  }

  __device__ __forceinline__ void sum(int tile, float (&total)[kColumns][4]) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        total[c][e] = sums_[tile][0][c][e];
        if (kPersistent == 2) total[c][e] += sums_[tile][kPersistent - 1][c][e];
      }
    }
  }

 private:
  // Where there is one column tile the halves of a unit are summed apart, so that fewer multiplications wait for each other.
  static constexpr int kChains = kColumns == 1 ? 2 : 1;
  static constexpr int kPersistent = kBlock ? 1 : kChains;

  __device__ __forceinline__ void multiply_into(float (&first)[kColumns][4], float (&second)[kColumns][4],
                                                const uint4 (&weights)[2][2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t upper[4] = {weights[0][half].x, weights[0][half].y, weights[0][half].z, weights[0][half].w};
      const uint32_t lower[4] = {weights[1][half].x, weights[1][half].y, weights[1][half].z, weights[1][half].w};
      float(&sum)[kColumns][4] = kChains == 2 && half == 1 ? second : first;
      if constexpr (kNative) {
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          const uint32_t rows[4] = {upper[i], lower[i], upper[i + 1], lower[i + 1]};
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            ptx::mma_m16n8k32<Fp8Type::kE4m3, kAType>(sum[c], rows, a_[c][half][i], a_[c][half][i + 1]);
          }
        }
      } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint2 upper16 = ptx::unpack_fp8x4<Fp8Type::kE4m3>(upper[i]);
          const uint2 lower16 = ptx::unpack_fp8x4<Fp8Type::kE4m3>(lower[i]);
          const uint32_t rows[4] = {upper16.x, lower16.x, upper16.y, lower16.y};
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            if constexpr (kUnpackFirst) {
              ptx::mma_m16n8k16<__half>(sum[c], rows, a_[c][half][2 * i], a_[c][half][2 * i + 1]);
            } else {
              const uint2 a = ptx::unpack_fp8x4<kAType>(a_[c][half][i]);
              ptx::mma_m16n8k16<__half>(sum[c], rows, a.x, a.y);
            }
          }
        }
      }
    }
  }

  uint32_t a_[kColumns][2][kUnpackFirst ? 8 : 4];
  float scales_[kColumns][2];
  float sums_[Config::kTiles][kPersistent][kColumns][4] = {};
};

}  // namespace tilewright::gemm_fp8::kernels
