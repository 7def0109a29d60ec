// The multiplying side of the decode engine's Hopper kernel.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_fp8/decode_bulk_stream.cuh"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/movmatrix.cuh"
#include "tilewright/ptx/tma_store.cuh"
#include "tilewright/ptx/warpgroup.cuh"
#include "tilewright/ptx/wgmma.cuh"
#include "tilewright/ptx/wgmma_fp8.cuh"

namespace tilewright::gemm_fp8::kernels {

// One of the threads that multiply. It holds weight rows g and g + 8 of its warp's 16, and of every eight rows of A
// two. Sums of the tensor core, whose precision is not that of fp32, are added up every 128 of k, under the scales of
// Scaling::kBlock.
template <class Config, bool kBlock, bool kE5m2>
class DecodeBulkConsumer {
 public:
  using Layout = DecodeBulkLayout<Config>;
  using Element = typename Config::Element;
  using Multiply = ptx::WgmmaFp8<false, kE5m2, Config::kMb>;
  static constexpr int kSums = Config::kMb / 2;

  __device__ __forceinline__ DecodeBulkConsumer(const DecodeBulkParams& params, const DecodeBulkShare<Config>& share,
                                                const DecodeBulkShared<Config>& shared)
      : params_(params), share_(share), shared_(shared) {
    warp_ = uniform(static_cast<int>(threadIdx.x) / 32);
    lane_ = static_cast<int>(threadIdx.x) % 32;
    row_ = warp_ * 16 + (lane_ >> 2);
  }

  // Rows of the stages that no copy fills become zeros: their products are left out, but they are multiplied. Boxes
  // that hang over the end of A would do it too, but cost more than the rows they bring. The block meets afterwards.
  __device__ __forceinline__ void clear_unused_rows() const {
    for (int slot = 0; slot < Config::kDepth; ++slot) {
      clear(shared_.weights(slot) + params_.tile_rows * 128, Layout::kRows - params_.tile_rows);
      clear(shared_.a(slot) + params_.m * 128, Config::kMb - params_.m);
    }
    ptx::fence_async_shared();
  }

  __device__ __forceinline__ void run() {
    if constexpr (kBlock) fetch_block_scales();
    for (int index = 0; index < share_.tiles; ++index) {
      const Factors factors(*this, share_.tile(index));
      float sums[kSums] = {};
      multiply(sums, index);
      if (Config::kCluster == 1 || add_up(sums)) store(sums, factors, share_.tile(index));
    }
  }

 private:
  static constexpr int kThreads = 32 * Config::kWarps;

  static __device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

  static __device__ __forceinline__ void clear(uint32_t first, int rows) {
    for (int i = static_cast<int>(threadIdx.x); i < rows * 8; i += kThreads) {
      ptx::sts_float4(first + i * 16, 0.0f, 0.0f, 0.0f, 0.0f);
    }
  }

  __device__ __forceinline__ int column(int i) const { return i / 4 * 8 + (lane_ & 3) * 2 + i % 2; }
  __device__ __forceinline__ int weight_row(int tile, int half) const {
    return tile * params_.tile_rows + row_ + 8 * half;
  }

  // What the thread's sums of a tile are multiplied by and added to: fetched before they are made.
  struct Factors {
    float a[kBlock ? 1 : kSums / 2], b[2], bias[2];

    __device__ __forceinline__ Factors(const DecodeBulkConsumer& consumer, int tile) {
      const DecodeBulkParams& params = consumer.params_;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = consumer.weight_row(tile, half);
        b[half] = kBlock ? 1.0f : __ldg(params.scale_b + min(row, params.n - 1) * params.scale_steps.b_n);
        bias[half] = epilogue::bias_at<Element>(params.bias, row, params.n);
      }
      a[0] = 1.0f;
      if constexpr (!kBlock) {
#pragma unroll
        for (int i = 0; i < kSums / 2; ++i) {
          const int m = consumer.column(i / 2 * 4 + i % 2);
          a[i] = params.scale_a[min(m, params.m - 1) * params.scale_steps.a_m];
        }
      }
    }

    __device__ __forceinline__ float finished(float sum, int i) const {
      return fmaf(sum * a[kBlock ? 0 : i / 4 * 2 + i % 2], b[i / 2 % 2], bias[i / 2 % 2]);
    }
  };

  // Scales of A: of each unit of the block kMb; then of its tiles, and each of two blocks of rows that a tile may
  // touch, one for each unit.
  __device__ __forceinline__ uint32_t scale_b_place(int index, int touched, int unit) const {
    return shared_.scales() + ((Config::kMb + index * 2 + touched) * share_.units + unit) * 4;
  }

  __device__ __forceinline__ void fetch_block_scales() const {
    const int thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < share_.units * Config::kMb; i += kThreads) {
      const int m = i % Config::kMb, unit = i / Config::kMb;
      const float* source = params_.scale_a + min(m, params_.m - 1) * params_.scale_steps.a_m +
                            (share_.first_unit + unit) * params_.scale_steps.a_k;
      ptx::cp_async_4(shared_.scales() + i * 4, source, m < params_.m ? 4 : 0);
    }
    for (int i = thread; i < share_.tiles * 2 * share_.units; i += kThreads) {
      const int pair = i / share_.units, unit = i - pair * share_.units;
      const int first = share_.tile(pair >> 1) * params_.tile_rows;
      const int block = min(first / 128 + (pair & 1), (params_.n - 1) / 128);
      const float* source =
          params_.scale_b + block * params_.scale_steps.b_n + (share_.first_unit + unit) * params_.scale_steps.b_k;
      ptx::cp_async_4(scale_b_place(pair >> 1, pair & 1, unit), source, 4);
    }
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    ptx::named_barrier_sync(1, kThreads);
  }

  // The slot of the next stage, once it is full.
  __device__ __forceinline__ int open() {
    ptx::mbarrier_wait(shared_.full(slot_), parity_);
    const int slot = slot_;
    if (++slot_ == Config::kDepth) {
      slot_ = 0;
      parity_ ^= 1;
    }
    return slot;
  }

  __device__ __forceinline__ void give_back(int slot) const {
    if (lane_ == 0) ptx::mbarrier_arrive(shared_.empty(slot));
  }

  // Starts the products of a stage.
  __device__ __forceinline__ void start(float (&part)[kSums], int slot) const {
    const uint64_t x = ptx::wgmma_descriptor_k_major_128b(shared_.weights(slot) + warp_ / 4 * 64 * 128);
    const uint64_t y = ptx::wgmma_descriptor_k_major_128b(shared_.a(slot));
#pragma unroll
    for (int k = 0; k < 4; ++k) Multiply::run(part, x + 2 * k, y + 2 * k, k == 0 ? 0 : 1);
    ptx::wgmma_commit();
  }

  __device__ __forceinline__ void multiply(float (&sums)[kSums], int index) {
    constexpr int kRegisters = 65536 / (Layout::kThreads * Config::kOccupancy);  // that a thread may have
    constexpr int kAtOnce = 3 * kSums + 64 <= (kRegisters < 255 ? kRegisters : 255) ? 2 : 1;
    int step = 0;
    if (share_.units % kAtOnce != 0) {
      add_stages<1>(sums, index, 0);
      step = 1;
    }
    for (; step < share_.units; step += kAtOnce) add_stages<kAtOnce>(sums, index, step);
    ptx::wgmma_pin(sums);
  }

  // Adds the next `kCount` stages of tile `index`, from step `step` on.
  template <int kCount>
  __device__ __forceinline__ void add_stages(float (&sums)[kSums], int index, int step) {
    float part[kCount][kSums];
    int slots[kCount];
#pragma unroll
    for (int& slot : slots) slot = open();
    ptx::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kCount; ++i) start(part[i], slots[i]);
    add_part<kCount, 0>(sums, part, slots, index, step);
    if constexpr (kCount == 2) add_part<kCount, 1>(sums, part, slots, index, step);
  }

  template <int kCount, int kIndex>
  __device__ __forceinline__ void add_part(float (&sums)[kSums], float (&part)[kCount][kSums],
                                           const int (&slots)[kCount], int index, int step) const {
    ptx::wgmma_wait<kCount - 1 - kIndex>();
    ptx::wgmma_pin(part[kIndex]);
    give_back(slots[kIndex]);
    if constexpr (kBlock) {
      const int unit = step + kIndex;
      const int tile = share_.tile(index), first = tile * params_.tile_rows / 128;
      float scale_b[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        scale_b[half] = ptx::lds_float(scale_b_place(index, min(1, weight_row(tile, half) / 128 - first), unit));
      }
#pragma unroll
      for (int i = 0; i < kSums; i += 4) {
        const float2 scale_a = ptx::lds_float2(shared_.scales() + (unit * Config::kMb + column(i)) * 4);
        sums[i] = fmaf(part[kIndex][i], scale_a.x * scale_b[0], sums[i]);
        sums[i + 1] = fmaf(part[kIndex][i + 1], scale_a.y * scale_b[0], sums[i + 1]);
        sums[i + 2] = fmaf(part[kIndex][i + 2], scale_a.x * scale_b[1], sums[i + 2]);
        sums[i + 3] = fmaf(part[kIndex][i + 3], scale_a.y * scale_b[1], sums[i + 3]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] += part[kIndex][i];
    }
  }

  // Gives the sums of each warp to the block of the cluster that finishes its rows, and there adds them up in the order
  // of k. Whether that is this block.
  __device__ __forceinline__ bool add_up(float (&sums)[kSums]) const {
    constexpr int kQuads = kSums / 4;
    ptx::cluster_wait();
    const int owner = warp_ / Layout::kShareWarps;
    const int thread = warp_ % Layout::kShareWarps * 32 + lane_;
    const auto place = [&](int peer, int quad) {
      return shared_.exchange() + ((peer * kQuads + quad) * Layout::kShareWarps * 32 + thread) * 16;
    };
    if (owner != share_.rank) {
      const int peer = share_.rank < owner ? share_.rank : share_.rank - 1;
      const uint32_t barrier = ptx::map_to_block(shared_.sums(), static_cast<uint32_t>(owner));
#pragma unroll
      for (int q = 0; q < kQuads; ++q) {
        const uint32_t target = ptx::map_to_block(place(peer, q), static_cast<uint32_t>(owner));
        ptx::store_async_float4(target, barrier, {sums[4 * q], sums[4 * q + 1], sums[4 * q + 2], sums[4 * q + 3]});
      }
      return false;
    }
    ptx::mbarrier_wait(shared_.sums(), 0);
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      float total[4] = {};
      for (int rank = 0; rank < Config::kCluster; ++rank) {
        float4 value{sums[4 * q], sums[4 * q + 1], sums[4 * q + 2], sums[4 * q + 3]};
        if (rank != share_.rank) {
          const uint4 bits = ptx::lds_128(place(rank < share_.rank ? rank : rank - 1, q));
          value = {__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z), __uint_as_float(bits.w)};
        }
        total[0] += value.x;
        total[1] += value.y;
        total[2] += value.z;
        total[3] += value.w;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[4 * q + i] = total[i];
    }
    return true;
  }

  __device__ __forceinline__ void store(const float (&sums)[kSums], const Factors& factors, int tile) const {
    if constexpr (sizeof(Element) == 2) {
#pragma unroll
      for (int i = 0; i < kSums; i += 4) {
        const auto pair = [&](int j) {
          return ElementTraits<Element>::pack(factors.finished(sums[j], j), factors.finished(sums[j + 1], j + 1));
        };
        if (2 * i < params_.m) store_turned(2 * i, tile, pair(i), pair(i + 2));
      }
    } else {
      store_single(sums, factors, tile);
    }
  }

  __device__ __forceinline__ void store_single(const float (&sums)[kSums], const Factors& factors, int tile) const {
    Element* out = static_cast<Element*>(params_.out);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int half = i / 2 % 2, m = column(i), row = weight_row(tile, half);
      if (m < params_.m && row < params_.n && row_ + 8 * half < params_.tile_rows) {
        out[m * params_.ldo + row] = ElementTraits<Element>::from_float(factors.finished(sums[i], i));
      }
    }
  }

  // Of rows `m` up to m + 7 of A: four neighbouring results a lane, so that a warp writes whole sectors.
  __device__ __forceinline__ void store_turned(int m, int tile, uint32_t first, uint32_t second) const {
    first = ptx::transpose_8x8(first);
    second = ptx::transpose_8x8(second);
    const bool odd = lane_ & 1;
    const uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
    const uint2 four = odd ? uint2{other, second} : uint2{first, other};
    const int row = warp_ * 16 + (odd ? 8 : 0) + 2 * (lane_ & 2), at = m + (lane_ >> 2);
    const int n = tile * params_.tile_rows + row;
    if (at >= params_.m || row >= params_.tile_rows || n >= params_.n) return;
    auto* target = static_cast<uint16_t*>(params_.out) + at * params_.ldo + n;
    if (params_.wide && n + 4 <= params_.n) {
      *reinterpret_cast<uint2*>(target) = four;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (n + i < params_.n) target[i] = static_cast<uint16_t>((i < 2 ? four.x : four.y) >> 16 * (i & 1));
    }
  }

  const DecodeBulkParams& params_;
  const DecodeBulkShare<Config>& share_;
  const DecodeBulkShared<Config>& shared_;
  int warp_, lane_, row_;
  int slot_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace tilewright::gemm_fp8::kernels
