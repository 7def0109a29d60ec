// The warps of the decode engine that add up: over the warps of a block, over the blocks of a cluster, always in one order.
//
// A stage's results are quads: float4 `index` holds, for lane = index % 32, g = lane / 4, t = lane % 4 and tile = index / 32,
// weight rows g and g + 8 of row tile tile / kColumnTiles by rows 2 t and 2 t + 1 of column tile tile % kColumnTiles.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_4bit/decode_block.cuh"
#include "tilewright/ptx/lds.cuh"

namespace tilewright::kernels {

__device__ __forceinline__ void decode_add(float4& sum, uint4 part) {
  sum.x += __uint_as_float(part.x);
  sum.y += __uint_as_float(part.y);
  sum.z += __uint_as_float(part.z);
  sum.w += __uint_as_float(part.w);
}

// Where a lane's quads of the block's share go: quads rank * share + lane, + 32 and so on.
template <class Shape>
struct DecodeOutlet {
  using Element = typename Shape::Element;
  static constexpr int kQuadsPerLane = Shape::kQuads / 32;
  Element* target[kQuadsPerLane];  // of the first value, less the stage's first row
  int row[kQuadsPerLane];          // the first weight row within the stage
  int columns[kQuadsPerLane];      // rows of A that exist: 0, 1 or 2
  int share;

  __device__ __forceinline__ DecodeOutlet(const DecodeParams& params, const DecodeBlock<Shape>& block, int lane) {
    share = Shape::kQuads >> params.cluster_shift;
#pragma unroll
    for (int q = 0; q < kQuadsPerLane; ++q) {
      const int index = block.rank * share + q * 32 + lane;
      const int tile = index >> 5;
      const int m = tile % Shape::kColumnTiles * 8 + (index & 3) * 2;
      row[q] = tile / Shape::kColumnTiles * 16 + ((index >> 2) & 7);
      columns[q] = q * 32 + lane < share ? max(0, min(2, params.m - m)) : 0;
      target[q] = static_cast<Element*>(params.out) + static_cast<int64_t>(m) * params.n + row[q];
    }
  }

  // `first` is the stage's first weight row.
  __device__ __forceinline__ void emit(const DecodeParams& params, int end_row, int q, int first, float4 sum,
                                       float factor) const {
    using Traits = ElementTraits<Element>;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int n = first + row[q] + 8 * r;
      if (n >= end_row || columns[q] == 0) continue;
      const float bias = params.bias == nullptr ? 0.0f : Traits::to_float(static_cast<const Element*>(params.bias)[n]);
      Element* place = target[q] + first + 8 * r;
      place[0] = Traits::from_float(fmaf(r == 0 ? sum.x : sum.z, factor, bias));
      if (columns[q] == 2) place[params.n] = Traits::from_float(fmaf(r == 0 ? sum.y : sum.w, factor, bias));
    }
  }
};

// What a lane of a block receives: a block has half of a stage's quads or less.
template <class Shape>
struct DecodeReceived {
  static constexpr int kCount = (Shape::kQuads / 2 + 31) / 32;
  float4 sums[kCount];
};

// Waits for what every block of the cluster sent for stage `round` and adds it in order of rank.
template <class Shape>
__device__ __forceinline__ DecodeReceived<Shape> decode_receive(const DecodeBlock<Shape>& block, int share, int round,
                                                                int lane) {
  const int buffer = round % (2 * Shape::kAdders);
  ptx::mbarrier_wait(block.received_barrier(buffer), round / (2 * Shape::kAdders) & 1);
  DecodeReceived<Shape> received;
#pragma unroll
  for (int q = 0; q < received.kCount; ++q) {
    received.sums[q] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (q * 32 + lane < share) {
      uint32_t part = block.received(buffer) + (q * 32 + lane) * 16;
#pragma unroll 2
      for (int source = 0; source < block.cluster_size; ++source, part += share * 16) {
        decode_add(received.sums[q], ptx::lds_128(part));
      }
    }
  }
  __syncwarp();
  return received;
}

template <class Shape, int kCount>
__device__ __forceinline__ void decode_emit(const DecodeParams& params, const DecodeBlock<Shape>& block,
                                            const DecodeOutlet<Shape>& outlet, int round, const float4 (&sums)[kCount],
                                            float factor) {
#pragma unroll
  for (int q = 0; q < kCount; ++q) {
    outlet.emit(params, block.end_row, q, block.first_row + round * Shape::kStageRows, sums[q], factor);
  }
}

// Sends each quad to the block that owns it. The buffer is free: this warp has received the round before in the same line of
// rounds, so its fellows in all blocks had finished with the buffer when they sent that one.
template <class Shape>
__device__ __forceinline__ void decode_send(const DecodeBlock<Shape>& block, int share, int round,
                                            const float4 (&sums)[Shape::kQuads / 32], int lane) {
  const int buffer = round % (2 * Shape::kAdders);
  const uint32_t barrier = block.received_barrier(buffer);
  if (lane == 0) ptx::mbarrier_arrive_expect(barrier, Shape::kQuads * 16);
  const int share_shift = 31 - __clz(share);
#pragma unroll
  for (int q = 0; q < Shape::kQuads / 32; ++q) {
    const int index = q * 32 + lane;
    const int owner = index >> share_shift;
    const uint32_t slot = block.received(buffer) + (block.rank * share + (index & (share - 1))) * 16;
    ptx::store_async_float4(ptx::map_to_block(slot, owner), ptx::map_to_block(barrier, owner), sums[q]);
  }
}

// Adder `adder` of kAdders: every kAdders-th stage. The first one fetches A, which lies where `map` says.
template <class Shape, DecodeKind kKind>
__device__ __forceinline__ void decode_add_up(const DecodeParams& params, const DecodeBlock<Shape>& block, const void* map,
                                              int adder, int lane) {
  constexpr int kSlots = Shape::kPartialSlots;
  const bool fetches = Shape::kStaged && adder == 0;
  if (fetches) {
    if (lane == 0) ptx::tma_prefetch_map(map);
    decode_init_chunks(block, lane);
  }
  const DecodeOutlet<Shape> outlet(params, block, lane);
  decode_meet<Shape>(block.cluster_size);
  if constexpr (Shape::kStaged) decode_wait_for_cluster(block.cluster_size);
  ptx::wait_for_dependencies();
  if (fetches && lane == 0) decode_fetch_chunks(block, map);
  __syncwarp();
  const float factor = kKind == DecodeKind::kE2m1 ? __ldg(params.offset) : 1.0f;
  const int rounds = block.rounds();
  int round = adder;
#pragma unroll 1
  for (; round < rounds; round += Shape::kAdders) {
    const int slot = round % kSlots;
    ptx::mbarrier_wait(block.partial_full(slot), round / kSlots & 1);
    float4 sums[Shape::kQuads / 32];
#pragma unroll
    for (int q = 0; q < Shape::kQuads / 32; ++q) {
      sums[q] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int w = 0; w < Shape::kWarpsK; ++w) decode_add(sums[q], ptx::lds_128(block.partial(slot, w) + (q * 32 + lane) * 16));
    }
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(block.partial_empty(slot));
    if (block.cluster_size == 1) {
      decode_emit(params, block, outlet, round, sums, factor);
    } else {
      // Sent before the older ones are written: other blocks wait for these.
      const int before = round - Shape::kAdders;
      DecodeReceived<Shape> received;
      if (before >= 0) received = decode_receive(block, outlet.share, before, lane);
      decode_send(block, outlet.share, round, sums, lane);
      if (before >= 0) decode_emit(params, block, outlet, before, received.sums, factor);
    }
  }
  if (block.cluster_size > 1 && round > adder) {
    const DecodeReceived<Shape> received = decode_receive(block, outlet.share, round - Shape::kAdders, lane);
    decode_emit(params, block, outlet, round - Shape::kAdders, received.sums, factor);
  }
}

}  // namespace tilewright::kernels
