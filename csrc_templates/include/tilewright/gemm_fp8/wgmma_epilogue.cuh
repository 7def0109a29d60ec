// Output of the wgmma engine of gemm_fp8: accumulators are scaled, rounded and turned through shared memory, and leave
// by bulk copies, or by checked stores where a tile is ragged in a way the copy engine cannot express.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_fp8/wgmma_exchange.cuh"
#include "tilewright/gemm_fp8/wgmma_factors.cuh"
#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/tma_store.cuh"
#include "tilewright/ptx/warpgroup.cuh"

namespace tilewright::gemm_fp8 {

// One consumer warpgroup. Output leaves in chunks of kRows rows of kBoxes boxes of 128 bytes.
template <class Config>
class WgmmaEpilogue {
 public:
  using Element = typename Config::Element;
  using Geometry = WgmmaGeometry<Config>;
  static constexpr bool kWide = sizeof(Element) == 4;
  static constexpr int kBoxColumns = 128 / static_cast<int>(sizeof(Element));
  static constexpr int kBoxes = Config::kSwap && kWide ? 2 : 1;
  static constexpr int kRows = !Config::kSwap ? 64 : gcd(kWide ? 32 : 64, Config::kMt);
  static constexpr bool kWholeChunks = Config::kNt % kBoxColumns == 0;
  static constexpr int kXBlocks = Geometry::kXBlocks;
  static constexpr int kBlockRegisters = Geometry::kYRows / 2;
  using Accumulators = float[kXBlocks][kBlockRegisters];
  using Exchange = WgmmaExchange<Config>;
  static_assert(kRows * kBoxes <= Geometry::kOutputRows, "a chunk fits its buffer");

  // `member` as in WgmmaConsumer.
  __device__ __forceinline__ WgmmaEpilogue(const WgmmaParams& params, const WgmmaShared<Config>& shared,
                                           const void* map_out, int consumer, int member)
      : params_(params),
        map_out_(map_out),
        buffers_(shared.output(consumer)),
        barrier_(1 + consumer),
        first_(member * kXBlocks * 64) {}

  __device__ __forceinline__ void store(const Accumulators& acc, const WgmmaWork& work,
                                        const WgmmaFactors<Config>& factors) {
    if (factors.none(params_)) {
      store_with(acc, work, WgmmaNoFactors());
    } else {
      store_with(acc, work, factors);
    }
  }

  // Sums the parts of the cluster in the order of k and stores this block's share of the rows.
  __device__ __forceinline__ void store_share(const Accumulators& acc, const WgmmaShared<Config>& shared,
                                              const WgmmaWork& work, const WgmmaFactors<Config>& factors,
                                              WgmmaPlace<Config> place) {
    ptx::mbarrier_wait(shared.received(), 0);
#pragma unroll
    for (int split = 0; split < Config::kSplitK; ++split) {
      if (split != place.split) continue;
      const int begin = Exchange::share_begin(split), end = Exchange::share_begin(split + 1);
#pragma unroll
      for (int x = 0; x < kXBlocks; ++x) {
        const int column = work.column + first_ + x * 64;
        if (column >= params_.n) break;
#pragma unroll
        for (int first = begin; first < end; first += kRows / 8) {
          const int row = work.row + first * 8;
          if (row >= work.rows_end) break;
          acquire();
#pragma unroll
          for (int block = first; block < end && block < first + kRows / 8; ++block) {
            float sum[4], value[4];
            Exchange::sum_parts(&acc[x][4 * block], shared.exchange(), split, x, block, sum);
            factors.apply(sum, x, block, value);
            put_block(value, block - first);
          }
          publish(work, row, column, (end - first < kRows / 8 ? end - first : kRows / 8) * 8);
        }
      }
    }
  }

  // No buffer is being read any more.
  __device__ __forceinline__ void finish() const {
    if (thread() == 0) ptx::bulk_wait_read<0>();
  }

 private:
  static constexpr int kBlocks = Geometry::kYRows / 8;  // accumulators come in blocks of 8 columns

  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) & 127; }

  template <class Factors>
  __device__ __forceinline__ void store_with(const Accumulators& acc, const WgmmaWork& work, const Factors& factors) {
#pragma unroll
    for (int x = 0; x < kXBlocks; ++x) {
      if constexpr (Config::kSwap) {
        store_swapped(acc[x], work, factors, x);
      } else {
        store_straight(acc[x], work, factors, x);
      }
    }
  }

  // Accumulators of out^T, 64 columns of out.
  template <class Factors>
  __device__ __forceinline__ void store_swapped(const float (&acc)[kBlockRegisters], const WgmmaWork& work,
                                                const Factors& factors, int x) {
    const int column = work.column + first_ + x * 64;
    if (column >= params_.n) return;
#pragma unroll
    for (int first = 0; first < kBlocks; first += kRows / 8) {
      const int row = work.row + first * 8;
      if (row >= work.rows_end) break;
      acquire();
#pragma unroll
      for (int block = 0; block < kRows / 8; ++block) {
        float value[4];
        factors.apply(&acc[4 * (first + block)], x, first + block, value);
        put_block(value, block);
      }
      publish(work, row, column, kRows);
    }
  }

  // Writes rows 8 * block .. 8 * block + 7 of the chunk, 64 columns (16 by this warp).
  __device__ __forceinline__ void put_block(const float (&value)[4], int block) const {
    if constexpr (kWide) {
      const int column = (thread() >> 5 & 1) * 16 + (thread() >> 2 & 7);
      const uint32_t box = buffer() + (thread() >> 6) * (kRows * 128);
      const int at = 8 * block + 2 * (thread() & 3);
      ptx::sts_float(box + at * 128 + word_at(at, column), value[0]);
      ptx::sts_float(box + (at + 1) * 128 + word_at(at + 1, column), value[1]);
      ptx::sts_float(box + at * 128 + word_at(at, column + 8), value[2]);
      ptx::sts_float(box + (at + 1) * 128 + word_at(at + 1, column + 8), value[3]);
    } else {
      const int at = thread() & 7;
      const int chunk = 2 * (thread() >> 5) + (thread() >> 3 & 1);
      ptx::stmatrix_x2_trans(buffer() + (block * 8 + at) * 128 + ((chunk ^ at) << 4),
                             ElementTraits<Element>::pack(value[0], value[1]),
                             ElementTraits<Element>::pack(value[2], value[3]));
    }
  }

  // The byte of fp32 `column` in a swizzled row of 128 bytes.
  static __device__ __forceinline__ uint32_t word_at(int row, int column) {
    return static_cast<uint32_t>(((column >> 2 ^ (row & 7)) << 4) + (column & 3) * 4);
  }

  // Accumulators of 64 rows of out.
  template <class Factors>
  __device__ __forceinline__ void store_straight(const float (&acc)[kBlockRegisters], const WgmmaWork& work,
                                                 const Factors& factors, int x) {
    const int row = work.row + first_ + x * 64;
    if (row >= work.rows_end) return;
    constexpr int kChunkBlocks = kBoxColumns / 8;
#pragma unroll
    for (int first = 0; first < kBlocks; first += kChunkBlocks) {
      const int column = work.column + first * 8;
      if (column >= params_.n) break;
      acquire();
#pragma unroll
      for (int block = 0; block < kChunkBlocks; block += 2) {
        if (first + block >= kBlocks) break;  // a tile may end in a part of a chunk
        float value[2][4];
        factors.apply(&acc[4 * (first + block)], x, first + block, value[0]);
        factors.apply(&acc[4 * (first + block + 1)], x, first + block + 1, value[1]);
        put_two(value, block);
      }
      publish(work, row, column, 64);
    }
  }

  // Writes the 16 rows of this warp, 16 columns from 8 * block of the chunk.
  __device__ __forceinline__ void put_two(const float (&value)[2][4], int block) const {
    const int warp_row = (thread() >> 5) * 16;
    if constexpr (kWide) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int at = warp_row + 8 * half + (thread() >> 2 & 7);
          ptx::sts_float2(buffer() + at * 128 + word_at(at, 8 * (block + i) + 2 * (thread() & 3)), value[i][2 * half],
                          value[i][2 * half + 1]);
        }
      }
    } else {
      const int at = warp_row + (thread() & 15);
      const int chunk = block + (thread() >> 4 & 1);
      ptx::stmatrix_x4(buffer() + at * 128 + ((chunk ^ (at & 7)) << 4),
                       ElementTraits<Element>::pack(value[0][0], value[0][1]),
                       ElementTraits<Element>::pack(value[0][2], value[0][3]),
                       ElementTraits<Element>::pack(value[1][0], value[1][1]),
                       ElementTraits<Element>::pack(value[1][2], value[1][3]));
    }
  }

  __device__ __forceinline__ uint32_t buffer() const { return buffers_ + turn_ * Geometry::kOutputBytes; }

  // Waits until the copy out of the buffer has read it.
  __device__ __forceinline__ void acquire() const {
    if (thread() == 0) ptx::bulk_wait_read<Geometry::kOutputBuffers - 1>();
    ptx::named_barrier_sync(barrier_, 128);
  }

  // Sends `rows` rows of the buffer on their way to out at (row, column), and turns to the other buffer.
  __device__ __forceinline__ void publish(const WgmmaWork& work, int row, int column, int rows) {
    ptx::fence_async_shared();
    ptx::named_barrier_sync(barrier_, 128);
    // The copy engine leaves out rows past the last of the matrix only, and always copies a whole chunk.
    const bool whole = row + rows <= work.rows_end || work.rows_end == params_.rows;
    const bool full = kWholeChunks || column + kBoxColumns <= work.column + Config::kNt;
    const bool bulk = params_.bulk_out && rows == kRows && whole && full;
    if (bulk) {
      if (thread() == 0) {
#pragma unroll
        for (int box = 0; box < kBoxes; ++box) {
          if (column + box * kBoxColumns < params_.n) {
            ptx::tma_store_2d_once(map_out_, buffer() + box * (kRows * 128), column + box * kBoxColumns, row);
          }
        }
      }
    } else {
      drain(work, row, column, rows);
    }
    // A group for a drained buffer too, though empty: acquire() counts one a turn.
    if (thread() == 0) ptx::bulk_commit();
    if constexpr (Geometry::kOutputBuffers == 2) turn_ ^= 1;
  }

  __device__ __forceinline__ void drain(const WgmmaWork& work, int first_row, int first_column, int rows) const {
    constexpr int kChunkElements = 16 / static_cast<int>(sizeof(Element));
    const int columns_end = kWholeChunks ? params_.n : min(params_.n, work.column + Config::kNt);
    for (int item = thread(); item < rows * kBoxes * 8; item += 128) {
      const int chunk = item & 7;
      const int box = item / (8 * rows);
      const int at = (item >> 3) - box * rows;
      const int row = first_row + at;
      const int column = first_column + box * kBoxColumns + chunk * kChunkElements;
      if (row >= work.rows_end || column >= columns_end) continue;
      const uint4 bits = ptx::lds_128(buffer() + (box * kRows + at) * 128 + ((chunk ^ (at & 7)) << 4));
      Element* target = static_cast<Element*>(params_.out) + row * params_.ldo + column;
      if (params_.vector_out && column + kChunkElements <= params_.n) {
        *reinterpret_cast<uint4*>(target) = bits;
      } else {
        store_some(target, bits, min(kChunkElements, params_.n - column));
      }
    }
  }

  static __device__ __forceinline__ void store_some(Element* target, uint4 bits, int count) {
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 16 / static_cast<int>(sizeof(Element)); ++i) {
      if (i >= count) break;
      if constexpr (kWide) {
        reinterpret_cast<uint32_t*>(target)[i] = words[i];
      } else {
        reinterpret_cast<uint16_t*>(target)[i] = static_cast<uint16_t>(words[i / 2] >> (16 * (i % 2)));
      }
    }
  }

  const WgmmaParams& params_;
  const void* map_out_;
  uint32_t buffers_;
  int barrier_, first_;
  int turn_ = 0;
};

}  // namespace tilewright::gemm_fp8
