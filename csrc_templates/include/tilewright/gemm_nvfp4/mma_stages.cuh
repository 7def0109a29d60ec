// How the stages of the mma_block_scaled engine of gemm_nvfp4 are filled.
#pragma once

#include <cstdint>

#include "tilewright/gemm_nvfp4/mma_plan.h"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright::gemm_nvfp4::kernels {

// Byte of the 16-byte piece `piece` of row `row` in a stage. Pieces are XORed with the row, so that the eight rows of a
// matrix load touch all banks.
__device__ __forceinline__ int piece_offset(int row, int piece) { return row * 128 + ((piece ^ (row & 7)) << 4); }

// A thread's share of the copies of an operand of kRows rows of 128 bytes: one piece of every kThreads / 8-th row.
template <int kRows, int kThreads>
class MmaCopy {
 public:
  static constexpr int kStep = kThreads / 8;
  static constexpr int kCopies = (kRows + kStep - 1) / kStep;

  __device__ __forceinline__ MmaCopy(const uint8_t* tile, int64_t row_bytes, int64_t rows_left)
      : row_(static_cast<int>(threadIdx.x) / 8), piece_(static_cast<int>(threadIdx.x) % 8), row_bytes_(row_bytes) {
    source_ = tile + row_ * row_bytes + piece_ * 16;
    rows_left_ = static_cast<int>(rows_left < kRows ? rows_left : kRows) - row_;
  }

  // Starts the copies of the next chunk, of which `bytes_left` of a row exist. Rows and bytes that do not exist become
  // zeros.
  __device__ __forceinline__ void start(uint32_t stage, int bytes_left) {
    const bool in_k = piece_ * 16 < bytes_left;
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

// Starts the copies of the chunk's scale atoms of the kGroups groups of 128 rows from `first_group` on; those past the
// end of the rows or of k become zeros.
template <int kGroups, int kAtoms, int kThreads>
__device__ __forceinline__ void start_scales(uint32_t stage, const uint8_t* scales, int64_t first_group, int64_t groups,
                                             int64_t atoms_per_group, int64_t first_atom) {
  constexpr int kPieces = kAtoms * nvfp4::kScaleAtomBytes / 16;
#pragma unroll
  for (int piece = 0; piece < kGroups * kPieces; piece += kThreads) {
    const int index = piece + static_cast<int>(threadIdx.x);
    if (kGroups * kPieces % kThreads != 0 && index >= kGroups * kPieces) break;
    const int64_t group = first_group + index / kPieces;
    const int64_t atom = first_atom + index % kPieces / (nvfp4::kScaleAtomBytes / 16);
    const uint8_t* source =
        scales + (group * atoms_per_group + first_atom) * nvfp4::kScaleAtomBytes + index % kPieces * 16;
    ptx::cp_async_16(stage + index * 16, source, group < groups && atom < atoms_per_group ? 16 : 0);
  }
}

}  // namespace tilewright::gemm_nvfp4::kernels
