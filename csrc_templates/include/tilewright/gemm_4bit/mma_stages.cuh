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

// Scales of a stage are kept for granules of 2^shift elements of k: a whole block or chunk where rows start on a block,
// else the 32 elements (16 for e2m1) that share a block whatever K is.
template <class Config>
__device__ __forceinline__ int granule_shift(const Gemm4bitArgs& args, const dequant::ScaleSource& source) {
  constexpr int kChunkShift = Config::kKc % 256 == 0 ? 8 : Config::kKc % 128 == 0 ? 7 : 6;
  const bool rows_start_blocks = (args.k & ((int64_t{1} << source.block_shift) - 1)) == 0;
  if (rows_start_blocks) return min(source.block_shift, kChunkShift);
  return min(source.block_shift, 5);
}

template <class Config>
class StageLoader {
 public:
  static constexpr int kThreads = 32 * Config::kWarpsM * Config::kWarpsN;
  static constexpr int kScalesPerStage = Config::kNt * Config::kKc / 16;
  static constexpr int kScalesPerThread = (kScalesPerStage + kThreads - 1) / kThreads;
  using Smem = MmaM16n8k16Smem<Config>;

  __device__ __forceinline__ StageLoader(const Gemm4bitArgs& args, const dequant::ScaleSource& source, int64_t row_m,
                                         int64_t row_n, unsigned char* smem)
      : args_(args),
        source_(source),
        row_m_(row_m),
        row_n_(row_n),
        smem_(smem),
        offset_(dequant::load_offset(source)),
        granule_shift_(kernels::granule_shift<Config>(args, source)) {}

  __device__ __forceinline__ int granule_shift() const { return granule_shift_; }

  // Starts the copies of k0 .. k0 + kc - 1 into `slot`. Rows past M or N and chunks past K become zeros.
  __device__ __forceinline__ void copy_operands(int64_t k0, int slot) const {
    copy_a(k0, slot);
    copy_b(k0, slot);
  }

  // Loads this thread's scales of the chunk at k0 into registers; store_scales puts them into a slot later, when the
  // loads have had time to arrive.
  __device__ __forceinline__ void load_scales(int64_t k0) {
    const int count = Config::kNt * (Config::kKc >> granule_shift_);
#pragma unroll
    for (int i = 0; i < kScalesPerThread; ++i) {
      const int entry = static_cast<int>(threadIdx.x) + i * kThreads;
      const int64_t n = row_n_ + entry % Config::kNt;
      const int64_t k = k0 + (int64_t{entry / Config::kNt} << granule_shift_);
      present_[i] = entry < count && n < args_.n && k < args_.k;
      if (present_[i]) raw_[i] = dequant::load_scale(source_, (n * args_.k + k) >> source_.block_shift);
    }
  }

  // Absent scales become zero, which keeps the zero-filled tail of K free of NaN.
  __device__ __forceinline__ void store_scales(int slot) const {
    float* target = reinterpret_cast<float*>(smem_ + Smem::kScaleOffset + slot * Smem::kScaleStageBytes);
    const float* nested_code = reinterpret_cast<const float*>(smem_ + Smem::kNestedCodeOffset);
    const int count = Config::kNt * (Config::kKc >> granule_shift_);
#pragma unroll
    for (int i = 0; i < kScalesPerThread; ++i) {
      const int entry = static_cast<int>(threadIdx.x) + i * kThreads;
      if (entry >= count) continue;
      const float scale = present_[i] ? dequant::finish_scale(source_, raw_[i], offset_, nested_code) : 0.0f;
      target[entry / Config::kNt * Smem::kScaleRowFloats + entry % Config::kNt] = scale;
    }
  }

 private:
  __device__ __forceinline__ void copy_a(int64_t k0, int slot) const {
    constexpr int kChunksPerRow = Config::kKc / 8;
    constexpr int kChunks = Config::kMt * kChunksPerRow;
    const uint32_t stage = ptx::shared_address(smem_ + Smem::kAOffset + slot * Smem::kAStageBytes);
    const char* base = static_cast<const char*>(args_.a);
#pragma unroll
    for (int i = 0; i < (kChunks + kThreads - 1) / kThreads; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * kThreads;
      if (kChunks % kThreads != 0 && index >= kChunks) break;
      const int row = index / kChunksPerRow;
      const int chunk = index % kChunksPerRow;
      const int64_t m = row_m_ + row;
      const int64_t k = k0 + chunk * 8;
      const bool present = m < args_.m && k < args_.k;
      const char* source = present ? base + (m * args_.lda + k) * 2 : base;
      ptx::cp_async_16(stage + a_offset<Config>(row, chunk), source, present ? 16 : 0);
    }
  }

  __device__ __forceinline__ void copy_b(int64_t k0, int slot) const {
    constexpr int kChunksPerRow = Config::kKc / 32;
    constexpr int kChunks = Config::kNt * kChunksPerRow;
    const uint32_t stage = ptx::shared_address(smem_ + Smem::kBOffset + slot * Smem::kBStageBytes);
#pragma unroll
    for (int i = 0; i < (kChunks + kThreads - 1) / kThreads; ++i) {
      const int index = static_cast<int>(threadIdx.x) + i * kThreads;
      if (kChunks % kThreads != 0 && index >= kChunks) break;
      const int row = index / kChunksPerRow;
      const int chunk = index % kChunksPerRow;
      const int64_t n = row_n_ + row;
      const int64_t k = k0 + chunk * 32;
      const bool present = n < args_.n && k < args_.k;
      const uint8_t* source = present ? args_.b + (n * args_.k + k) / 2 : args_.b;
      const uint32_t target = stage + b_offset<Config>(row, chunk / 2) + chunk % 2 * 16;
      ptx::cp_async_16(target, source, present ? 16 : 0);
    }
  }

  const Gemm4bitArgs& args_;
  const dequant::ScaleSource& source_;
  int64_t row_m_;
  int64_t row_n_;
  unsigned char* smem_;
  float offset_;
  int granule_shift_;
  dequant::RawScale raw_[kScalesPerThread];
  bool present_[kScalesPerThread];
};

}  // namespace tilewright::kernels
