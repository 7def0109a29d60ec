// The arithmetic of one decode warp of gemm_fp8: 16 weight rows times the rows of A over 128 of k.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "tilewright/gemm_fp8/decode_operands.cuh"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/ptx/mma.cuh"
#include "tilewright/ptx/mma_fp8.cuh"

namespace tilewright::gemm_fp8::kernels {

// The weight is the 16-row operand. Where tensor cores do not take 8-bit operands in warp-level instructions both sides
// are unpacked to f16, which is exact: the weights once for all rows of A.
template <class Config, bool kBlock, Fp8Type kAType>
class DecodeAccumulator {
 public:
  static constexpr int kColumns = DecodeLayout<Config>::kColumnTiles;

  // Reads A's unit `unit`.
  __device__ __forceinline__ void load(const DecodeOperands<Config, kBlock>& operands, int unit, int lane) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) a_[c][half] = operands.fragment(unit, half, c, lane);
    }
  }

  // Adds the product of the weights of a step and the unit that was loaded.
  __device__ __forceinline__ void multiply(const uint4 (&weights)[2][2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t upper[4] = {weights[0][half].x, weights[0][half].y, weights[0][half].z, weights[0][half].w};
      const uint32_t lower[4] = {weights[1][half].x, weights[1][half].y, weights[1][half].z, weights[1][half].w};
      if constexpr (ptx::kNativeFp8Mma) {
        multiply_native(half, upper, lower);
      } else {
        multiply_unpacked(half, upper, lower);
      }
    }
  }

  // Ends a unit; `row` is this lane's first weight row. Sums of 8-bit products, whose precision within the tensor core
  // is not that of fp32, are added to the rest here; so are those under one scale.
  __device__ __forceinline__ void end_unit(const DecodeOperands<Config, kBlock>& operands, int unit, int row,
                                           int lane) {
    if constexpr (kPromote) {
      float fresh[kColumns][4];
      add_chains(fresh);
      const float upper = kBlock ? operands.block_scale_b(unit, row) : 1.0f;
      const float lower = kBlock ? operands.block_scale_b(unit, row + 8) : 1.0f;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if constexpr (kBlock) {
            const float scale = operands.block_scale_a(unit, c * 8 + (lane & 3) * 2 + e % 2) * (e < 2 ? upper : lower);
            promoted_[c][e] = fmaf(fresh[c][e], scale, promoted_[c][e]);
          } else {
            promoted_[c][e] += fresh[c][e];
          }
#pragma unroll
          for (int chain = 0; chain < kChains; ++chain) chains_[chain][c][e] = 0.0f;
        }
      }
    }
  }

  __device__ __forceinline__ void sum(float (&total)[kColumns][4]) const {
    if constexpr (!kPromote) {
      add_chains(total);
    } else {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) total[c][e] = promoted_[c][e];
      }
    }
  }

 private:
  // Independent sums of a column tile, so that fewer multiplications wait for each other.
  static constexpr int kChains = kColumns == 1 ? 4 : kColumns == 2 ? 2 : 1;
  static constexpr bool kPromote = kBlock || ptx::kNativeFp8Mma;

  __device__ __forceinline__ void add_chains(float (&total)[kColumns][4]) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        total[c][e] = chains_[0][c][e];
#pragma unroll
        for (int chain = 1; chain < kChains; ++chain) total[c][e] += chains_[chain][c][e];
      }
    }
  }

  __device__ __forceinline__ void multiply_native(int half, const uint32_t (&upper)[4], const uint32_t (&lower)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t rows[4] = {upper[i], lower[i], upper[i + 1], lower[i + 1]};
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const uint32_t a[4] = {a_[c][half].x, a_[c][half].y, a_[c][half].z, a_[c][half].w};
        ptx::mma_m16n8k32<Fp8Type::kE4m3, kAType>(chains_[(half * 2 + i / 2) % kChains][c], rows, a[i], a[i + 1]);
      }
    }
  }

  __device__ __forceinline__ void multiply_unpacked(int half, const uint32_t (&upper)[4], const uint32_t (&lower)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint2 upper16 = ptx::unpack_fp8x4<Fp8Type::kE4m3>(upper[i]);
      const uint2 lower16 = ptx::unpack_fp8x4<Fp8Type::kE4m3>(lower[i]);
      const uint32_t rows[4] = {upper16.x, lower16.x, upper16.y, lower16.y};
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const uint32_t a[4] = {a_[c][half].x, a_[c][half].y, a_[c][half].z, a_[c][half].w};
        const uint2 a16 = ptx::unpack_fp8x4<kAType>(a[i]);
        ptx::mma_m16n8k16<__half>(chains_[i % kChains][c], rows, a16.x, a16.y);
      }
    }
  }

  uint4 a_[kColumns][2];
  float chains_[kChains][kColumns][4] = {};
  float promoted_[kColumns][4] = {};
};

}  // namespace tilewright::gemm_fp8::kernels
