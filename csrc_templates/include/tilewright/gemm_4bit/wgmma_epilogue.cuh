// Output of the wgmma engine: accumulators hold out^T; they are turned through shared memory and leave as full rows.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_4bit/wgmma_plan.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/warpgroup.cuh"

namespace tilewright::kernels {

// One consumer warpgroup's 64 weight rows of one output tile.
template <class Config>
class WgmmaEpilogue {
 public:
  using Element = typename Config::Element;
  using Geometry = WgmmaGeometry<Config>;
  static constexpr int kBlocks = Config::kMt / 8;                // accumulators come in blocks of 8 columns (rows of out)
  static constexpr int kBufferBlocks = Geometry::kOutputRows / 8;

  // `first_n` is the first of the 64 weight rows, `first_m` the first row of the output tile.
  __device__ __forceinline__ WgmmaEpilogue(const WgmmaParams& params, const WgmmaShared<Config>& shared, int consumer,
                                           int first_m, int first_n, float factor)
      : params_(params),
        buffer_(shared.output(consumer)),
        barrier_(1 + consumer),
        first_m_(first_m),
        first_n_(first_n),
        factor_(factor) {
    const int row = first_n + (thread() >> 5) * 16 + (thread() >> 2 & 7);
    bias_[0] = epilogue::bias_at<Element>(params.bias, row, params.n);
    bias_[1] = epilogue::bias_at<Element>(params.bias, row + 8, params.n);
  }

  __device__ __forceinline__ void store(const float (&acc)[Config::kMt / 2]) const {
#pragma unroll
    for (int first = 0; first < kBlocks; first += kBufferBlocks) {
      if (first_m_ + first * 8 >= params_.m) break;
#pragma unroll
      for (int block = 0; block < kBufferBlocks; ++block) put_block(block, &acc[4 * (first + block)]);
      drain(first, kBufferBlocks);
    }
  }

  // Sends every block of the cluster the accumulators of its share of rows, to where its WgmmaExchange says; the bytes
  // count at their `received` barriers. All blocks have passed the last turn but one. Call once, then store_share.
  __device__ __forceinline__ void send_shares(const WgmmaExchange<Config>& exchange, const WgmmaShared<Config>& shared,
                                              WgmmaPlace<Config> place, const float (&acc)[Config::kMt / 2]) const {
    if (consumer_thread() == 0) {
      ptx::mbarrier_arrive_expect(shared.received(), (Config::kSplitK - 1) * share_size(place.split) * kBlockBytes);
    }
#pragma unroll
    for (int owner = 0; owner < Config::kSplitK; ++owner) {
      if (owner == place.split) continue;
      const auto rank = static_cast<uint32_t>(owner * Config::kClusterN + place.peer);
      const uint32_t barrier = ptx::map_to_block(shared.received(), rank);
      const uint32_t window = ptx::map_to_block(shared.a_stage(0), rank);
      uint32_t offset = exchange.first(owner) + part_offset(place.split, owner);
#pragma unroll
      for (int i = 0; i < share_size(owner); ++i, offset += kBlockBytes) {
        const float* four = &acc[4 * (first_block(owner) + i)];
        ptx::store_async_float4(window + exchange.wrap(offset), barrier, {four[0], four[1], four[2], four[3]});
      }
    }
  }

  // Sums the parts of this block's share of rows, its own among them, in the order of k, and stores them.
  template <int kOwner = 0>
  __device__ __forceinline__ void store_share(const WgmmaExchange<Config>& exchange, const WgmmaShared<Config>& shared,
                                              WgmmaPlace<Config> place, const float (&acc)[Config::kMt / 2]) const {
    if constexpr (kOwner + 1 < Config::kSplitK) {
      if (place.split != kOwner) return store_share<kOwner + 1>(exchange, shared, place, acc);
    }
    ptx::mbarrier_wait(shared.received(), 0);
    constexpr int kBegin = first_block(kOwner);
    constexpr int kCount = share_size(kOwner);
#pragma unroll
    for (int first = 0; first < kCount; first += kBufferBlocks) {
      if (first_m_ + (kBegin + first) * 8 >= params_.m) break;
      const int count = kCount - first < kBufferBlocks ? kCount - first : kBufferBlocks;
#pragma unroll
      for (int block = 0; block < count; ++block) {
        float sum[4] = {};
#pragma unroll
        for (int split = 0; split < Config::kSplitK; ++split) {
          const float* own = &acc[4 * (kBegin + first + block)];
          float4 part{own[0], own[1], own[2], own[3]};
          if (split != kOwner) {
            const uint32_t offset = exchange.first(kOwner) + part_offset(split, kOwner) + (first + block) * kBlockBytes;
            const uint4 sent = ptx::lds_128(shared.a_stage(0) + exchange.wrap(offset));
            part = {__uint_as_float(sent.x), __uint_as_float(sent.y), __uint_as_float(sent.z), __uint_as_float(sent.w)};
          }
          sum[0] += part.x;
          sum[1] += part.y;
          sum[2] += part.z;
          sum[3] += part.w;
        }
        put_block(block, sum);
      }
      drain(kBegin + first, count);
    }
  }

 private:
  static constexpr int kBlockBytes = Geometry::kConsumers * 128 * 16;  // 8 rows of the tile

  static __device__ __forceinline__ int consumer_thread() { return static_cast<int>(threadIdx.x) - 128; }
  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) & 127; }

  // The blocks of 8 rows whose sums are part `split`'s to store: from the first of it to that of the next.
  static __device__ __forceinline__ constexpr int first_block(int split) { return kBlocks * split / Config::kSplitK; }
  static __device__ __forceinline__ constexpr int share_size(int split) {
    return first_block(split + 1) - first_block(split);
  }

  // Where in an exchange `owner` finds what part `split` sent for this thread: float4 [other parts][block][consumer thread].
  static __device__ __forceinline__ uint32_t part_offset(int split, int owner) {
    const int others = split < owner ? split : split - 1;
    return static_cast<uint32_t>(others * Geometry::kShareBlocks * kBlockBytes + consumer_thread() * 16);
  }

  // Writes 8 output rows of 64 elements (16 by this warp) to the buffer, chunks of 16 bytes swizzled by row.
  __device__ __forceinline__ void put_block(int block, const float* acc) const {
    const uint32_t upper = ElementTraits<Element>::pack(acc[0] * factor_ + bias_[0], acc[1] * factor_ + bias_[0]);
    const uint32_t lower = ElementTraits<Element>::pack(acc[2] * factor_ + bias_[1], acc[3] * factor_ + bias_[1]);
    const int row = thread() & 7;
    const int chunk = 2 * (thread() >> 5) + (thread() >> 3 & 1);
    ptx::stmatrix_x2_trans(buffer_ + (block * 8 + row) * 128 + ((chunk ^ row) << 4), upper, lower);
  }

  __device__ __forceinline__ void drain(int first_block, int blocks) const {
    ptx::named_barrier_sync(barrier_, 128);
    const bool whole = params_.n % 8 == 0 && reinterpret_cast<uintptr_t>(params_.out) % 16 == 0;
    for (int item = thread(); item < blocks * 64; item += 128) {
      const int row = item >> 3;
      const int chunk = item & 7;
      const int m = first_m_ + first_block * 8 + row;
      const int n = first_n_ + chunk * 8;
      if (m >= params_.m || n >= params_.n) continue;
      const uint4 eight = ptx::lds_128(buffer_ + row * 128 + ((chunk ^ (row & 7)) << 4));
      Element* target = static_cast<Element*>(params_.out) + int64_t{m} * params_.n + n;
      if (whole) {
        *reinterpret_cast<uint4*>(target) = eight;
      } else {
        store_some(target, eight, min(8, params_.n - n));
      }
    }
    ptx::named_barrier_sync(barrier_, 128);
  }

  static __device__ __forceinline__ void store_some(Element* target, uint4 eight, int count) {
    const uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const auto bits = static_cast<unsigned short>(words[i / 2] >> (16 * (i % 2)));
      if (i < count) reinterpret_cast<unsigned short*>(target)[i] = bits;
    }
  }

  const WgmmaParams& params_;
  uint32_t buffer_;
  int barrier_, first_m_, first_n_;
  float factor_;
  float bias_[2];
};

}  // namespace tilewright::kernels
