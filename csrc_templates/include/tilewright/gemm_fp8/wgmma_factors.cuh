// Scales and bias of an output tile, in registers.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/ptx/ldg.cuh"

namespace tilewright::gemm_fp8 {

// What one thread multiplies its sums by and adds to them. The 64-row side ("x") is two rows for every block of
// 64; of the other side ("y") lane l of a warp keeps rows l, l + 32, ... and hands them round.
template <class Config>
class WgmmaFactors {
 public:
  using Element = typename Config::Element;
  using Geometry = WgmmaGeometry<Config>;
  static constexpr int kXBlocks = Geometry::kXBlocks;

  // Whether there is nothing to multiply by or to add.
  static __device__ __forceinline__ bool none(const WgmmaParams& params) {
    return Config::kPromote && params.by_block && params.bias == nullptr;
  }

  // `member` as in WgmmaConsumer.
  __device__ __forceinline__ void fetch(const WgmmaParams& params, const WgmmaWork& work, int member) {
    const int thread = static_cast<int>(threadIdx.x) & 127;
    const int x_first = (Config::kSwap ? work.column : work.row) + member * kXBlocks * 64;
    const int x_row = x_first + (thread >> 5) * 16 + (thread >> 2 & 7);
    const int y_row = (Config::kSwap ? work.row : work.column) + (thread & 31);
#pragma unroll
    for (int i = 0; i < 2 * kXBlocks; ++i) {
      const int at = x_row + 64 * (i / 2) + 8 * (i % 2);
      x_scale_[i] = Config::kSwap ? column_scale(params, work, at) : row_scale(params, work, at);
      x_bias_[i] = Config::kSwap ? column_bias(params, work, at) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kY; ++i) {
      const int at = y_row + 32 * i;
      y_scale_[i] = Config::kSwap ? row_scale(params, work, at) : column_scale(params, work, at);
      y_bias_[i] = Config::kSwap ? 0.0f : column_bias(params, work, at);
    }
  }

  // acc[4 block + 2 h + j], of the whole warp at once, scaled and with its bias: x row 8 h further, y row 2 quad + j.
  __device__ __forceinline__ void apply(const float* four, int x, int block, float (&value)[4]) const {
    const int source = 8 * (block & 3) + 2 * (static_cast<int>(threadIdx.x) & 3);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float scale = __shfl_sync(0xffffffffu, pick(y_scale_, block / 4), source + j);
      const float bias = Config::kSwap ? 0.0f : __shfl_sync(0xffffffffu, pick(y_bias_, block / 4), source + j);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float added = Config::kSwap ? pick(x_bias_, 2 * x + half) : bias;
        value[2 * half + j] = fmaf(four[2 * half + j] * scale, pick(x_scale_, 2 * x + half), added);
      }
    }
  }

 private:
  static constexpr int kY = (Geometry::kYRows + 31) / 32;

  // values[index] without an array in memory where `index` is not a constant.
  template <int kCount>
  static __device__ __forceinline__ float pick(const float (&values)[kCount], int index) {
    float value = values[0];
#pragma unroll
    for (int i = 1; i < kCount; ++i) value = index == i ? values[i] : value;
    return value;
  }

  static __device__ __forceinline__ float load(const float* source) {
    return __uint_as_float(ptx::ldg_near_word(reinterpret_cast<const uint32_t*>(source)));
  }
  static __device__ __forceinline__ float row_scale(const WgmmaParams& params, const WgmmaWork& work, int row) {
    return params.by_block ? 1.0f : load(params.scale_a + min(row, work.rows_end - 1) * params.scale_steps.a_m);
  }
  static __device__ __forceinline__ float column_scale(const WgmmaParams& params, const WgmmaWork& work, int column) {
    const int64_t at = work.group * params.scale_b_group + min(column, params.n - 1) * params.scale_steps.b_n;
    return params.by_block ? 1.0f : load(params.scale_b + at);
  }
  static __device__ __forceinline__ float column_bias(const WgmmaParams& params, const WgmmaWork& work, int column) {
    if (params.bias == nullptr) return 0.0f;
    const auto* bias = static_cast<const Element*>(params.bias) + work.group * params.bias_group;
    return epilogue::bias_at<Element>(bias, column, params.n);
  }

  float x_scale_[2 * kXBlocks], x_bias_[2 * kXBlocks], y_scale_[kY], y_bias_[kY];
};

// Sums that leave as they are.
struct WgmmaNoFactors {
  __device__ __forceinline__ void apply(const float* four, int, int, float (&value)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] = four[i];
  }
};

}  // namespace tilewright::gemm_fp8
