// The operands of a decode warp of gemm_fp8 as they stream through its rings.
//
// A product does not depend on the order of k as long as both operands agree on it. Of each 64 bytes of a row, lane t of a
// quad owns 16 t .. 16 t + 15: one load of weights and one of A from shared memory for 64 of k.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/stream.cuh"

namespace tilewright::gemm_fp8::kernels {

// What a block, and in it a warp, has to do.
template <class Config>
struct DecodeShare {
  int first_row, end_row;  // of the weight
  int warp_k, warp_n;
  int first_unit, units;  // of k: the warp's

  __device__ __forceinline__ DecodeShare(const DecodeParams& params, int warp) {
    const int block = static_cast<int>(blockIdx.x);
    const int blocks = static_cast<int>(gridDim.x);
    first_row = static_cast<int>(int64_t{params.n} * block / blocks);
    end_row = static_cast<int>(int64_t{params.n} * (block + 1) / blocks);
    warp_k = warp % Config::kWarpsK;
    warp_n = warp / Config::kWarpsK;
    first_unit = params.units * warp_k / Config::kWarpsK;
    units = params.units * (warp_k + 1) / Config::kWarpsK - first_unit;
  }
};

// The steps of a pass in order: kTiles tiles of 16 rows of one unit of k, then the next unit. The weights of a step are one
// group of copies, and A's part of a unit goes with those of its first tile. Of weights a lane copies and reads its own bytes
// only; A is the warp's. Steps are named by the unit that the warp is at and a number from its first tile on.
template <class Config, bool kBlock>
class DecodeStream {
 public:
  using Layout = DecodeLayout<Config>;
  static constexpr int kTileRows = 16 * Layout::kWarpsN;  // from a tile of the warp to its next

  // `row`: this lane's first weight row in the first tile of the pass.
  __device__ __forceinline__ DecodeStream(const DecodeParams& params, const DecodeShare<Config>& share, uint32_t base,
                                          int warp, int lane, int row)
      : params_(params), lane_(lane), units_left_(share.units), unit_(share.first_unit) {
    weights_ = base + warp * Layout::kWarpRingBytes;
    a_ = weights_ + Layout::kWeightRingBytes;
    const int k = unit_ * kDecodeUnit + (lane & 3) * 16;
    upper_ = params.b + row * params.ldb + k;
    rows_left_ = share.end_row - row;
    k_left_ = params.k - k;
  }

  // Starts the copy of the weights of step `step`; past the last unit and the last row nothing is read.
  __device__ __forceinline__ void start_weights(int step) {
    const int unit = step / Config::kTiles;
    const int tile = step % Config::kTiles;
    const uint8_t* upper = upper_ + params_.ldb * (tile * kTileRows) + unit * kDecodeUnit;
    const uint8_t* lower = upper + params_.ldb * 8;
    const bool any = unit < units_left_;
    const int upper_bytes = any && rows_left_ > tile * kTileRows ? 16 : 0;
    const int lower_bytes = any && rows_left_ > tile * kTileRows + 8 ? 16 : 0;
    const bool first = k_left_ > unit * kDecodeUnit;
    const bool second = k_left_ > unit * kDecodeUnit + 64;
    const uint32_t target = weights_ + fill_ + lane_ * 16;
    ptx::cp_async_stream_16(target, upper, first ? upper_bytes : 0);
    ptx::cp_async_stream_16(target + 512, upper + 64, second ? upper_bytes : 0);
    ptx::cp_async_stream_16(target + 1024, lower, first ? lower_bytes : 0);
    ptx::cp_async_stream_16(target + 1536, lower + 64, second ? lower_bytes : 0);
    fill_ = fill_ + Layout::kStepBytes == Layout::kWeightRingBytes ? 0 : fill_ + Layout::kStepBytes;
  }

  // Starts the copy of A's part of the unit `ahead` units on. Rows and bytes that do not exist become zeros.
  __device__ __forceinline__ void start_a(int ahead) {
    const uint32_t slot = a_ + a_fill_;
    const bool any = ahead < units_left_;
    const int row = lane_ >> 3;
    const int k = (unit_ + ahead) * kDecodeUnit + (lane_ & 7) * 16;
    const uint8_t* source = params_.a + row * params_.lda + k;
    const uint32_t target = slot + (lane_ >> 2 & 1) * (Config::kMb * 64) + row * 64 + (lane_ & 3) * 16;
#pragma unroll
    for (int m = 0; m < Config::kMb; m += 4) {
      const bool present = any && row + m < params_.m && k < params_.k;
      ptx::cp_async_16(target + m * 64, source + m * params_.lda, present ? 16 : 0);
    }
    if constexpr (kBlock) {
#pragma unroll
      for (int m = 0; m < Config::kMb; m += 32) {
        const bool present = any && lane_ + m < params_.m;
        const float* scale =
            params_.scale_a + (lane_ + m) * params_.scale_a_m + int64_t{unit_ + ahead} * params_.scale_a_k;
        if (lane_ + m < Config::kMb) {
          ptx::cp_async_4(slot + Config::kMb * kDecodeUnit + (lane_ + m) * 4, scale, present ? 4 : 0);
        }
      }
    }
    a_fill_ = a_fill_ + Layout::kASlotBytes == Layout::kASlots * Layout::kASlotBytes ? 0 : a_fill_ + Layout::kASlotBytes;
  }

  // The weights of the oldest step that has not been read, once its group is done: [row g or g + 8][64 bytes of k].
  __device__ __forceinline__ void read_weights(uint4 (&weights)[2][2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[i / 2][i % 2] = ptx::lds_128(weights_ + read_ + lane_ * 16 + i * 512);
    read_ = read_ + Layout::kStepBytes == Layout::kWeightRingBytes ? 0 : read_ + Layout::kStepBytes;
  }

  // Half `half` of the current unit of rows 8 * `tile` .. + 7 of A.
  __device__ __forceinline__ uint4 read_a(int half, int tile) const {
    return ptx::lds_128(a_ + a_read_ + half * (Config::kMb * 64) + tile * 512 + lane_ * 16);
  }

  // The scale of row `row` of A in the current unit.
  __device__ __forceinline__ float read_scale_a(int row) const {
    return ptx::lds_float(a_ + a_read_ + Config::kMb * kDecodeUnit + row * 4);
  }

  __device__ __forceinline__ int unit() const { return unit_; }
  __device__ __forceinline__ bool more() const { return units_left_ > 0; }
  __device__ __forceinline__ bool has_tile(int tile) const { return rows_left_ + (lane_ >> 2) > tile * kTileRows; }

  __device__ __forceinline__ void advance() {
    upper_ += kDecodeUnit;
    k_left_ -= kDecodeUnit;
    --units_left_;
    ++unit_;
    a_read_ = a_read_ + Layout::kASlotBytes == Layout::kASlots * Layout::kASlotBytes ? 0 : a_read_ + Layout::kASlotBytes;
  }

 private:
  const DecodeParams& params_;
  int lane_;
  int units_left_, unit_;
  uint32_t weights_, a_;
  int fill_ = 0, read_ = 0, a_fill_ = 0, a_read_ = 0;
  const uint8_t* upper_;
  int rows_left_;  // from row g of the pass's first tile to the end
  int k_left_;     // from the lane's bytes on
};

}  // namespace tilewright::gemm_fp8::kernels
