// Which outputs a block of the mma_m16n8k32 engine of gemm_fp8 computes, and how its stages are filled.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"
#include "tilewright/gemm_fp8/mma_plan.h"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright::gemm_fp8::kernels {

// The tile of a block: rows `row` .. `row_end` of A (of all groups) by the columns from `column` on of weight `group`.
struct MmaTarget {
  int64_t row, row_end, column;
  int group;
  bool any;  // whether there is anything to compute
};

template <class Config>
__device__ __forceinline__ MmaTarget find_target(const GemmFp8Args& args, int64_t block, int64_t tiles_m) {
  constexpr int kMt = Config::kMt;
  MmaTarget target{block % tiles_m * kMt, args.m, block / tiles_m * Config::kNt, 0, true};
  if (args.grouping == Grouping::kMasked) {
    const int64_t per_group = (args.m + kMt - 1) / kMt;
    const int64_t tile = block % tiles_m;
    target.group = static_cast<int>(tile / per_group);
    const int64_t first = target.group * args.m;
    const int64_t rows = args.group_rows[target.group];
    target.row = first + tile % per_group * kMt;
    target.row_end = first + (rows < args.m ? rows : args.m);
  } else if (args.grouping == Grouping::kContiguous) {
    int64_t tile = block % tiles_m;
    int64_t first = 0;
    target.any = false;
    for (int group = 0; group < args.groups; ++group) {
      int64_t end = args.group_ends[group];
      end = end < first ? first : end > args.m ? args.m : end;
      const int64_t tiles = (end - first + kMt - 1) / kMt;
      if (tile < tiles) {
        target = {first + tile * kMt, end, target.column, group, true};
        break;
      }
      tile -= tiles;
      first = end;
    }
  }
  target.any = target.any && target.row < target.row_end;
  return target;
}

// Byte of the 16-byte piece `piece` of row `row` in a stage. Pieces are XORed with the row, so that the eight rows of a
// matrix load touch all banks.
__device__ __forceinline__ int piece_offset(int row, int piece) { return row * 128 + ((piece ^ (row & 7)) << 4); }

// A thread's share of the copies of an operand of kRows rows of 128 bytes: one piece of every kThreads / 8-th row.
template <int kRows, int kThreads>
class MmaCopy {
 public:
  static constexpr int kStep = kThreads / 8;
  static constexpr int kCopies = (kRows + kStep - 1) / kStep;

  __device__ __forceinline__ MmaCopy(const void* tile, int64_t row_bytes, int64_t rows_left)
      : row_(static_cast<int>(threadIdx.x) / 8), piece_(static_cast<int>(threadIdx.x) % 8), row_bytes_(row_bytes) {
    source_ = static_cast<const uint8_t*>(tile) + row_ * row_bytes + piece_ * 16;
    rows_left_ = static_cast<int>(rows_left < kRows ? rows_left : kRows) - row_;
  }

  // Starts the copies of the chunk of which `k_left` bytes exist. Rows and bytes that do not exist become zeros.
  __device__ __forceinline__ void start(uint32_t stage, int k_left) {
    const bool in_k = piece_ * 16 < k_left;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (kRows % kStep != 0 && row_ + i * kStep >= kRows) break;
      const int bytes = in_k && i * kStep < rows_left_ ? 16 : 0;
      ptx::cp_async_16(stage + piece_offset(row_ + i * kStep, piece_), source_ + i * kStep * row_bytes_, bytes);
    }
    source_ += 128;
  }

 private:
  int row_, piece_;
  int rows_left_;
  int64_t row_bytes_;
  const uint8_t* source_;
};

}  // namespace tilewright::gemm_fp8::kernels
