// The shared-memory ring of the mma_m16n8k16 engine: what a stage holds and how it is filled.
#pragma once

#include <cstdint>

#include "tilewright/dequant/scales.cuh"
#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/smem.h"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright::kernels {

// Byte offset of 16-byte chunk `chunk` of row `row` in an A stage. Chunks are XORed with the row within each 128 bytes, so
// that eight lanes reading two rows, as the fragments do, touch all 32 banks.
template <class Config>
__device__ __forceinline__ int a_offset(int row, int chunk) {
  return row * (Config::kKc * 2) + ((chunk ^ (row & 7)) << 4);
}

// Byte offset of row `row`'s codes for k 64 * group .. 64 * group + 63 in a B stage: groups apart, rows 32 bytes each, so
// that a warp's 8-byte loads of eight rows are 256 bytes in a row.
template <class Config>
__device__ __forceinline__ int b_offset(int row, int group) {
  return (group * Config::kNt + row) * 32;
}

// One thread's share of the 16-byte copies of an operand, the same for every chunk of k. The thread keeps to one column of
// chunks and steps down the rows.
template <int kRows, int kChunksPerRow, int kThreads>
class CopyShare {
 public:
  static_assert(kThreads % kChunksPerRow == 0, "threads of a block are a multiple of the 16-byte chunks in a row");
  static constexpr int kRowStep = kThreads / kChunksPerRow;
  static constexpr int kCopies = (kRows + kRowStep - 1) / kRowStep;
  static_assert(kCopies <= 32, "the rows of a thread fit a 32-bit mask");

  // `rows_left`: rows from the tile's first to the end of the matrix; `row_bytes`: from one row to the next.
  __device__ __forceinline__ CopyShare(const void* tile, int64_t row_bytes, int64_t rows_left)
      : row_(static_cast<int>(threadIdx.x) / kChunksPerRow),
        chunk_(static_cast<int>(threadIdx.x) % kChunksPerRow),
        step_bytes_(kRowStep * row_bytes),
        source_(static_cast<const char*>(tile) + row_ * row_bytes + chunk_ * 16) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (row_ + i * kRowStep < rows_left) present_ |= 1u << i;
    }
  }

  __device__ __forceinline__ int chunk() const { return chunk_; }

  // Copies this thread's chunks and moves on by `advance_bytes`. `offset_of(row, chunk)` places them in the stage.
  // Missing rows, and every row when `in_k` is false, become zeros; their addresses are not read.
  template <class OffsetOf>
  __device__ __forceinline__ void copy(uint32_t stage, bool in_k, int advance_bytes, OffsetOf offset_of) {
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      if (kRows % kRowStep != 0 && row_ + i * kRowStep >= kRows) break;
      const int bytes = in_k && (present_ >> i & 1u) != 0 ? 16 : 0;
      ptx::cp_async_16(stage + offset_of(row_ + i * kRowStep, chunk_), source_ + i * step_bytes_, bytes);
    }
    source_ += advance_bytes;
  }

 private:
  int row_;
  int chunk_;
  uint32_t present_ = 0;
  int64_t step_bytes_;
  const char* source_;
};

// One thread's share of the scales. They are kept in shared memory for granules of 2^shift elements of k: a whole block or
// chunk where rows start on a block, else the 32 elements (16 for e2m1) that share a block whatever K is.
template <class Config, int kThreads>
class ScaleShare {
 public:
  using Smem = MmaM16n8k16Smem<Config>;
  static constexpr int kScales = (Config::kNt * Config::kKc / 16 + kThreads - 1) / kThreads;

  __device__ __forceinline__ ScaleShare(const Gemm4bitArgs& args, const dequant::ScaleSource& source, int64_t row_n)
      : args_(args), source_(source), row_n_(row_n), offset_(dequant::load_offset(source)) {
    constexpr int kChunkShift = Config::kKc % 256 == 0 ? 8 : Config::kKc % 128 == 0 ? 7 : 6;
    const bool rows_start_blocks = (args.k & ((int64_t{1} << source.block_shift) - 1)) == 0;
    shift_ = min(source.block_shift, rows_start_blocks ? kChunkShift : 5);
    count_ = Config::kNt * (Config::kKc >> shift_);
  }

  __device__ __forceinline__ int granule_shift() const { return shift_; }

  // Loads the scales of the chunk at k0 into registers; `store` puts them into a stage later, when they have arrived.
  __device__ __forceinline__ void load(int64_t k0) {
#pragma unroll
    for (int i = 0; i < kScales; ++i) {
      const int entry = static_cast<int>(threadIdx.x) + i * kThreads;
      const int64_t n = row_n_ + entry % Config::kNt;
      const int64_t k = k0 + ((entry / Config::kNt) << shift_);
      present_[i] = entry < count_ && n < args_.n && k < args_.k;
      if (present_[i]) raw_[i] = dequant::load_scale(source_, (n * args_.k + k) >> source_.block_shift);
    }
  }

  // Absent scales become zero, which keeps the zero-filled tail of K free of NaN.
  __device__ __forceinline__ void store(unsigned char* smem, int slot) const {
    float* target = reinterpret_cast<float*>(smem + Smem::kScaleOffset + slot * Smem::kScaleStageBytes);
    const float* nested_code = reinterpret_cast<const float*>(smem + Smem::kNestedCodeOffset);
#pragma unroll
    for (int i = 0; i < kScales; ++i) {
      const int entry = static_cast<int>(threadIdx.x) + i * kThreads;
      if (entry >= count_) break;
      const float scale = present_[i] ? dequant::finish_scale(source_, raw_[i], offset_, nested_code) : 0.0f;
      target[entry / Config::kNt * Smem::kScaleRowFloats + entry % Config::kNt] = scale;
    }
  }

 private:
  const Gemm4bitArgs& args_;
  const dequant::ScaleSource& source_;
  int64_t row_n_;
  float offset_;
  int shift_;
  int count_;
  dequant::RawScale raw_[kScales];
  bool present_[kScales];
};

// Fills the stages of one block's tile, chunk after chunk of k.
template <class Config>
class StageLoader {
 public:
  static constexpr int kThreads = 32 * Config::kWarpsM * Config::kWarpsN;
  using Smem = MmaM16n8k16Smem<Config>;

  __device__ __forceinline__ StageLoader(const Gemm4bitArgs& args, const dequant::ScaleSource& source, int64_t row_m,
                                         int64_t row_n, unsigned char* smem)
      : smem_(smem),
        k_left_(static_cast<int>(args.k)),
        a_(static_cast<const char*>(args.a) + row_m * args.lda * 2, args.lda * 2, args.m - row_m),
        b_(args.b + row_n * args.k / 2, args.k / 2, args.n - row_n),
        scales_(args, source, row_n) {}

  // Starts the copies of the next chunk of A and B into `slot`.
  __device__ __forceinline__ void copy_next(int slot) {
    a_.copy(ptx::shared_address(smem_ + Smem::kAOffset + slot * Smem::kAStageBytes), a_.chunk() * 8 < k_left_,
            Config::kKc * 2, [](int row, int chunk) { return a_offset<Config>(row, chunk); });
    b_.copy(ptx::shared_address(smem_ + Smem::kBOffset + slot * Smem::kBStageBytes), b_.chunk() * 32 < k_left_,
            Config::kKc / 2, [](int row, int chunk) { return b_offset<Config>(row, chunk / 2) + chunk % 2 * 16; });
    k_left_ -= Config::kKc;
  }

  __device__ __forceinline__ void load_scales(int64_t k0) { scales_.load(k0); }
  __device__ __forceinline__ void store_scales(int slot) const { scales_.store(smem_, slot); }
  __device__ __forceinline__ int granule_shift() const { return scales_.granule_shift(); }

 private:
  unsigned char* smem_;
  int k_left_;
  CopyShare<Config::kMt, Config::kKc / 8, kThreads> a_;
  CopyShare<Config::kNt, Config::kKc / 32, kThreads> b_;
  ScaleShare<Config, kThreads> scales_;
};

}  // namespace tilewright::kernels
