// A block of the decode engine: its share of the problem, its shared memory, and the warps that load.
#pragma once

#include <cstdint>

#include "tilewright/gemm_4bit/decode_plan.h"
#include "tilewright/gemm_4bit/decode_warp.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/ptx/elect.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tma.cuh"
#include "tilewright/ptx/tma_store.cuh"
#include "tilewright/ptx/warpgroup.cuh"

namespace tilewright::kernels {

// Rows are shared out among clusters in groups of this many.
template <class Shape>
constexpr int kDecodeRowUnit = Shape::kPrepacked ? kPrepackedRows : 8;

// What a block has to do, and where its shared memory lies.
template <class Shape>
struct DecodeBlock {
  using Smem = DecodeSmem<Shape>;
  uint32_t base;
  int cluster_size, rank;      // blocks that split k, and which of them this one is
  int first_row, end_row;      // of the weight
  int first_block, end_block;  // 64s of k

  // Without divisions, which every warp would wait for before it starts.
  __device__ __forceinline__ DecodeBlock(const DecodeParams& params, uint32_t shared) : base(shared) {
    cluster_size = 1 << params.cluster_shift;
    rank = static_cast<int>(blockIdx.x) & (cluster_size - 1);
    const uint64_t cluster = blockIdx.x >> params.cluster_shift;
    constexpr int kUnit = kDecodeRowUnit<Shape>;
    first_row = static_cast<int>(cluster * params.units_each >> 32) * kUnit;
    end_row = min(params.n, static_cast<int>((cluster + 1) * params.units_each >> 32) * kUnit);
    first_block = params.blocks * rank >> params.cluster_shift;
    end_block = params.blocks * (rank + 1) >> params.cluster_shift;
  }

  __device__ __forceinline__ int rounds() const { return (end_row - first_row + Shape::kStageRows - 1) / Shape::kStageRows; }
  __device__ __forceinline__ uint32_t full(int stage) const { return base + stage * 8; }
  __device__ __forceinline__ uint32_t empty(int stage) const { return base + (kDecodeMaxStages + stage) * 8; }
  __device__ __forceinline__ uint32_t received_barrier(int buffer) const { return base + (2 * kDecodeMaxStages + buffer) * 8; }
  __device__ __forceinline__ uint32_t partial_full(int slot) const { return received_barrier(2 * Shape::kAdders + slot); }
  __device__ __forceinline__ uint32_t partial_empty(int slot) const { return partial_full(Shape::kPartialSlots + slot); }
  __device__ __forceinline__ uint32_t chunk_full(int chunk) const { return base + Smem::kChunkBarriers + chunk * 8; }
  __device__ __forceinline__ uint32_t chunk(int chunk) const { return base + Smem::kPartialOffset + chunk * Shape::kChunkBytes; }
  __device__ __forceinline__ uint32_t received(int buffer) const {
    return base + Smem::kReceivedOffset + buffer * (Shape::kQuads * 16);
  }
  __device__ __forceinline__ uint32_t partial(int slot, int warp_k) const {
    return base + Smem::kPartialOffset + (slot * Shape::kWarpsK + warp_k) * (Shape::kQuads * 16);
  }
  __device__ __forceinline__ uint32_t stage(const DecodeParams& params, int stage) const {
    return base + params.ring_end - (stage + 1) * params.stage_bytes;
  }
  __device__ __forceinline__ uint32_t scales(const DecodeParams& params, int stage_index) const {
    return stage(params, stage_index) + Shape::kStageRows * params.weight_stride;
  }
};

// The bytes of the scale array that belong to weight row `row` and the block's part of k.
template <class Shape, DecodeKind kKind>
struct DecodeScaleSpan {
  int64_t begin, end;

  __device__ __forceinline__ DecodeScaleSpan(const DecodeParams& params, const DecodeBlock<Shape>& block, int row) {
    int first, last;  // scales of the row
    if constexpr (kKind == DecodeKind::kBlock64 || kKind == DecodeKind::kBlock64Nested) {
      first = block.first_block >> params.block_shift;
      last = ((block.end_block - 1) >> params.block_shift) + 1;
    } else {
      constexpr int kPerBlock = kKind == DecodeKind::kBlock32 ? 2 : 4;
      first = block.first_block * kPerBlock;
      last = block.end_block * kPerBlock;
    }
    const int64_t base = static_cast<int64_t>(row) * params.scales_per_row;
    begin = (base + first) * params.scale_size;
    end = (base + last) * params.scale_size;
  }
};

// Before any stage is read, the barriers and tables of the block must be ready, and before any sum is sent the barriers of all
// blocks of the cluster. The warps that multiply and add wait for that; those that load only say that they have got that far,
// so that nobody waits for copies. One barrier of the cluster serves for both; but where all wait for A, the fetch of which
// comes after, the block meets at a barrier of its own, and those that add wait for the cluster later.
template <class Shape>
__device__ __forceinline__ void decode_meet(int cluster_size) {
  if (!Shape::kStaged && cluster_size > 1) {
    ptx::cluster_sync();
    return;
  }
  if (Shape::kStaged && cluster_size > 1) ptx::cluster_arrive_relaxed();
  ptx::named_barrier_sync(2, Shape::kThreads);
}

template <class Shape>
__device__ __forceinline__ void decode_announce(int cluster_size) {
  if (!Shape::kStaged && cluster_size > 1) {
    ptx::cluster_arrive();
    return;
  }
  if (Shape::kStaged && cluster_size > 1) ptx::cluster_arrive_relaxed();
  ptx::named_barrier_arrive(2, Shape::kThreads);
}

// For warps that have not waited for the cluster when they met: before they send, or end.
__device__ __forceinline__ void decode_wait_for_cluster(int cluster_size) {
  __syncwarp();
  if (cluster_size > 1) ptx::cluster_wait();
}

// A place in a ring of `size` entries; `phase` is the parity of the pass through it.
struct DecodeRing {
  int index = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void advance(int size) {
    if (++index == size) {
      index = 0;
      phase ^= 1;
    }
  }
};

template <class Shape>
__device__ __forceinline__ void decode_init_barriers(const DecodeParams& params, const DecodeBlock<Shape>& block, int lane) {
  if (lane < params.stages) {
    ptx::mbarrier_init(block.full(lane), 33);  // the bytes of the codes, and the scales that each lane of a warp copies
    ptx::mbarrier_init(block.empty(lane), Shape::kWarps);
  }
  if (lane < Shape::kPartialSlots) {
    ptx::mbarrier_init(block.partial_full(lane), Shape::kWarps);
    ptx::mbarrier_init(block.partial_empty(lane), 1);
  }
  if (lane < 2 * Shape::kAdders) ptx::mbarrier_init(block.received_barrier(lane), 1);
  ptx::mbarrier_init_fence();
  __syncwarp();
}

// The chunks of A, by the warp that fetches them.
template <class Shape>
__device__ __forceinline__ void decode_init_chunks(const DecodeBlock<Shape>& block, int lane) {
  if (lane < DecodeSmem<Shape>::kAllChunks) {
    ptx::mbarrier_init(block.chunk_full(lane), 1);
    ptx::mbarrier_arrive_expect(block.chunk_full(lane), Shape::kChunkBytes);
  }
  ptx::mbarrier_init_fence();
  __syncwarp();
}

// One thread: the first chunk of every warp, then the second and so on. Rows past m and blocks past k arrive as zeros.
template <class Shape>
__device__ __forceinline__ void decode_fetch_chunks(const DecodeBlock<Shape>& block, const void* map) {
  const int part = block.end_block - block.first_block;
#pragma unroll 1
  for (int chunk = 0; chunk < DecodeSmem<Shape>::kAllChunks; ++chunk) {
    const int first = part * (chunk % Shape::kWarpsK) / Shape::kWarpsK + chunk / Shape::kWarpsK * Shape::kChunkBlocks;
    ptx::tma_load_3d(block.chunk(chunk), map, block.chunk_full(chunk), 0, 0, block.first_block + first);
  }
}

// Until the rows before are done with the stage; at first it is free, unless A comes through there.
template <class Shape>
__device__ __forceinline__ void decode_wait_for_stage(const DecodeParams& params, const DecodeBlock<Shape>& block,
                                                      const DecodeRing& ring) {
  const bool lent = Shape::kStaged && ring.index >= params.first_lent;
  ptx::mbarrier_wait(block.empty(ring.index), lent ? ring.phase ^ 1 : ring.phase);
}

// The warp that loads codes as stages fall free: at a time, the block's part of k of one row, or of 16 prepacked ones.
template <class Shape>
__device__ __forceinline__ void decode_load_codes(const DecodeParams& params, const DecodeBlock<Shape>& block) {
  constexpr int kRows = Shape::kPrepacked ? kPrepackedRows : 1;
  const int piece_bytes = (block.end_block - block.first_block) * kDecodeStepBytes * kRows;
  const int64_t pitch = static_cast<int64_t>(params.blocks) * kDecodeStepBytes * kRows;
  const uint8_t* codes = params.b + block.first_row / kRows * pitch + block.first_block * kDecodeStepBytes * kRows;
  const int rounds = block.rounds();
  DecodeRing ring{0, 1};
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    decode_wait_for_stage(params, block, ring);
    if (ptx::elect_lane()) {
      const int rows = min(Shape::kStageRows, block.end_row - block.first_row - round * Shape::kStageRows);
      const uint32_t barrier = block.full(ring.index);
      uint32_t target = block.stage(params, ring.index);
      const uint8_t* source = codes;
      const int pieces = rows / kRows;
      ptx::mbarrier_arrive_expect(barrier, pieces * piece_bytes);
#pragma unroll 8
      for (int piece = 0; piece < pieces; ++piece) {
        ptx::bulk_load(target, source, piece_bytes, barrier);
        target += params.weight_stride * kRows;
        source += pitch;
      }
    }
    __syncwarp();
    codes += Shape::kStageRows / kRows * pitch;
    ring.advance(params.stages);
  }
  decode_wait_for_cluster(block.cluster_size);
}

// The warp that loads scales, four lanes to a row. Rows keep 16-byte pieces of the scale array whole, so a row's first scale
// lies at its address modulo 16.
template <class Shape, DecodeKind kKind>
__device__ __forceinline__ void decode_load_scales(const DecodeParams& params, const DecodeBlock<Shape>& block, int lane) {
  const DecodeScaleSpan<Shape, kKind> span(params, block, block.first_row + (lane >> 2));
  const int bytes = static_cast<int>(span.end - span.begin);
  const int64_t row_pitch = static_cast<int64_t>(params.scales_per_row) * params.scale_size;
  int64_t begin = span.begin;
  int left = block.end_row - block.first_row - (lane >> 2);  // rows from this lane's on
  const int rounds = block.rounds();
  DecodeRing ring{0, 1};
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    decode_wait_for_stage(params, block, ring);
    uint32_t target = block.scales(params, ring.index) + (lane >> 2) * params.scale_stride + (lane & 3) * 16;
#pragma unroll 1
    for (int r = 0; r < Shape::kStageRows; r += 8) {
      if (r < left) {
        const int64_t row = begin + r * row_pitch;
        const int skipped = static_cast<int>(row & 15);
        const uint8_t* source = params.scales + (row - skipped) + (lane & 3) * 16;
        const int end = static_cast<int>(min(params.scale_bytes - (row - skipped), int64_t{1} << 20));
        const int wanted = skipped + bytes;
#pragma unroll 1
        for (int byte = (lane & 3) * 16; byte < wanted; byte += 64, source += 64) {
          ptx::cp_async_16(target + (byte & ~63), source, min(16, end - byte));
        }
      }
      target += 8 * params.scale_stride;
    }
    ptx::mbarrier_arrive_copies(block.full(ring.index));
    begin += Shape::kStageRows * row_pitch;
    left -= Shape::kStageRows;
    ring.advance(params.stages);
  }
  decode_wait_for_cluster(block.cluster_size);
}

}  // namespace tilewright::kernels
