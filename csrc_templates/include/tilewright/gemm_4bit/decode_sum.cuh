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
    share = Shape::kQuads / block.cluster_size;
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

// Waits for what every block of the cluster sent for stage `round`, adds it in order of rank, writes the results.
template <class Shape>
__device__ __forceinline__ void decode_receive(const DecodeParams& params, const DecodeBlock<Shape>& block,
                                               const DecodeOutlet<Shape>& outlet, int round, float factor, int lane) {
  const int buffer = round % (2 * Shape::kAdders);
  ptx::mbarrier_wait(block.received_barrier(buffer), round / (2 * Shape::kAdders) & 1);
#pragma unroll
  for (int q = 0; q < outlet.kQuadsPerLane; ++q) {
    if (q * 32 >= outlet.share) break;
    if (q * 32 + lane < outlet.share) {
      float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
      uint32_t part = block.received(buffer) + (q * 32 + lane) * 16;
#pragma unroll 2
      for (int source = 0; source < block.cluster_size; ++source, part += outlet.share * 16) {
        decode_add(sum, ptx::lds_128(part));
      }
      outlet.emit(params, block.end_row, q, block.first_row + round * Shape::kStageRows, sum, factor);
    }
  }
  __syncwarp();
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

// Adder `adder` of kAdders: every kAdders-th stage.
template <class Shape, DecodeKind kKind>
__device__ __forceinline__ void decode_add_up(const DecodeParams& params, const DecodeBlock<Shape>& block, int adder, int lane) {
  constexpr int kSlots = Shape::kPartialSlots;
  const DecodeOutlet<Shape> outlet(params, block, lane);
  decode_meet<Shape>(block.cluster_size);
  ptx::wait_for_dependencies();
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
#pragma unroll
      for (int q = 0; q < Shape::kQuads / 32; ++q) {
        outlet.emit(params, block.end_row, q, block.first_row + round * Shape::kStageRows, sums[q], factor);
      }
    } else {
      if (round >= Shape::kAdders) decode_receive(params, block, outlet, round - Shape::kAdders, factor, lane);
      decode_send(block, outlet.share, round, sums, lane);
    }
  }
  if (block.cluster_size > 1 && round > adder) decode_receive(params, block, outlet, round - Shape::kAdders, factor, lane);
}

}  // namespace tilewright::kernels
