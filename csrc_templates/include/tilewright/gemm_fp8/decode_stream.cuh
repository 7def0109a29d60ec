// The weights of a decode warp of gemm_fp8 as they stream through its ring.
//
// A product does not depend on the order of k as long as both operands agree on it. Of each 64 bytes of a row, lane t
// of a quad owns 16 t .. 16 t + 15: one load of weights and one of A from shared memory for 64 of k.
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
  static constexpr int kRoundRows = 16 * DecodeLayout<Config>::kWarpsN;
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

  __device__ __forceinline__ int rounds() const { return (end_row - first_row + kRoundRows - 1) / kRoundRows; }
};

// Walks over a warp's steps in order: all its units of a tile, then the next tile; a step is 128 bytes of k from 16
// rows.
// Steps pass through the warp's ring; a lane copies and reads its own bytes only, so no warp waits for another.
template <class Config>
class DecodeStream {
 public:
  using Layout = DecodeLayout<Config>;

  __device__ __forceinline__ DecodeStream(const DecodeParams& params, const DecodeShare<Config>& share, uint32_t base,
                                          int warp, int lane)
      : first_(base + warp * Layout::kWarpRingBytes + lane * 16), fill_(first_), read_(first_) {
    const int row = share.first_row + share.warp_n * 16 + (lane >> 2);
    const int k = share.first_unit * kDecodeUnit + (lane & 3) * 16;
    upper_ = params.b + row * params.ldb + k;
    row_bytes_ = params.ldb;
    rows_left_ = share.units > 0 ? share.end_row - row : 0;
    k_left_ = params.k - k;
    units_ = unit_left_ = share.units;
  }

  // Starts the copy of the next step; past the last one nothing is read.
  __device__ __forceinline__ void start() {
    const uint8_t* lower = upper_ + row_bytes_ * 8;
    const int upper_bytes = rows_left_ > 0 ? 16 : 0;
    const int lower_bytes = rows_left_ > 8 ? 16 : 0;
    const bool first = k_left_ > 0, second = k_left_ > 64;
    ptx::cp_async_stream_16(fill_, upper_, first ? upper_bytes : 0);
    ptx::cp_async_stream_16(fill_ + 512, upper_ + 64, second ? upper_bytes : 0);
    ptx::cp_async_stream_16(fill_ + 1024, lower, first ? lower_bytes : 0);
    ptx::cp_async_stream_16(fill_ + 1536, lower + 64, second ? lower_bytes : 0);
    ptx::cp_async_commit();
    fill_ = advanced(fill_);
    upper_ += kDecodeUnit;
    k_left_ -= kDecodeUnit;
    if (--unit_left_ == 0) {
      unit_left_ = units_;
      k_left_ += units_ * kDecodeUnit;
      upper_ += row_bytes_ * DecodeShare<Config>::kRoundRows - units_ * kDecodeUnit;
      rows_left_ -= DecodeShare<Config>::kRoundRows;
    }
  }

  // Waits for the oldest step under way and reads it: [row g or g + 8][64 bytes of k].
  __device__ __forceinline__ void take(uint4 (&weights)[2][2]) {
    ptx::cp_async_wait<Config::kDepth - 1>();
#pragma unroll
    for (int i = 0; i < 4; ++i) weights[i / 2][i % 2] = ptx::lds_128(read_ + i * 512);
    read_ = advanced(read_);
  }

 private:
  __device__ __forceinline__ uint32_t advanced(uint32_t place) const {
    const uint32_t next = place + Layout::kStepBytes;
    return next == first_ + Layout::kWarpRingBytes ? first_ : next;
  }

  uint32_t first_, fill_, read_;
  const uint8_t* upper_;
  int64_t row_bytes_;
  int rows_left_;  // from row g of the tile to the end
  int k_left_;     // from the lane's bytes on
  int units_, unit_left_;
};

}  // namespace tilewright::gemm_fp8::kernels
