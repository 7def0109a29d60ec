// One warp's part of an mma_m16n8k32 block tile of gemm_fp8: fragments, multiplication, scales, store.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_fp8/mma_check.h"
#include "tilewright/gemm_fp8/mma_tile.cuh"
#include "tilewright/ptx/ldmatrix.cuh"
#include "tilewright/ptx/mma_fp8.cuh"

namespace tilewright::gemm_fp8::kernels {

// kPromote: the products of a chunk are summed on their own, then added to the rest in fp32, under the chunk's scales
// for Scaling::kBlock.
template <class Config, bool kPromote, Fp8Type kAType>
class MmaWarp {
 public:
  using Layout = MmaLayout<Config>;
  using Element = typename Config::Element;
  static constexpr int kTilesM = Layout::kWarpM / 16;
  static constexpr int kTilesN = Layout::kWarpN / 8;

  __device__ __forceinline__ MmaWarp(const GemmFp8Args& args, const MmaTarget& target, uint32_t smem)
      : args_(args), target_(target), smem_(smem) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    lane_ = static_cast<int>(threadIdx.x) % 32;
    warp_m_ = warp % Config::kWarpsM * Layout::kWarpM;
    warp_n_ = warp / Config::kWarpsM * Layout::kWarpN;
  }

  // Adds the product of the chunk `chunk` in stage `slot`.
  __device__ __forceinline__ void multiply(int slot, int chunk) {
    if constexpr (!kPromote) {
      multiply_into(acc_, slot);
    } else {
      float sum[kTilesM][kTilesN][4] = {};
      multiply_into(sum, slot);
      float rows[2 * kTilesM];
      float column = 1.0f;
      const bool block = args_.scaling == Scaling::kBlock;
      if (block) column = load_scales(rows, chunk);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
        for (int j = 0; j < kTilesN; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            acc_[i][j][e] = block ? fmaf(sum[i][j][e], rows[2 * i + e / 2] * column, acc_[i][j][e])
                                  : acc_[i][j][e] + sum[i][j][e];
          }
        }
      }
    }
  }

  // Scales, adds the bias, rounds, and writes the warp's part of the output.
  __device__ __forceinline__ void store() const {
    constexpr uintptr_t kPair = 2 * sizeof(Element);
    const bool paired = args_.ldo % 2 == 0 && reinterpret_cast<uintptr_t>(args_.out) % kPair == 0;
    const bool block = args_.scaling == Scaling::kBlock;
    const bool row_scales = args_.scaling == Scaling::kRow;
    const float* scale_b = args_.scale_b + target_.group * args_.scale_b_group;
    const Element* bias = static_cast<const Element*>(args_.bias);
    if (bias != nullptr) bias += target_.group * args_.bias_group;
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
      const int64_t column = target_.column + warp_n_ + j * 8 + (lane_ & 3) * 2;
      float scales[2] = {1.0f, 1.0f};
      float added[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (!block && column + e < args_.n) scales[e] = scale_b[row_scales ? (column + e) * args_.scale_b_n : 0];
        added[e] = epilogue::bias_at<Element>(bias, column + e, args_.n);
      }
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int64_t row = target_.row + warp_m_ + i * 16 + h * 8 + (lane_ >> 2);
          if (row >= target_.row_end) continue;
          const float scale_a = block ? 1.0f : args_.scale_a[row_scales ? row * args_.scale_a_m : 0];
          const float low = acc_[i][j][2 * h] * scale_a * scales[0] + added[0];
          const float high = acc_[i][j][2 * h + 1] * scale_a * scales[1] + added[1];
          store_pair(row, column, low, high, paired);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ void store_pair(int64_t row, int64_t column, float low, float high, bool paired) const {
    using Traits = ElementTraits<Element>;
    struct alignas(2 * sizeof(Element)) Pair {
      Element low, high;
    };
    Element* target = static_cast<Element*>(args_.out) + row * args_.ldo + column;
    if (paired && column + 1 < args_.n) {
      *reinterpret_cast<Pair*>(target) = Pair{Traits::from_float(low), Traits::from_float(high)};
      return;
    }
    if (column < args_.n) target[0] = Traits::from_float(low);
    if (column + 1 < args_.n) target[1] = Traits::from_float(high);
  }

  // The chunk's scales of this lane's rows; returns that of the warp's columns.
  __device__ __forceinline__ float load_scales(float (&rows)[2 * kTilesM], int chunk) const {
#pragma unroll
    for (int i = 0; i < 2 * kTilesM; ++i) {
      const int64_t row = target_.row + warp_m_ + i * 8 + (lane_ >> 2);
      rows[i] = row < target_.row_end ? args_.scale_a[row * args_.scale_a_m + chunk * args_.scale_a_k] : 0.0f;
    }
    const int64_t column = target_.column + warp_n_;
    if (column >= args_.n) return 0.0f;
    return args_.scale_b[target_.group * args_.scale_b_group + column / kScaleBlock * args_.scale_b_n +
                         chunk * args_.scale_b_k];
  }

  __device__ __forceinline__ void multiply_into(float (&acc)[kTilesM][kTilesN][4], int slot) const {
    const uint32_t a = smem_ + slot * Layout::kStageBytes;
    const uint32_t b = a + Layout::kABytes;
#pragma unroll
    for (int step = 0; step < Config::kKc / 32; ++step) {
      uint32_t rows[kTilesM][4];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
        const int row = warp_m_ + i * 16 + (lane_ & 15);
        ptx::ldmatrix_x4(rows[i], a + piece_offset(row, step * 2 + (lane_ >> 4)));
      }
#pragma unroll
      for (int j = 0; j < kTilesN / 2; ++j) {
        const int row = warp_n_ + j * 16 + (lane_ & 7) + (lane_ >> 4) * 8;
        uint32_t columns[4];
        ptx::ldmatrix_x4(columns, b + piece_offset(row, step * 2 + (lane_ >> 3 & 1)));
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) {
          ptx::mma_m16n8k32<kAType, Fp8Type::kE4m3>(acc[i][2 * j], rows[i], columns[0], columns[1]);
          ptx::mma_m16n8k32<kAType, Fp8Type::kE4m3>(acc[i][2 * j + 1], rows[i], columns[2], columns[3]);
        }
      }
    }
  }

  const GemmFp8Args& args_;
  const MmaTarget& target_;
  uint32_t smem_;
  int lane_, warp_m_, warp_n_;
  float acc_[kTilesM][kTilesN][4] = {};
};

}  // namespace tilewright::gemm_fp8::kernels
