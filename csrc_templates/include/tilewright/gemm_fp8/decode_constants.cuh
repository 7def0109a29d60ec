// Scales and bias that a decode block of gemm_fp8 keeps in shared memory, as fp32.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/gemm_fp8/decode_stream.cuh"
#include "tilewright/ptx/lds.cuh"

namespace tilewright::gemm_fp8::kernels {

// Scaling::kBlock: scales of the weights, of each 128 rows from the block's first on the units of k. Otherwise one scale of
// each row of A and one of each of the block's weight rows. Bias: of each of the block's weight rows.
template <class Config, bool kBlock>
class DecodeConstants {
 public:
  using Layout = DecodeLayout<Config>;
  using Element = typename Config::Element;

  __device__ __forceinline__ DecodeConstants(const DecodeParams& params, const DecodeShare<Config>& share, uint32_t base)
      : params_(params),
        share_(share),
        scale_a_(base + Layout::kConstantsOffset),
        scale_b_(base + params.scale_b_offset),
        bias_(base + params.bias_offset) {}

  // The scales of the weights: before the kernels this one depends on are done.
  __device__ __forceinline__ void fetch_weight_scales() const {
    const int rows = share_.end_row - share_.first_row;
    if constexpr (kBlock) {
      const int first = share_.first_row / kDecodeUnit;
      const int count = ((share_.end_row - 1) / kDecodeUnit - first + 1) * params_.units;
      for (int i = static_cast<int>(threadIdx.x); i < count; i += Layout::kThreads) {
        const int block = i / params_.units;
        const int unit = i - block * params_.units;
        const float* scale = params_.scale_b + (first + block) * params_.scale_b_n + unit * params_.scale_b_k;
        ptx::sts_float(scale_b_ + i * 4, __ldg(scale));
      }
    } else {
      for (int i = static_cast<int>(threadIdx.x); i < rows; i += Layout::kThreads) {
        ptx::sts_float(scale_b_ + i * 4, __ldg(params_.scale_b + (share_.first_row + i) * params_.scale_b_n));
      }
    }
  }

  // The rest, afterwards.
  __device__ __forceinline__ void fetch_others() const {
    const int thread = static_cast<int>(threadIdx.x);
    if (!kBlock && thread < params_.m) {
      ptx::sts_float(scale_a_ + thread * 4, params_.scale_a[thread * params_.scale_a_m]);
    }
    if (params_.bias == nullptr) return;
    for (int i = thread; i < share_.end_row - share_.first_row; i += Layout::kThreads) {
      ptx::sts_float(bias_ + i * 4, epilogue::bias_at<Element>(params_.bias, share_.first_row + i, params_.n));
    }
  }

  // Scaling::kBlock: of weight row `row`, which may lie past the end.
  __device__ __forceinline__ float block_scale(int unit, int row) const {
    const int block = min(row, share_.end_row - 1) / kDecodeUnit - share_.first_row / kDecodeUnit;
    return ptx::lds_float(scale_b_ + (block * params_.units + unit) * 4);
  }

  // A sum of products as it is before it is rounded.
  __device__ __forceinline__ float finished(float sum, int m, int row) const {
    const int place = (row - share_.first_row) * 4;
    if constexpr (!kBlock) sum = sum * ptx::lds_float(scale_a_ + m * 4) * ptx::lds_float(scale_b_ + place);
    return params_.bias == nullptr ? sum : sum + ptx::lds_float(bias_ + place);
  }

 private:
  const DecodeParams& params_;
  const DecodeShare<Config>& share_;
  uint32_t scale_a_, scale_b_, bias_;
};

}  // namespace tilewright::gemm_fp8::kernels
