// The weights of a decode warp of gemm_fp8 as they stream through its ring, and A in shared memory.
//
// A product does not depend on the order of k as long as both operands agree on it. Of each 64 bytes of a row, lane t of a
// quad owns 16 t .. 16 t + 15: one load of weights, one of A, two multiplications.
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
  using Layout = DecodeLayout<Config>;
  int first_row, end_row;    // of the weight
  int first_unit, units;     // of k: the block's
  int warp_unit, warp_units; // the warp's, counted from the block's first
  int warp_k, warp_n;

  __device__ __forceinline__ DecodeShare(const DecodeParams& params, int cluster, int rank, int warp) {
    const int64_t lots = (params.n + kDecodeRowLot - 1) / kDecodeRowLot;
    first_row = static_cast<int>(lots * cluster / params.clusters) * kDecodeRowLot;
    end_row = min(params.n, static_cast<int>(lots * (cluster + 1) / params.clusters) * kDecodeRowLot);
    first_unit = params.units * rank / Config::kCluster;
    units = params.units * (rank + 1) / Config::kCluster - first_unit;
    warp_k = warp % Config::kWarpsK;
    warp_n = warp / Config::kWarpsK;
    warp_unit = units * warp_k / Config::kWarpsK;
    warp_units = units * (warp_k + 1) / Config::kWarpsK - warp_unit;
  }

  // Rounds of kWarpsN tiles of 16 rows.
  __device__ __forceinline__ int rounds() const {
    constexpr int kRows = 16 * Layout::kWarpsN;
    return (end_row - first_row + kRows - 1) / kRows;
  }
};

// Walks over a warp's steps in order: all its units of a tile, then the next tile; a step is 128 bytes of k from 16 rows.
// Steps pass through the warp's ring; a lane copies and reads its own bytes only, so no warp waits for another.
template <class Config>
class DecodeStream {
 public:
  using Layout = DecodeLayout<Config>;

  __device__ __forceinline__ DecodeStream(const DecodeParams& params, const DecodeShare<Config>& share, uint32_t base,
                                          int warp, int lane)
      : first_(base + warp * Layout::kWarpRingBytes + lane * 16), fill_(first_), read_(first_) {
    const int row = share.first_row + share.warp_n * 16 + (lane >> 2);
    const int k = (share.first_unit + share.warp_unit) * kDecodeUnit + (lane & 3) * 16;
    upper_ = params.b + row * params.ldb + k;
    row_bytes_ = static_cast<int>(params.ldb);
    rows_left_ = share.warp_units > 0 ? share.end_row - row : 0;
    k_left_ = params.k - k;
    units_ = unit_left_ = share.warp_units;
  }

  // Starts the copy of the next step; past the last one nothing is read.
  __device__ __forceinline__ void start() {
    const uint8_t* lower = upper_ + int64_t{row_bytes_} * 8;
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
      upper_ += int64_t{row_bytes_} * (16 * Layout::kWarpsN) - units_ * kDecodeUnit;
      rows_left_ -= 16 * Layout::kWarpsN;
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
  int row_bytes_;
  int rows_left_;  // from row g of the tile to the end
  int k_left_;     // from the lane's bytes on
  int units_, unit_left_;
};

// The block's part of A in shared memory: unit after unit; of a unit, two halves of 64 bytes; of a half, the rows of A.
// Scales of Scaling::kBlock: of A, of each unit the rows; of the weights, of each 128 rows from the block's first on the units.
template <class Config>
class DecodeActivations {
 public:
  using Layout = DecodeLayout<Config>;

  __device__ __forceinline__ DecodeActivations(const DecodeParams& params, const DecodeShare<Config>& share, uint32_t base)
      : params_(params),
        share_(share),
        a_(base + Layout::kRingBytes + share.warp_unit * params.m * kDecodeUnit),
        scale_a_(base + params.scale_a_offset + share.warp_unit * params.m * 4),
        scale_b_(base + params.scale_b_offset + share.warp_unit * 4) {}

  // The warps of this part of k fetch together: the scales of the weights, before the kernels this one depends on are done.
  __device__ __forceinline__ void fetch_constants(int lane) const {
    const int first = share_.first_row / kDecodeUnit;
    const int count = (share_.end_row - 1) / kDecodeUnit - first + 1;
    for (int i = 0; i < count; ++i) {
      const float* row = params_.scale_b + (first + i) * params_.scale_b_n;
      for (int unit = share_.warp_n * 32 + lane; unit < share_.warp_units; unit += 32 * Layout::kWarpsN) {
        const int index = share_.first_unit + share_.warp_unit + unit;
        ptx::sts_float(scale_b_ + (i * share_.units + unit) * 4, __ldg(row + index * params_.scale_b_k));
      }
    }
  }

  // A and its scales, afterwards.
  template <bool kBlock>
  __device__ __forceinline__ void fetch(int lane) const {
    constexpr int kLanes = 32 * Layout::kWarpsN;
    const int first_unit = share_.first_unit + share_.warp_unit;
    const int left = params_.k - first_unit * kDecodeUnit;
    const uint8_t* row = params_.a + first_unit * kDecodeUnit;
    for (int m = 0; m < params_.m; ++m, row += params_.lda) {
#pragma unroll 2
      for (int piece = share_.warp_n * 32 + lane; piece < share_.warp_units * 8; piece += kLanes) {
        const uint32_t place = a_ + ((piece >> 2) * params_.m + m) * 64 + (piece & 3) * 16;
        ptx::cp_async_16(place, row + piece * 16, piece * 16 < left ? 16 : 0);
      }
    }
    ptx::cp_async_commit();
    if constexpr (kBlock) {
      for (int m = 0; m < params_.m; ++m) {
        const float* scale = params_.scale_a + m * params_.scale_a_m;
        for (int unit = share_.warp_n * 32 + lane; unit < share_.warp_units; unit += kLanes) {
          ptx::sts_float(scale_a_ + (unit * params_.m + m) * 4, scale[(first_unit + unit) * params_.scale_a_k]);
        }
      }
    }
    ptx::cp_async_wait<0>();
    if (Layout::kWarpsN == 1) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }

  // The fragment of rows 8 * `tile` .. + 7, half `half` of the warp's unit `unit`; rows past the last are zeros.
  __device__ __forceinline__ uint4 fragment(int unit, int half, int tile, int lane) const {
    const int row = tile * 8 + (lane >> 2);
    if (row >= params_.m) return {0, 0, 0, 0};
    return ptx::lds_128(a_ + ((unit * 2 + half) * params_.m + row) * 64 + (lane & 3) * 16);
  }

  __device__ __forceinline__ float scale_a(int unit, int row) const {
    return row < params_.m ? ptx::lds_float(scale_a_ + (unit * params_.m + row) * 4) : 0.0f;
  }

  // Of weight row `row`, which may lie past the end.
  __device__ __forceinline__ float scale_b(int unit, int row) const {
    const int block = min(row, share_.end_row - 1) / kDecodeUnit - share_.first_row / kDecodeUnit;
    return ptx::lds_float(scale_b_ + (block * share_.units + unit) * 4);
  }

 private:
  const DecodeParams& params_;
  const DecodeShare<Config>& share_;
  uint32_t a_, scale_a_, scale_b_;
};

}  // namespace tilewright::gemm_fp8::kernels
