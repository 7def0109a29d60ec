// The shared-memory ring of the mma_m16n8k16 engine: what a stage holds and how it is filled.
#pragma once

#include <cstdint>

#include "tilewright/dequant/scales.cuh"
#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/smem.h"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright::kernels {

// Byte offset of 16-byte chunk `chunk` of row `row` in an A stage. Chunks are XORed with the row within each 128 bytes,
// so that eight lanes reading two rows, as the fragments do, touch all 32 banks.
template <class Config>
__device__ __forceinline__ int a_offset(int row, int chunk) {
  return row * (Config::kKc * 2) + ((chunk ^ (row & 7)) << 4);
}

// Byte offset of row `row`'s codes for k 64 * group .. 64 * group + 63 in a B stage: groups apart, rows 32 bytes each,
// so that a warp's 8-byte loads of eight rows are 256 bytes in a row.
template <class Config>
__device__ __forceinline__ int b_offset(int row, int group) {
  return (group * Config::kNt + row) * 32;
}

// One thread's share of the 16-byte copies of an operand, the same for every chunk of k. The thread keeps to one column
// of chunks and steps down the rows.
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

// Scales are kept in shared memory for granules of 2^shift elements of k: a whole block or chunk where rows start on a
// block, else the 32 elements (16 for e2m1) that share a block whatever K is.
template <class Config>
inline int scale_granule_shift(int64_t k, int block_shift) {
  constexpr int kChunkShift = Config::kKc % 256 == 0 ? 8 : Config::kKc % 128 == 0 ? 7 : 6;
  const bool rows_start_blocks = (k & ((int64_t{1} << block_shift) - 1)) == 0;
  const int largest = rows_start_blocks ? kChunkShift : 5;
  return block_shift < largest ? block_shift : largest;
}

// One thread's share of the scales of a stage: a fixed set of (row, granule) entries.
template <class Config, int kThreads>
class ScaleShare {
 public:
  using Smem = MmaM16n8k16Smem<Config>;
  static constexpr int kScales = (Config::kNt * Config::kKc / 16 + kThreads - 1) / kThreads;
  static_assert(kScales <= 32, "the entries of a thread fit a 32-bit mask");
  // A thread whose entries all lie in one row keeps the first one's place only.
  static constexpr int kBases = kThreads % Config::kNt == 0 ? 1 : kScales;

  __device__ __forceinline__ ScaleShare(const Gemm4bitArgs& args, const dequant::ScaleSource& source, int64_t row_n,
                                        int granule_shift)
      : source_(source), shift_(granule_shift), offset_(dequant::load_offset(source)) {
#pragma unroll
    for (int i = 0; i < kScales; ++i) {
      const int entry = entry_of(i);
      const int64_t n = row_n + entry % Config::kNt;
      if (entry < Config::kNt * (Config::kKc >> shift_)) used_ |= 1u << i;
      if (n < args.n) in_rows_ |= 1u << i;
      if (i < kBases) base_[i] = n * args.k + k_of(entry);
    }
  }

  // fp32 scales go straight to shared memory, as the operands do; the others pass through registers.
  __device__ __forceinline__ bool asynchronous() const { return source_.kind == dequant::ScaleKind::kAbsmax; }

  // Starts the loads of the scales of the chunk that begins at k0 and has `k_left` elements: into `slot`, within the
  // thread's open group of copies, or into registers, from where `finish` stores them when they have had time to
  // arrive.
  __device__ __forceinline__ void start(int64_t k0, int k_left, unsigned char* smem, int slot) {
    const uint32_t target = ptx::shared_address(smem + Smem::kScaleOffset + slot * Smem::kScaleStageBytes);
    const float* absmax = static_cast<const float*>(source_.scales);
    present_ = 0;
#pragma unroll
    for (int i = 0; i < kScales; ++i) {
      if ((used_ >> i & 1u) == 0) break;
      const bool present = (in_rows_ >> i & 1u) != 0 && k_of(entry_of(i)) < k_left;
      const int64_t block = (element_of(i) + k0) >> source_.block_shift;
      if (asynchronous()) {
        ptx::cp_async_4(target + place_of(entry_of(i)) * 4, absmax + block, present ? 4 : 0);
      } else if (present) {
        present_ |= 1u << i;
        raw_[i] = source_.kind == dequant::ScaleKind::kE4m3
                      ? dequant::load_scale<dequant::ScaleKind::kE4m3>(source_, block)
                      : dequant::load_scale<dequant::ScaleKind::kNestedAbsmax>(source_, block);
      }
    }
  }

  // Absent scales become zero, which keeps the zero-filled tail of K free of NaN.
  __device__ __forceinline__ void finish(unsigned char* smem, int slot) const {
    if (asynchronous()) return;
    float* target = reinterpret_cast<float*>(smem + Smem::kScaleOffset + slot * Smem::kScaleStageBytes);
    const float* nested_code = reinterpret_cast<const float*>(smem + Smem::kNestedCodeOffset);
#pragma unroll
    for (int i = 0; i < kScales; ++i) {
      if ((used_ >> i & 1u) == 0) break;
      const bool present = (present_ >> i & 1u) != 0;
      target[place_of(entry_of(i))] = present ? dequant::finish_scale(source_, raw_[i], offset_, nested_code) : 0.0f;
    }
  }

 private:
  static __device__ __forceinline__ int entry_of(int i) { return static_cast<int>(threadIdx.x) + i * kThreads; }
  static __device__ __forceinline__ int place_of(int entry) {
    return entry / Config::kNt * Smem::kScaleRowFloats + entry % Config::kNt;
  }
  __device__ __forceinline__ int k_of(int entry) const { return (entry / Config::kNt) << shift_; }
  // The flattened element that entry `i` starts at in the chunk of k 0.
  __device__ __forceinline__ int64_t element_of(int i) const {
    return kBases == 1 ? base_[0] + ((i * (kThreads / Config::kNt)) << shift_) : base_[i];
  }

  const dequant::ScaleSource& source_;
  int shift_;
  float offset_;
  uint32_t used_ = 0;
  uint32_t in_rows_ = 0;
  uint32_t present_ = 0;
  int64_t base_[kBases];
  dequant::RawScale raw_[kScales];
};

// Fills the stages of one block's tile, chunk after chunk of k.
template <class Config>
class StageLoader {
 public:
  using Smem = MmaM16n8k16Smem<Config>;
  static constexpr int kThreads = Smem::kThreads;

  __device__ __forceinline__ StageLoader(const Gemm4bitArgs& args, const dequant::ScaleSource& source, int64_t row_m,
                                         int64_t row_n, int granule_shift, unsigned char* smem)
      : smem_(smem),
        k_left_(static_cast<int>(args.k)),
        a_(static_cast<const char*>(args.a) + row_m * args.lda * 2, args.lda * 2, args.m - row_m),
        b_(args.b + row_n * args.k / 2, args.k / 2, args.n - row_n),
        scales_(args, source, row_n, granule_shift) {}

  // Starts the copies of the next chunk of A, B and fp32 scales into `slot`.
  __device__ __forceinline__ void copy_next(int slot) {
    a_.copy(ptx::shared_address(smem_ + Smem::kAOffset + slot * Smem::kAStageBytes), a_.chunk() * 8 < k_left_,
            Config::kKc * 2, [](int row, int chunk) { return a_offset<Config>(row, chunk); });
    b_.copy(ptx::shared_address(smem_ + Smem::kBOffset + slot * Smem::kBStageBytes), b_.chunk() * 32 < k_left_,
            Config::kKc / 2, [](int row, int chunk) { return b_offset<Config>(row, chunk / 2) + chunk % 2 * 16; });
    if (scales_.asynchronous()) start_scales(k0_, k_left_, slot);
    k0_ += Config::kKc;
    k_left_ -= Config::kKc;
  }

  __device__ __forceinline__ bool scales_asynchronous() const { return scales_.asynchronous(); }

  // For scales that pass through registers: loads those of the `back`-th last chunk that was copied.
  __device__ __forceinline__ void load_scales(int back, int slot) {
    if (!scales_.asynchronous()) start_scales(k0_ - back * Config::kKc, k_left_ + back * Config::kKc, slot);
  }
  __device__ __forceinline__ void finish_scales(int slot) const { scales_.finish(smem_, slot); }

 private:
  __device__ __forceinline__ void start_scales(int64_t k0, int k_left, int slot) {
    scales_.start(k0, k_left, smem_, slot);
  }

  unsigned char* smem_;
  int64_t k0_ = 0;
  int k_left_;
  CopyShare<Config::kMt, Config::kKc / 8, kThreads> a_;
  CopyShare<Config::kNt, Config::kKc / 32, kThreads> b_;
  ScaleShare<Config, kThreads> scales_;
};

}  // namespace tilewright::kernels
