// Adding up in the decode engine of gemm_fp8: over the warps of a block, over the blocks of a cluster, always in one order.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/gemm_fp8/decode_stream.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/lds.cuh"

namespace tilewright::gemm_fp8::kernels {

template <class Config, bool kBlock>
class DecodeSums {
 public:
  using Layout = DecodeLayout<Config>;
  using Element = typename Config::Element;

  __device__ __forceinline__ DecodeSums(const DecodeParams& params, const DecodeShare<Config>& share, uint32_t base, int rank)
      : params_(params),
        share_(share),
        base_(base + params.sums_offset),
        exchange_(base + params.exchange_offset),
        rank_(rank) {
    constexpr uintptr_t kPair = 2 * sizeof(Element);
    paired_ = params.ldo % 2 == 0 && reinterpret_cast<uintptr_t>(params.out) % kPair == 0;
  }

  // Leaves a warp's sums of its tile in slot `slot` of buffer `buffer`.
  __device__ __forceinline__ void leave(int buffer, int slot, const float (&acc)[Layout::kColumnTiles][4], int warp,
                                        int lane) const {
    const uint32_t target = place(buffer, slot, warp) + ((lane & 3) * 2 * Layout::kSumPitch + (lane >> 2)) * 4;
#pragma unroll
    for (int c = 0; c < Layout::kColumnTiles; ++c) {
      const uint32_t tile = target + c * 8 * Layout::kSumPitch * 4;
      ptx::sts_float(tile, acc[c][0]);
      ptx::sts_float(tile + Layout::kSumPitch * 4, acc[c][1]);
      ptx::sts_float(tile + 32, acc[c][2]);
      ptx::sts_float(tile + Layout::kSumPitch * 4 + 32, acc[c][3]);
    }
  }

  // Adds up and writes the `rounds` rounds from `first_round` on, which every warp has left in `buffer`.
  __device__ __forceinline__ void finish(int buffer, int first_round, int rounds) const {
    __syncthreads();
    const int pairs = rounds * Layout::kWarpsN * params_.m * 8;
    if constexpr (Config::kCluster == 1) {
      for (int i = static_cast<int>(threadIdx.x); i < pairs; i += Layout::kThreads) {
        emit(first_round, i, block_sum(buffer, i));
      }
    } else {
      const uint32_t exchange = exchange_ + buffer * Layout::kExchangeBytes;
      for (int i = static_cast<int>(threadIdx.x); i < pairs; i += Layout::kThreads) {
        ptx::sts_float2(exchange + i * 8, block_sum(buffer, i));
      }
      ptx::cluster_sync();
      for (int i = rank_ * Layout::kThreads + static_cast<int>(threadIdx.x); i < pairs;
           i += Config::kCluster * Layout::kThreads) {
        float2 sum{0.0f, 0.0f};
#pragma unroll
        for (int rank = 0; rank < Config::kCluster; ++rank) {
          const float2 part = ptx::load_cluster_float2(ptx::map_to_block(exchange + i * 8, rank));
          sum.x += part.x;
          sum.y += part.y;
        }
        emit(first_round, i, sum);
      }
    }
  }

 private:
  __device__ __forceinline__ uint32_t place(int buffer, int slot, int warp) const {
    return base_ + buffer * Layout::kBufferBytes + (slot * Config::kWarps + warp) * Layout::kSumBytes;
  }

  // Pair `i` of the buffer: columns 2 (i % 8), + 1 of the tile, row i / 8 % m of A, tile i / 8 / m.
  __device__ __forceinline__ float2 block_sum(int buffer, int i) const {
    const int tile = (i >> 3) / params_.m;
    const int m = (i >> 3) - tile * params_.m;
    uint32_t part = place(buffer, tile / Layout::kWarpsN, tile % Layout::kWarpsN * Config::kWarpsK) +
                    (m * Layout::kSumPitch + (i & 7) * 2) * 4;
    float2 sum{0.0f, 0.0f};
#pragma unroll
    for (int warp = 0; warp < Config::kWarpsK; ++warp, part += Layout::kSumBytes) {
      const float2 value = ptx::lds_float2(part);
      sum.x += value.x;
      sum.y += value.y;
    }
    return sum;
  }

  __device__ __forceinline__ float finished(float sum, int m, int n) const {
    if constexpr (!kBlock) {
      sum = sum * params_.scale_a[m * params_.scale_a_m] * params_.scale_b[n * params_.scale_b_n];
    }
    return sum + epilogue::bias_at<Element>(params_.bias, n, params_.n);
  }

  __device__ __forceinline__ void emit(int first_round, int i, float2 sum) const {
    using Traits = ElementTraits<Element>;
    const int tile = (i >> 3) / params_.m;
    const int m = (i >> 3) - tile * params_.m;
    const int n = share_.first_row + (first_round * Layout::kWarpsN + tile) * 16 + (i & 7) * 2;
    if (n >= share_.end_row) return;
    Element* target = static_cast<Element*>(params_.out) + m * params_.ldo + n;
    const Element low = Traits::from_float(finished(sum.x, m, n));
    if (n + 1 >= share_.end_row) {
      target[0] = low;
      return;
    }
    struct alignas(2 * sizeof(Element)) Pair {
      Element low, high;
    };
    const Element high = Traits::from_float(finished(sum.y, m, n + 1));
    if (paired_) {
      *reinterpret_cast<Pair*>(target) = Pair{low, high};
    } else {
      target[0] = low;
      target[1] = high;
    }
  }

  const DecodeParams& params_;
  const DecodeShare<Config>& share_;
  uint32_t base_, exchange_;
  int rank_;
  bool paired_;
};

}  // namespace tilewright::gemm_fp8::kernels
