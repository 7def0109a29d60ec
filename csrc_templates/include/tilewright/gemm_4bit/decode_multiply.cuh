// The warps of the decode engine that multiply: tables, A, then round after round of rows.
#pragma once

#include <cstdint>

#include "tilewright/gemm_4bit/decode_block.cuh"
#include "tilewright/gemm_4bit/decode_plan.h"
#include "tilewright/gemm_4bit/decode_warp.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/warpgroup.cuh"

namespace tilewright::kernels {

// The table of all bytes, one copy per bank.
template <class Shape, class Expander>
__device__ __forceinline__ void decode_fill_lut(const Expander& expander, int thread) {
  for (int byte = thread; byte < 256; byte += Shape::kWarps * 32) {
    uint32_t pairs[4];
    expander.expand(false, static_cast<uint32_t>(byte), pairs);
    const float value = __uint_as_float(pairs[0]);
    const uint32_t row = expander.lut + byte * DecodeSmem<Shape>::kLutPitch;
#pragma unroll
    for (int i = 0; i < 8; ++i) ptx::sts_float4(row + ((i + thread) & 7) * 16, value, value, value, value);
  }
}

// A from shared memory into registers; then stages may fill where it lay, and the table takes its place.
template <class Shape, DecodeKind kKind, class Expander>
__device__ __forceinline__ void decode_take_chunks(const DecodeParams& params, const DecodeBlock<Shape>& block,
                                                   DecodeActivations<Shape, kKind>& activations, const Expander& expander,
                                                   int warp_k, int count, int lane) {
#pragma unroll
  for (int i = 0; i < Shape::kChunks; ++i) {
    const int chunk = i * Shape::kWarpsK + warp_k;
    ptx::mbarrier_wait(block.chunk_full(chunk), 0);
    activations.take_chunk(block.chunk(chunk), i, count, lane);
  }
  __syncwarp();
  if (lane == 0) {
    for (int stage = params.first_lent; stage < params.stages; ++stage) ptx::mbarrier_arrive(block.empty(stage));
  }
  ptx::named_barrier_sync(3, Shape::kWarps * 32);  // table and sums lie where other warps may yet read A
  if constexpr (Shape::kLut > 0) {
    decode_fill_lut<Shape>(expander, static_cast<int>(threadIdx.x));
    ptx::named_barrier_sync(3, Shape::kWarps * 32);
  }
}

// A multiplying warp.
template <class Shape, DecodeKind kKind>
__device__ __forceinline__ void decode_run(const DecodeParams& params, const DecodeBlock<Shape>& block,
                                           const DecodeExpander<Shape, kKind != DecodeKind::kE2m1>& expander,
                                           int warp, int lane) {
  const int warp_k = warp % Shape::kWarpsK;
  const int warp_n = warp / Shape::kWarpsK;
  const int part = block.end_block - block.first_block;
  const int first = part * warp_k / Shape::kWarpsK;
  const int count = part * (warp_k + 1) / Shape::kWarpsK - first;
  DecodeActivations<Shape, kKind> activations;
  if constexpr (Shape::kStaged) {
    decode_take_chunks(params, block, activations, expander, warp_k, count, lane);
  } else {
    ptx::wait_for_dependencies();
    activations.load(params, block.first_block + first, count, lane);
  }

  const int tile_row = warp_n * 16 + (lane >> 2);
  const int lane_bytes = Shape::kPrepacked ? warp_n * 16 * params.weight_stride + first * kPrepackedBlockBytes + lane * 16
                                           : tile_row * params.weight_stride + first * kDecodeStepBytes +
                                                 (lane & 3) * (kKind == DecodeKind::kBlock32 ? 4 : 8);
  const int rounds = block.rounds();
  DecodeRing stage, slot{0, 1};
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const int row = block.first_row + round * Shape::kStageRows + tile_row;
    ptx::mbarrier_wait(block.full(stage.index), stage.phase);
    const uint32_t codes = block.stage(params, stage.index) + lane_bytes;
    const uint32_t scale_rows = block.scales(params, stage.index) + tile_row * params.scale_stride;
    const uint32_t scale_addresses[2] = {
        scale_rows + (static_cast<uint32_t>(DecodeScaleSpan<Shape, kKind>(params, block, row).begin) & 15u),
        scale_rows + 8 * params.scale_stride +
            (static_cast<uint32_t>(DecodeScaleSpan<Shape, kKind>(params, block, row + 8).begin) & 15u)};
    DecodeScales<Shape, kKind> scales;
    scales.load(params, scale_addresses, row, block.first_block, block.first_block + first, count,
                block.base + DecodeSmem<Shape>::kNestedOffset, lane);
    float acc[Shape::kColumnTiles][4];
    decode_tile<Shape, kKind>(acc, {codes, codes + 8 * params.weight_stride}, count, activations, scales, expander);
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(block.empty(stage.index));
    ptx::mbarrier_wait(block.partial_empty(slot.index), slot.phase);
#pragma unroll
    for (int c = 0; c < Shape::kColumnTiles; ++c) {
      ptx::sts_float4(block.partial(slot.index, warp_k) + ((warp_n * Shape::kColumnTiles + c) * 32 + lane) * 16, acc[c][0],
                      acc[c][1], acc[c][2], acc[c][3]);
    }
    __syncwarp();
    if (lane == 0) ptx::mbarrier_arrive(block.partial_full(slot.index));
    stage.advance(params.stages);
    slot.advance(Shape::kPartialSlots);
  }
  if constexpr (Shape::kStaged) decode_wait_for_cluster(block.cluster_size);
}

// The warps that multiply: they make the tables, unless A has to come through there first, then meet the others.
template <class Shape, DecodeKind kKind>
__device__ __forceinline__ void decode_work(const DecodeParams& params, const DecodeBlock<Shape>& block, int warp, int lane) {
  const int thread = static_cast<int>(threadIdx.x);
  DecodeExpander<Shape, kKind != DecodeKind::kE2m1> expander;
  expander.tables = dequant::nibble_tables<typename Shape::Element>(params.quant_type);
  expander.lut = block.base + DecodeSmem<Shape>::kLutOffset;
  expander.lut_lane = lane * 4;
  if constexpr (Shape::kLut > 0 && !Shape::kStaged) decode_fill_lut<Shape>(expander, thread);
  constexpr bool kMayNest = kKind == DecodeKind::kBlock64Nested || kKind == DecodeKind::kBlock32;
  if (kMayNest && params.nested_code != nullptr) {
#pragma unroll 1
    for (int i = thread; i < 256; i += Shape::kWarps * 32) {
      ptx::sts_float(block.base + DecodeSmem<Shape>::kNestedOffset + i * 4, __ldg(params.nested_code + i));
    }
  }
  decode_meet<Shape>(block.cluster_size);
  decode_run<Shape, kKind>(params, block, expander, warp, lane);
}

}  // namespace tilewright::kernels
