// Takes accumulators from tensor memory to the output: scale, bias, one rounding, swizzled shared memory, bulk stores.
// A warpgroup per stacked tile; each warp looks after the 32 lanes, rows of the output, that it can reach.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tcgen05.cuh"
#include "tilewright/ptx/tma_store.cuh"
#include "tilewright/ptx/warpgroup.cuh"
#include "tilewright/tcgen05/pair.cuh"

namespace tilewright::tcgen05 {

constexpr int kPart = 32;  // columns that a thread handles at a time
constexpr uint32_t kFullWarp = 0xffffffffu;

template <class Config, class Plan>
class PairEpilogue {
 public:
  using Element = typename Config::Element;

  __device__ __forceinline__ PairEpilogue(const PairParams& params, const CUtensorMap* map_out,
                                          const PairShared<Plan>& shared, const PairPlace& place, uint32_t tmem)
      : params_(params),
        map_out_(map_out),
        shared_(shared),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        tier_(warp_ / 4),
        first_row_(place.half * kCtaRows + tier_ * 256 + warp_ % 4 * 32),
        tmem_(tmem + (static_cast<uint32_t>(warp_ % 4 * 32) << 16)),
        leader_(place.leader()) {}

  // One accumulator to its place in the output.
  __device__ __forceinline__ void store(PairTile tile) {
    const Target target = aim(tile);
    wait_for_sum();
    for (int turn = 0; turn < kParts; ++turn) {
      const int part = Config::kOverlap && sums_.slot == 0 ? kParts - 1 - turn : turn;  // shared columns come first
      uint32_t bits[kPart];
      load(bits, part);
      if (turn == kReleaseTurn) release_sum();
      float value[kPart];
#pragma unroll
      for (int i = 0; i < kPart; ++i) value[i] = __uint_as_float(bits[i]);
      finish(target, part, value);
    }
    sums_.advance();
  }

  // The sum of an accumulator per stage, each under its own block scales.
  __device__ __forceinline__ void store_sum(PairTile tile, int stages) {
    const Target target = aim(tile);
    float total[Config::kNt];
#pragma unroll
    for (float& value : total) value = 0.0f;
    for (int stage = 0; stage < stages; ++stage) {
      const float factor = stage_factor(target, tile, stage);
      wait_for_sum();
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        uint32_t bits[kPart];
        load(bits, part);
        if (part == kParts - 1) release_sum();
#pragma unroll
        for (int i = 0; i < kPart; ++i) {
          float& value = total[part * kPart + i];
          value = fmaf(factor, __uint_as_float(bits[i]), value);
        }
      }
      sums_.advance();
    }
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      float value[kPart];
#pragma unroll
      for (int i = 0; i < kPart; ++i) value[i] = total[part * kPart + i];
      finish(target, part, value);
    }
  }

  // Returns once shared memory is no longer read by stores under way.
  __device__ __forceinline__ void drain() const {
    if (lane_ == 0) ptx::bulk_wait_read<0>();
    __syncwarp();
  }

 private:
  static constexpr int kParts = Config::kNt / kPart;
  static constexpr int kReleaseTurn = (Config::kOverlap ? kOverlapColumns / kPart : kParts) - 1;
  static constexpr int kBoxColumns = kOutputBoxBytes / static_cast<int>(sizeof(Element));
  static constexpr int kBoxes = kPart / kBoxColumns;
  static constexpr int kBuffers = Plan::kWarpOutputBytes / Plan::kWarpBoxBytes;

  struct Target {
    int warp_row, row, row_end;  // of the output: the warp's first, this thread's own, that of its group
    int column;
    float factor;  // that every column of the row shares
    const float* scale_b;
    const Element* bias;  // or null

    __device__ __forceinline__ int safe_row() const { return min(row, row_end - 1); }
  };

  __device__ __forceinline__ Target aim(PairTile tile) const {
    const EpilogueScales& scales = params_.scales;
    const int warp_row = tile.m + first_row_;
    Target target{warp_row,
                  warp_row + lane_,
                  tile.m_end,
                  tile.n,
                  1.0f,
                  scales.b + tile.group * params_.groups.scale_b,
                  static_cast<const Element*>(params_.bias)};
    if (target.bias != nullptr) target.bias += tile.group * params_.groups.bias;
    if (!scales.block) {
      target.factor = __ldg(scales.a + target.safe_row() * scales.a_m);
      if (scales.b_n == 0) target.factor *= __ldg(target.scale_b);
    }
    return target;
  }

  __device__ __forceinline__ float stage_factor(const Target& target, PairTile tile, int stage) const {
    const EpilogueScales& scales = params_.scales;
    if (!scales.block) return 1.0f;
    const int block = min(tile.n, params_.n - 1) / 128;
    return __ldg(scales.a + target.safe_row() * scales.a_m + stage * scales.a_k) *
           __ldg(target.scale_b + block * scales.b_n + stage * scales.b_k);
  }

  __device__ __forceinline__ int sum() const { return sums_.slot * Plan::kStacked + tier_; }

  __device__ __forceinline__ void wait_for_sum() const {
    ptx::mbarrier_wait(shared_.sum_full(sum()), sums_.phase);
    ptx::tcgen05_fence_after();
  }

  __device__ __forceinline__ void load(uint32_t (&bits)[kPart], int part) const {
    ptx::tmem_load_32(bits, tmem_ + sum() * Plan::kSumStride + part * kPart);
    ptx::tmem_load_wait(bits);
  }

  // Tells the leader that this warp has read what it waits for.
  __device__ __forceinline__ void release_sum() const {
    ptx::tcgen05_fence_before();
    __syncwarp();
    const uint32_t barrier = shared_.sum_empty(Config::kOverlap ? 0 : sum());
    if (lane_ == 0) ptx::mbarrier_arrive_pair(ptx::map_to_block(barrier, leader_));
  }

  __device__ __forceinline__ void finish(const Target& target, int part, float (&value)[kPart]) {
    const int column = target.column + part * kPart;
    if (target.warp_row >= target.row_end || column >= params_.n) return;
    scale(target, column, value);
    // The copy engine leaves out rows past the tensor, but knows nothing of where a group ends.
    const bool whole = !Plan::kGroups || params_.groups.count == 0 || target.warp_row + 32 <= target.row_end;
    if (params_.bulk_store && whole) {
#pragma unroll
      for (int box = 0; box < kBoxes; ++box) store_box(target, column + box * kBoxColumns, value + box * kBoxColumns);
    } else {
      store_plainly(target, column, value);
    }
  }

  // Lane i fetches what belongs to column i, and hands it round.
  __device__ __forceinline__ void scale(const Target& target, int column, float (&value)[kPart]) const {
    const EpilogueScales& scales = params_.scales;
    const bool by_column = !scales.block && scales.b_n != 0;
    if (!by_column && target.bias == nullptr) {
#pragma unroll
      for (float& each : value) each *= target.factor;
      return;
    }
    const int own = column + lane_;
    const float factor = by_column ? __ldg(target.scale_b + int64_t{min(own, params_.n - 1)} * scales.b_n) : 1.0f;
    const float bias = epilogue::bias_at<Element>(target.bias, own, params_.n);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      value[i] = fmaf(value[i], target.factor * __shfl_sync(kFullWarp, factor, i), __shfl_sync(kFullWarp, bias, i));
    }
  }

  // 64 bytes of each of the warp's 32 rows, through the next buffer. Chunks of 16 bytes are swizzled as the copy engine
  // expects them, which also keeps the writes of 8 lanes apart.
  __device__ __forceinline__ void store_box(const Target& target, int column, const float* value) {
    if (column >= params_.n) return;
    const uint32_t buffer = shared_.output(warp_) + buffer_ * Plan::kWarpBoxBytes;
    if (lane_ == 0) ptx::bulk_wait_read<kBuffers - 1>();
    __syncwarp();
#pragma unroll
    for (int chunk = 0; chunk < kOutputBoxBytes / 16; ++chunk) {
      const int place = chunk ^ (lane_ >> 1 & 3);
      put_chunk(buffer + lane_ * kOutputBoxBytes + place * 16, value + chunk * (kBoxColumns / 4));
    }
    ptx::fence_async_shared();
    __syncwarp();
    if (lane_ == 0) {
      ptx::tma_store_2d(map_out_, buffer, column, target.warp_row);
      ptx::bulk_commit();
    }
    buffer_ = buffer_ + 1 == kBuffers ? 0 : buffer_ + 1;
  }

  static __device__ __forceinline__ void put_chunk(uint32_t address, const float* value) {
    if constexpr (sizeof(Element) == 4) {
      ptx::sts_float4(address, value[0], value[1], value[2], value[3]);
    } else {
      float word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        word[i] = __uint_as_float(ElementTraits<Element>::pack(value[2 * i], value[2 * i + 1]));
      }
      ptx::sts_float4(address, word[0], word[1], word[2], word[3]);
    }
  }

  __device__ __forceinline__ void store_plainly(const Target& target, int column, const float (&value)[kPart]) const {
    if (target.row >= target.row_end) return;
    Element* out = static_cast<Element*>(params_.out) + target.row * params_.ldo + column;
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      if (column + i < params_.n) out[i] = ElementTraits<Element>::from_float(value[i]);
    }
  }

  const PairParams& params_;
  const CUtensorMap* map_out_;
  const PairShared<Plan>& shared_;
  int warp_, lane_, tier_, first_row_;
  uint32_t tmem_, leader_;
  Ring<Config::kAccumulators> sums_;
  int buffer_ = 0;
};

}  // namespace tilewright::tcgen05
