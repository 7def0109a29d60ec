// Output of the wgmma engine of gemm_fp8: accumulators are scaled, rounded and turned through shared memory, and leave by bulk
// copies, or by checked stores where a tile is ragged in a way the copy engine cannot express.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/ptx/cluster.cuh"
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
  static constexpr int kXBlocks = Geometry::kXBlocks;
  static constexpr int kBlockRegisters = Geometry::kYRows / 2;
  using Accumulators = float[kXBlocks][kBlockRegisters];
  static_assert(kRows * kBoxes <= Geometry::kOutputRows, "a chunk fits its buffer");

  // `member` as in WgmmaConsumer.
  __device__ __forceinline__ WgmmaEpilogue(const WgmmaParams& params, const WgmmaShared<Config>& shared,
                                           const void* map_out, int consumer, int member)
      : params_(params),
        map_out_(map_out),
        buffers_(shared.output(consumer)),
        barrier_(1 + consumer),
        first_(member * kXBlocks * 64) {}

  __device__ __forceinline__ void store(const Accumulators& acc, const WgmmaWork& work) {
#pragma unroll
    for (int x = 0; x < kXBlocks; ++x) {
      if constexpr (Config::kSwap) {
        store_swapped(acc[x], work, work.column + first_ + x * 64);
      } else {
        store_straight(acc[x], work, work.row + first_ + x * 64);
      }
    }
  }

  // Lays this thread's part of a shared tile out for the cluster: float4 [blocks of 8 columns][consumer threads].
  static __device__ __forceinline__ void expose(const Accumulators& acc, uint32_t exchange) {
#pragma unroll
    for (int x = 0; x < kXBlocks; ++x) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const float* four = &acc[x][4 * block];
        ptx::sts_float4(exchange + exchange_offset(x * kBlocks + block), four[0], four[1], four[2], four[3]);
      }
    }
  }

  // Sums the parts of the cluster in the order of k and stores this block's share of the rows.
  __device__ __forceinline__ void store_share(uint32_t exchange, const WgmmaWork& work, WgmmaPlace<Config> place) {
    const int begin = kBlocks * place.split / Config::kSplitK;
    const int end = kBlocks * (place.split + 1) / Config::kSplitK;
    uint32_t part[Config::kSplitK];
#pragma unroll
    for (int split = 0; split < Config::kSplitK; ++split) {
      part[split] = ptx::map_to_block(exchange, static_cast<uint32_t>(split * Geometry::kPeers + place.peer()));
    }
    for (int x = 0; x < kXBlocks; ++x) {
      const int column = work.column + first_ + x * 64;
      if (column >= params_.n) break;
      const ColumnFactors factors = column_factors(work, column);
      for (int first = begin; first < end; first += kRows / 8) {
        const int row = work.row + first * 8;
        if (row >= work.rows_end) break;
        const int count = min(kRows / 8, end - first);
        acquire();
        for (int block = 0; block < count; ++block) {
          float sum[4];
          sum_parts(part, x * kBlocks + first + block, sum);
          put_block(sum, work, factors, row, block);
        }
        publish(work, row, column, count * 8);
      }
    }
  }

  // No buffer is being read any more.
  __device__ __forceinline__ void finish() const {
    if (thread() == 0) ptx::bulk_wait_read<0>();
  }

 private:
  static constexpr int kBlocks = Geometry::kYRows / 8;  // accumulators come in blocks of 8 columns

  // What the two rows of accumulators of a thread, columns of out, are multiplied by and added to.
  struct ColumnFactors {
    float scale[2], bias[2];
  };

  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) & 127; }

  static __device__ __forceinline__ uint32_t exchange_offset(int block) {
    return static_cast<uint32_t>((block * (Config::kConsumers * 128) + static_cast<int>(threadIdx.x) - 128) * 16);
  }

  static __device__ __forceinline__ void sum_parts(const uint32_t (&part)[Config::kSplitK], int block, float (&sum)[4]) {
    float4 value[Config::kSplitK];
#pragma unroll
    for (int split = 0; split < Config::kSplitK; ++split) {
      value[split] = ptx::load_cluster_float4(part[split] + exchange_offset(block));
    }
    sum[0] = sum[1] = sum[2] = sum[3] = 0.0f;
#pragma unroll
    for (int split = 0; split < Config::kSplitK; ++split) {
      sum[0] += value[split].x;
      sum[1] += value[split].y;
      sum[2] += value[split].z;
      sum[3] += value[split].w;
    }
  }

  __device__ __forceinline__ float row_scale(const WgmmaWork& work, int row) const {
    return params_.by_block ? 1.0f : __ldg(params_.scale_a + min(row, work.rows_end - 1) * params_.scale_a_m);
  }
  __device__ __forceinline__ float column_scale(const WgmmaWork& work, int column) const {
    const int64_t at = work.group * params_.scale_b_group + min(column, params_.n - 1) * params_.scale_b_n;
    return params_.by_block ? 1.0f : __ldg(params_.scale_b + at);
  }
  __device__ __forceinline__ float column_bias(const WgmmaWork& work, int column) const {
    if (params_.bias == nullptr) return 0.0f;
    const auto* bias = static_cast<const Element*>(params_.bias) + work.group * params_.bias_group;
    return epilogue::bias_at<Element>(bias, column, params_.n);
  }

  __device__ __forceinline__ ColumnFactors column_factors(const WgmmaWork& work, int column) const {
    const int own = column + (thread() >> 5) * 16 + (thread() >> 2 & 7);
    return {{column_scale(work, own), column_scale(work, own + 8)}, {column_bias(work, own), column_bias(work, own + 8)}};
  }

  // Accumulators of out^T, 64 columns of out from `column`.
  __device__ __forceinline__ void store_swapped(const float (&acc)[kBlockRegisters], const WgmmaWork& work, int column) {
    if (column >= params_.n) return;
    const ColumnFactors factors = column_factors(work, column);
#pragma unroll
    for (int first = 0; first < kBlocks; first += kRows / 8) {
      const int row = work.row + first * 8;
      if (row >= work.rows_end) break;
      acquire();
#pragma unroll
      for (int block = 0; block < kRows / 8; ++block) put_block(&acc[4 * (first + block)], work, factors, row, block);
      publish(work, row, column, kRows);
    }
  }

  // Writes 8 rows of out, those from `row + 8 * block`, of 64 columns (16 by this warp).
  __device__ __forceinline__ void put_block(const float* acc, const WgmmaWork& work, const ColumnFactors& factors, int row,
                                            int block) const {
    const int quad = thread() & 3;
    const float first = row_scale(work, row + 8 * block + 2 * quad);
    const float second = row_scale(work, row + 8 * block + 2 * quad + 1);
    const float v0 = fmaf(acc[0] * first, factors.scale[0], factors.bias[0]);
    const float v1 = fmaf(acc[1] * second, factors.scale[0], factors.bias[0]);
    const float v2 = fmaf(acc[2] * first, factors.scale[1], factors.bias[1]);
    const float v3 = fmaf(acc[3] * second, factors.scale[1], factors.bias[1]);
    if constexpr (kWide) {
      const int column = (thread() >> 5 & 1) * 16 + (thread() >> 2 & 7);
      const uint32_t box = buffer() + (thread() >> 6) * (kRows * 128);
      const int at = 8 * block + 2 * quad;
      ptx::sts_float(box + at * 128 + word_at(at, column), v0);
      ptx::sts_float(box + (at + 1) * 128 + word_at(at + 1, column), v1);
      ptx::sts_float(box + at * 128 + word_at(at, column + 8), v2);
      ptx::sts_float(box + (at + 1) * 128 + word_at(at + 1, column + 8), v3);
    } else {
      const int at = thread() & 7;
      const int chunk = 2 * (thread() >> 5) + (thread() >> 3 & 1);
      ptx::stmatrix_x2_trans(buffer() + (block * 8 + at) * 128 + ((chunk ^ at) << 4), ElementTraits<Element>::pack(v0, v1),
                             ElementTraits<Element>::pack(v2, v3));
    }
  }

  // The byte of fp32 `column` in a swizzled row of 128 bytes.
  static __device__ __forceinline__ uint32_t word_at(int row, int column) {
    return static_cast<uint32_t>(((column >> 2 ^ (row & 7)) << 4) + (column & 3) * 4);
  }

  // Accumulators of 64 rows of out from `row`.
  __device__ __forceinline__ void store_straight(const float (&acc)[kBlockRegisters], const WgmmaWork& work, int row) {
    if (row >= work.rows_end) return;
    const int own = row + (thread() >> 5) * 16 + (thread() >> 2 & 7);
    const float scale[2] = {row_scale(work, own), row_scale(work, own + 8)};
    constexpr int kChunkBlocks = kBoxColumns / 8;
#pragma unroll
    for (int first = 0; first < kBlocks; first += kChunkBlocks) {
      const int column = work.column + first * 8;
      if (column >= params_.n) break;
      acquire();
#pragma unroll
      for (int block = 0; block < kChunkBlocks; block += 2) put_two(&acc[4 * (first + block)], work, scale, column, block);
      publish(work, row, column, 64);
    }
  }

  // Writes the 16 rows of this warp of the 16 columns from `column + 8 * block`.
  __device__ __forceinline__ void put_two(const float* acc, const WgmmaWork& work, const float (&scale)[2], int column,
                                          int block) const {
    float v[8];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = column + 8 * (block + i) + 2 * (thread() & 3);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float of_column = column_scale(work, at + j), bias = column_bias(work, at + j);
        v[4 * i + j] = fmaf(acc[4 * i + j] * scale[0], of_column, bias);
        v[4 * i + 2 + j] = fmaf(acc[4 * i + 2 + j] * scale[1], of_column, bias);
      }
    }
    const int warp_row = (thread() >> 5) * 16;
    if constexpr (kWide) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int at = warp_row + 8 * half + (thread() >> 2 & 7);
          ptx::sts_float2(buffer() + at * 128 + word_at(at, 8 * (block + i) + 2 * (thread() & 3)), v[4 * i + 2 * half],
                          v[4 * i + 2 * half + 1]);
        }
      }
    } else {
      const int at = warp_row + (thread() & 15);
      const int chunk = block + (thread() >> 4 & 1);
      ptx::stmatrix_x4(buffer() + at * 128 + ((chunk ^ (at & 7)) << 4), ElementTraits<Element>::pack(v[0], v[1]),
                       ElementTraits<Element>::pack(v[2], v[3]), ElementTraits<Element>::pack(v[4], v[5]),
                       ElementTraits<Element>::pack(v[6], v[7]));
    }
  }

  __device__ __forceinline__ uint32_t buffer() const { return buffers_ + turn_ * Geometry::kOutputBytes; }

  // Waits until the copy before the last, out of the same buffer, has read it.
  __device__ __forceinline__ void acquire() const {
    if (thread() == 0) ptx::bulk_wait_read<1>();
    ptx::named_barrier_sync(barrier_, 128);
  }

  // Sends `rows` rows of the buffer on their way to out at (row, column), and turns to the other buffer.
  __device__ __forceinline__ void publish(const WgmmaWork& work, int row, int column, int rows) {
    ptx::fence_async_shared();
    ptx::named_barrier_sync(barrier_, 128);
    // The copy engine leaves out rows past the last of the matrix only, and always copies a whole chunk.
    const bool bulk = params_.bulk_out && rows == kRows && (row + rows <= work.rows_end || work.rows_end == params_.rows);
    if (bulk) {
      if (thread() == 0) {
#pragma unroll
        for (int box = 0; box < kBoxes; ++box) {
          if (column + box * kBoxColumns < params_.n) {
            ptx::tma_store_2d(map_out_, buffer() + box * (kRows * 128), column + box * kBoxColumns, row);
          }
        }
        ptx::bulk_commit();
      }
    } else {
      drain(work, row, column, rows);
    }
    turn_ ^= 1;
  }

  __device__ __forceinline__ void drain(const WgmmaWork& work, int first_row, int first_column, int rows) const {
    constexpr int kChunkElements = 16 / static_cast<int>(sizeof(Element));
    for (int item = thread(); item < rows * kBoxes * 8; item += 128) {
      const int chunk = item & 7;
      const int box = item / (8 * rows);
      const int at = (item >> 3) - box * rows;
      const int row = first_row + at;
      const int column = first_column + box * kBoxColumns + chunk * kChunkElements;
      if (row >= work.rows_end || column >= params_.n) continue;
      const uint4 bits = ptx::lds_128(buffer() + (box * kRows + at) * 128 + ((chunk ^ (at & 7)) << 4));
      Element* target = static_cast<Element*>(params_.out) + row * params_.ldo + column;
      if (params_.bulk_out && column + kChunkElements <= params_.n) {
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
