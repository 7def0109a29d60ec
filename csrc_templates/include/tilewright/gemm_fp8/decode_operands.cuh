// What a decode block of gemm_fp8 keeps in shared memory beside the weights: A, the scales, the bias.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/gemm_fp8/decode_stream.cuh"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/ptx/lds.cuh"

namespace tilewright::gemm_fp8::kernels {

// A: unit after unit of k; of a unit, two halves of 64 bytes; of a half, the rows. Scales of Scaling::kBlock: of A, of
// each unit the rows; of the weights, of each 128 rows from the block's first on the units. Otherwise one of each row
// of A and one of each of the block's weight rows. Bias: of each of the block's weight rows.
template <class Config, bool kBlock>
class DecodeOperands {
 public:
  using Layout = DecodeLayout<Config>;
  using Element = typename Config::Element;

  __device__ __forceinline__ DecodeOperands(const DecodeParams& params, const DecodeShare<Config>& share, uint32_t base)
      : params_(params),
        share_(share),
        a_(base + Layout::kAOffset),
        scale_a_(base + params.scale_a_offset),
        scale_b_(base + params.scale_b_offset),
        bias_(base + params.bias_offset) {}

  // The scales of the weights: constants, so before the kernels this one depends on are done.
  __device__ __forceinline__ void fetch_constants() const {
    if constexpr (kBlock) {
      const int first = share_.first_row / kDecodeUnit;
      const int count = ((share_.end_row - 1) / kDecodeUnit - first + 1) * params_.units;
      for (int i = static_cast<int>(threadIdx.x); i < count; i += Layout::kThreads) {
        const int block = i / params_.units;
        const int unit = i - block * params_.units;
        const float* scale =
            params_.scale_b + (first + block) * params_.scale_steps.b_n + unit * params_.scale_steps.b_k;
        ptx::sts_float(scale_b_ + i * 4, __ldg(scale));
      }
    } else {
      for (int i = static_cast<int>(threadIdx.x); i < share_.end_row - share_.first_row; i += Layout::kThreads) {
        ptx::sts_float(scale_b_ + i * 4, __ldg(params_.scale_b + (share_.first_row + i) * params_.scale_steps.b_n));
      }
    }
  }

  // Fetches A, each warp its part of k with those that share it, its scales and the bias; the part is there on return,
  // the rest after the block's next meeting. Blocks begin with different rows of A, since all read it at once.
  __device__ __forceinline__ void fetch(int lane) const {
    fetch_a(lane);
    const int scales = kBlock ? params_.units * params_.m : params_.m;
    for (int i = static_cast<int>(threadIdx.x); i < scales; i += Layout::kThreads) {
      const int unit = i / params_.m;
      const float* scale = params_.scale_a + (i - unit * params_.m) * params_.scale_steps.a_m;
      if (kBlock) scale += unit * params_.scale_steps.a_k;
      ptx::sts_float(scale_a_ + i * 4, *scale);
    }
    if (params_.bias != nullptr) {
      for (int i = static_cast<int>(threadIdx.x); i < share_.end_row - share_.first_row; i += Layout::kThreads) {
        ptx::sts_float(bias_ + i * 4, epilogue::bias_at<Element>(params_.bias, share_.first_row + i, params_.n));
      }
    }
    ptx::cp_async_wait<0>();
    if (!kBlock && Layout::kWarpsN == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  // The fragment of rows 8 * `tile` .. + 7, half `half` of unit `unit`; rows past the last are zeros.
  __device__ __forceinline__ uint4 fragment(int unit, int half, int tile, int lane) const {
    const int row = tile * 8 + (lane >> 2);
    if (row >= params_.m) return {0, 0, 0, 0};
    return ptx::lds_128(a_ + ((unit * 2 + half) * params_.m + row) * 64 + (lane & 3) * 16);
  }

  // Scaling::kBlock: of row `row` of A in unit `unit`.
  __device__ __forceinline__ float block_scale_a(int unit, int row) const {
    return row < params_.m ? ptx::lds_float(scale_a_ + (unit * params_.m + row) * 4) : 0.0f;
  }

  // Scaling::kBlock: of weight row `row`, which may lie past the end.
  __device__ __forceinline__ float block_scale_b(int unit, int row) const {
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
  __device__ __forceinline__ void fetch_a(int lane) const {
    const int first_k = share_.first_unit * kDecodeUnit;
    const uint8_t* source = params_.a + first_k;
    const uint32_t target = a_ + share_.first_unit * params_.m * kDecodeUnit;
    int m = static_cast<int>(blockIdx.x) % params_.m;
    for (int row = 0; row < params_.m; ++row) {
#pragma unroll 2
      for (int piece = share_.warp_n * 32 + lane; piece < share_.units * 8; piece += 32 * Layout::kWarpsN) {
        const uint32_t place = target + ((piece >> 2) * params_.m + m) * 64 + (piece & 3) * 16;
        ptx::cp_async_16(place, source + m * params_.lda + piece * 16, first_k + piece * 16 < params_.k ? 16 : 0);
      }
      m = m + 1 == params_.m ? 0 : m + 1;
    }
    ptx::cp_async_commit();
  }

  const DecodeParams& params_;
  const DecodeShare<Config>& share_;
  uint32_t a_, scale_a_, scale_b_, bias_;
};

}  // namespace tilewright::gemm_fp8::kernels
