// Output of the wgmma engine: accumulators hold out^T; they are turned through shared memory and leave as full rows.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_4bit/wgmma_plan.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/lds.cuh"
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

  // Sums the partial tiles of the cluster in the order of their parts of k and stores this block's share of rows.
  // `exchange` is where every block laid out its accumulators: float4 [kBlocks][consumer threads].
  __device__ __forceinline__ void store_share(uint32_t exchange, WgmmaPlace<Config> place) const {
    const int begin = kBlocks * place.split / Config::kSplitK;
    const int end = kBlocks * (place.split + 1) / Config::kSplitK;
    uint32_t part[Config::kSplitK];
#pragma unroll
    for (int split = 0; split < Config::kSplitK; ++split) {
      part[split] = ptx::map_to_block(exchange, static_cast<uint32_t>(split * Config::kClusterN + place.peer));
    }
    for (int first = begin; first < end; first += kBufferBlocks) {
      if (first_m_ + first * 8 >= params_.m) break;
      const int count = min(kBufferBlocks, end - first);
      for (int block = 0; block < count; block += kBatch) {
        float sum[kBatch][4];
        sum_parts(part, first + block, end - 1, sum);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          if (block + i < count) put_block(block + i, sum[i]);
        }
      }
      drain(first, count);
    }
  }

  static __device__ __forceinline__ uint32_t exchange_offset(int block) {
    return static_cast<uint32_t>((block * (Geometry::kConsumers * 128) + consumer_thread()) * 16);
  }

 private:
  static __device__ __forceinline__ int consumer_thread() { return static_cast<int>(threadIdx.x) - 128; }
  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) & 127; }

  // Blocks whose parts are on their way from the cluster at the same time: 8 loads of 16 bytes.
  static constexpr int kBatch = Config::kSplitK <= 8 ? 8 / Config::kSplitK : 1;

  // Sums `block` and the kBatch - 1 that follow it; past `last` it sums `last` again.
  static __device__ __forceinline__ void sum_parts(const uint32_t (&part)[Config::kSplitK], int block, int last,
                                                   float (&sum)[kBatch][4]) {
    float4 value[kBatch][Config::kSplitK];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const uint32_t offset = exchange_offset(min(block + i, last));
#pragma unroll
      for (int split = 0; split < Config::kSplitK; ++split) {
        value[i][split] = ptx::load_cluster_float4(part[split] + offset);
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.0f;
#pragma unroll
      for (int split = 0; split < Config::kSplitK; ++split) {
        sum[i][0] += value[i][split].x;
        sum[i][1] += value[i][split].y;
        sum[i][2] += value[i][split].z;
        sum[i][3] += value[i][split].w;
      }
    }
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
