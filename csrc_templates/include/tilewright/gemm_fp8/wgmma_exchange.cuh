// How the blocks of a cluster that share a tile of the wgmma engine of gemm_fp8, each with its part of k, bring their
// sums together: each sends the others what they store.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mbarrier.cuh"

namespace tilewright::gemm_fp8 {

template <class Config>
class WgmmaExchange {
 public:
  using Geometry = WgmmaGeometry<Config>;
  static constexpr int kXBlocks = Geometry::kXBlocks;
  using Accumulators = float[kXBlocks][Geometry::kYRows / 2];

  // The first block of 8 of what `split` stores: of rows (swapped), else all of the columns.
  static __device__ __forceinline__ constexpr int share_begin(int split) {
    return Config::kSwap ? kBlocks * split / Config::kSplitK : 0;
  }
  static __device__ __forceinline__ constexpr int share_end(int split) {
    return Config::kSwap ? share_begin(split + 1) : kBlocks;
  }

  // Whether warpgroup `member` of block `split` has rows to store.
  static __device__ __forceinline__ bool stores(int split, int member) { return Config::kSwap || split == member; }

  // Before anything is sent: how many bytes this block will receive. One thread.
  static __device__ __forceinline__ void expect(const WgmmaShared<Config>& shared, WgmmaPlace<Config> place) {
    const int blocks = share_end(place.split) - share_begin(place.split);
    const int bytes = (Config::kSplitK - 1) * blocks * kXBlocks * Geometry::kShareGroups * 128 * 16;
    ptx::mbarrier_arrive_expect(shared.received(), static_cast<uint32_t>(bytes));
  }

  // Sends the other blocks of the cluster the sums of warpgroup `member` of this block in what they store.
  static __device__ __forceinline__ void send(const Accumulators& acc, const WgmmaShared<Config>& shared,
                                              WgmmaPlace<Config> place, int member) {
#pragma unroll
    for (int to = 0; to < Config::kSplitK; ++to) {
      if (to == place.split || !stores(to, member)) continue;
      const auto rank = static_cast<uint32_t>(to * Geometry::kPeers + place.peer());
      const uint32_t exchange = ptx::map_to_block(shared.exchange(), rank);
      const uint32_t received = ptx::map_to_block(shared.received(), rank);
#pragma unroll
      for (int x = 0; x < kXBlocks; ++x) {
#pragma unroll
        for (int block = share_begin(to); block < share_end(to); ++block) {
          const float* four = &acc[x][4 * block];
          ptx::store_async_float4(exchange + exchange_offset(place.split, to, x, block), received,
                                  make_float4(four[0], four[1], four[2], four[3]));
        }
      }
    }
  }

  // acc = the sums of all parts, once received, of a warpgroup that stores all of its rows.
  static __device__ __forceinline__ void receive(Accumulators& acc, const WgmmaShared<Config>& shared,
                                                 WgmmaPlace<Config> place) {
    ptx::mbarrier_wait(shared.received(), 0);
#pragma unroll
    for (int split = 0; split < Config::kSplitK; ++split) {
      if (split != place.split) continue;
#pragma unroll
      for (int x = 0; x < kXBlocks; ++x) {
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
          float sum[4];
          sum_parts(&acc[x][4 * block], shared.exchange(), split, x, block, sum);
#pragma unroll
          for (int i = 0; i < 4; ++i) acc[x][4 * block + i] = sum[i];
        }
      }
    }
  }

  // This thread's four sums of `block`: `own` of this block, which is part `split`, with those received.
  static __device__ __forceinline__ void sum_parts(const float* own, uint32_t exchange, int split, int x, int block,
                                                   float (&sum)[4]) {
    sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
#pragma unroll
    for (int from = 0; from < Config::kSplitK; ++from) {
      float4 part = make_float4(own[0], own[1], own[2], own[3]);
      if (from != split) part = part_from(exchange + exchange_offset(from, split, x, block));
      sum[0] += part.x;
      sum[1] += part.y;
      sum[2] += part.z;
      sum[3] += part.w;
    }
  }

 private:
  static constexpr int kBlocks = Geometry::kYRows / 8;  // accumulators come in blocks of 8 rows of out

  // Where in the exchange of block `to` this thread's sums from block `from` lie: float4
  // [other blocks in order][share][threads that have sums of it].
  static __device__ __forceinline__ uint32_t exchange_offset(int from, int to, int x, int block) {
    const int other = from < to ? from : from - 1;
    const int at = (other * kXBlocks + x) * Geometry::kShareBlocks + block - share_begin(to);
    const int thread = static_cast<int>(threadIdx.x);
    return static_cast<uint32_t>((at * (Geometry::kShareGroups * 128) + (Config::kSwap ? thread - 128 : thread & 127)) *
                                 16);
  }

  static __device__ __forceinline__ float4 part_from(uint32_t address) {
    const uint4 bits = ptx::lds_128(address);
    return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                       __uint_as_float(bits.w));
  }
};

}  // namespace tilewright::gemm_fp8
