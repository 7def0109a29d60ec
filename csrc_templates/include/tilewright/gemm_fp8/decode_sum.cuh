// Adding up over the warps of a decode block of gemm_fp8, always in one order.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_fp8/decode_operands.cuh"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/gemm_fp8/decode_stream.cuh"
#include "tilewright/ptx/lds.cuh"

namespace tilewright::gemm_fp8::kernels {

// Results are numbered in pairs: pair i is columns 2 (i % 8), + 1 of the output in tile i / 8 / m of the
// block, row i / 8 % m of A.
template <class Config, bool kBlock>
class DecodeSums {
 public:
  using Layout = DecodeLayout<Config>;
  using Element = typename Config::Element;

  __device__ __forceinline__ DecodeSums(const DecodeParams& params, const DecodeShare<Config>& share,
                                        const DecodeOperands<Config, kBlock>& operands, uint32_t base)
      : params_(params), share_(share), operands_(operands), sums_(base + Layout::kSumsOffset) {
    constexpr uintptr_t kPair = 2 * sizeof(Element);
    paired_ = (params.ldo | share.first_row) % 2 == 0 && reinterpret_cast<uintptr_t>(params.out) % kPair == 0;
  }

  // Leaves a warp's sums of its tile in slot `slot`.
  __device__ __forceinline__ void leave(int slot, const float (&acc)[Layout::kColumnTiles][4], int warp,
                                        int lane) const {
    const uint32_t target = place(slot, warp) + ((lane & 3) * 2 * Layout::kSumPitch + (lane >> 2)) * 4;
#pragma unroll
    for (int c = 0; c < Layout::kColumnTiles; ++c) {
      const uint32_t tile = target + c * 8 * Layout::kSumPitch * 4;
      ptx::sts_float(tile, acc[c][0]);
      ptx::sts_float(tile + Layout::kSumPitch * 4, acc[c][1]);
      ptx::sts_float(tile + 32, acc[c][2]);
      ptx::sts_float(tile + Layout::kSumPitch * 4 + 32, acc[c][3]);
    }
  }

  // Adds up the slots over the warps and writes the results of the `tiles` tiles of 16 rows from `first_row` on.
  __device__ __forceinline__ void add_up(int first_row, int tiles) const {
    for (int i = static_cast<int>(threadIdx.x); i < tiles * params_.m * 8; i += Layout::kThreads) {
      const int tile = (i >> 3) / params_.m;
      const int m = (i >> 3) - tile * params_.m;
      emit(m, first_row + tile * 16 + (i & 7) * 2, block_sum(tile, m, i & 7));
    }
  }

 private:
  __device__ __forceinline__ uint32_t place(int slot, int warp) const {
    return sums_ + (slot * Config::kWarps + warp) * Layout::kSumBytes;
  }

  __device__ __forceinline__ float2 block_sum(int tile, int m, int pair) const {
    uint32_t part = place(tile / Layout::kWarpsN, tile % Layout::kWarpsN * Config::kWarpsK) +
                    (m * Layout::kSumPitch + pair * 2) * 4;
    float2 sum{0.0f, 0.0f};
#pragma unroll
    for (int warp = 0; warp < Config::kWarpsK; ++warp, part += Layout::kSumBytes) {
      const float2 value = ptx::lds_float2(part);
      sum.x += value.x;
      sum.y += value.y;
    }
    return sum;
  }

  __device__ __forceinline__ void emit(int m, int n, float2 sum) const {
    using Traits = ElementTraits<Element>;
    struct alignas(2 * sizeof(Element)) Pair {
      Element low, high;
    };
    if (n >= share_.end_row) return;
    Element* target = static_cast<Element*>(params_.out) + m * params_.ldo + n;
    const Element low = Traits::from_float(operands_.finished(sum.x, m, n));
    if (n + 1 >= share_.end_row) {
      target[0] = low;
      return;
    }
    const Element high = Traits::from_float(operands_.finished(sum.y, m, n + 1));
    if (paired_) {
      *reinterpret_cast<Pair*>(target) = Pair{low, high};
    } else {
      target[0] = low;
      target[1] = high;
    }
  }

  const DecodeParams& params_;
  const DecodeShare<Config>& share_;
  const DecodeOperands<Config, kBlock>& operands_;
  uint32_t sums_;
  bool paired_;
};

}  // namespace tilewright::gemm_fp8::kernels
