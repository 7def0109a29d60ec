// One warp's part of a mma_block_scaled tile of gemm_nvfp4: fragments, scales, multiplication, store.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_nvfp4/args.h"
#include "tilewright/gemm_nvfp4/mma_stages.cuh"
#include "tilewright/ptx/ldmatrix.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mma_block_scaled.cuh"

namespace tilewright::gemm_nvfp4::kernels {

template <class Config>
class MmaWarp {
 public:
  using Layout = MmaLayout<Config>;
  using Element = typename Config::Element;
  static constexpr int kTilesM = Layout::kWarpM / 16;
  static constexpr int kTilesN = Layout::kWarpN / 8;

  // `row`, `column`: the block's first.
  __device__ __forceinline__ MmaWarp(const GemmNvfp4Args& args, int64_t row, int64_t column, uint32_t smem)
      : args_(args), smem_(smem) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    lane_ = static_cast<int>(threadIdx.x) % 32;
    warp_m_ = warp % Config::kWarpsM * Layout::kWarpM;
    warp_n_ = warp / Config::kWarpsM * Layout::kWarpN;
    row_ = row + warp_m_;
    column_ = column + warp_n_;
    // Lanes with t = 0 and 1 give the scales of rows g and g + 8; the layout's period is 128 rows.
    const int scale_row = warp_m_ + static_cast<int>(row % nvfp4::kScaleAtomRows) + (lane_ >> 2) + (lane_ & 1) * 8;
    const int scale_column = warp_n_ + static_cast<int>(column % nvfp4::kScaleAtomRows) + (lane_ >> 2);
    scale_row_ = scale_row;
    scale_column_ = scale_column;
  }

  // Adds the product of the chunk in `slot`, of which `k_left` elements exist.
  __device__ __forceinline__ void multiply(int slot, int k_left) {
    const uint32_t stage = smem_ + slot * Layout::kStageBytes;
#pragma unroll
    for (int step = 0; step < Config::kKc / 64; ++step) {
      // Scales past the end of k are padding: with zero elements they would count only if they were NaN.
      const int left = k_left - step * 64;
      const uint32_t mask = left >= 64 ? 0xffffffffu : left > 0 ? (1u << left / 16 * 8) - 1 : 0u;
      uint32_t rows[kTilesM][4];
      uint32_t row_scales[kTilesM];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
        ptx::ldmatrix_x4(rows[i], stage + piece_offset(warp_m_ + i * 16 + (lane_ & 15), step * 2 + (lane_ >> 4)));
        row_scales[i] = scale_word(stage + Layout::kAScaleOffset, scale_row_ + i * 16, step) & mask;
      }
#pragma unroll
      for (int j = 0; j < kTilesN / 2; ++j) {
        const int row = warp_n_ + j * 16 + (lane_ & 7) + (lane_ >> 4) * 8;
        uint32_t columns[4];
        ptx::ldmatrix_x4(columns, stage + Layout::kBOffset + piece_offset(row, step * 2 + (lane_ >> 3 & 1)));
        const uint32_t scales[2] = {
            scale_word(stage + Layout::kBScaleOffset, scale_column_ + j * 16, step) & mask,
            scale_word(stage + Layout::kBScaleOffset, scale_column_ + j * 16 + 8, step) & mask};
#pragma unroll
        for (int i = 0; i < kTilesM; ++i) {
          ptx::mma_m16n8k64_nvfp4(acc_[i][2 * j], rows[i], columns[0], columns[1], row_scales[i], scales[0]);
          ptx::mma_m16n8k64_nvfp4(acc_[i][2 * j + 1], rows[i], columns[2], columns[3], row_scales[i], scales[1]);
        }
      }
    }
  }

  // Scales, adds the bias, rounds, and writes the warp's part of the output.
  __device__ __forceinline__ void store() const {
    constexpr uintptr_t kPair = 2 * sizeof(Element);
    const bool paired = args_.ldo % 2 == 0 && reinterpret_cast<uintptr_t>(args_.out) % kPair == 0;
    const float scale = *args_.global_a * *args_.global_b;
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
      const int64_t column = column_ + j * 8 + (lane_ & 3) * 2;
      const float low_bias = epilogue::bias_at<Element>(args_.bias, column, args_.n);
      const float high_bias = epilogue::bias_at<Element>(args_.bias, column + 1, args_.n);
#pragma unroll
      for (int i = 0; i < 2 * kTilesM; ++i) {
        const int64_t row = row_ + i * 8 + (lane_ >> 2);
        if (row >= args_.m) continue;
        const float(&acc)[4] = acc_[i / 2][j];
        store_pair(row, column, acc[i % 2 * 2] * scale + low_bias, acc[i % 2 * 2 + 1] * scale + high_bias, paired);
      }
    }
  }

 private:
  // The four scales of row `row`, counted from the start of the stage's first atom, in the 64 of k `step`.
  static __device__ __forceinline__ uint32_t scale_word(uint32_t scales, int row, int step) {
    const int group = row / nvfp4::kScaleAtomRows;
    return ptx::lds_32(scales + (group * Layout::kAtoms + step) * nvfp4::kScaleAtomBytes +
                       nvfp4::scale_offset_in_atom(row % nvfp4::kScaleAtomRows, 0));
  }

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

  const GemmNvfp4Args& args_;
  uint32_t smem_;
  int lane_, warp_m_, warp_n_;
  int64_t row_, column_;
  int scale_row_, scale_column_;
  float acc_[kTilesM][kTilesN][4] = {};
};

}  // namespace tilewright::gemm_nvfp4::kernels
