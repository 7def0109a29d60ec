// The decode engine (sm_90a): few rows of A, so the time is that of reading the weights once.
//
// A cluster owns a range of weight rows and splits k among its blocks. A block streams packed rows and their scales through
// a ring of stages; its warps split the block's k (kWarpsK) and the rows of a stage (kWarpsN) and keep their part of A in
// registers throughout. Sums of warps meet in shared memory, sums of blocks in distributed shared memory, in a fixed order:
// results do not depend on timing. Weights and scales are constants, so they are fetched before the kernels this one
// depends on have finished; A, bias and the output wait for those.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_4bit/check.h"
#include "tilewright/gemm_4bit/decode_plan.h"
#include "tilewright/gemm_4bit/decode_warp.cuh"
#include "tilewright/gemm_4bit/engine_launcher.h"
#include "tilewright/gemm_4bit/smem.h"
#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/ptx/elect.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tma.cuh"
#include "tilewright/ptx/warpgroup.cuh"

namespace tilewright::kernels {

constexpr int kDecodeRowUnit = 8;  // rows are shared out among clusters in groups of this many

// What a block has to do, and where its shared memory lies.
template <class Shape>
struct DecodeBlock {
  using Smem = DecodeSmem<Shape>;
  uint32_t base;
  int cluster_size, rank;
  int first_row, end_row;      // of the weight
  int first_block, end_block;  // 64s of k

  __device__ __forceinline__ DecodeBlock(const DecodeParams& params, uint32_t shared, int size) : base(shared), cluster_size(size) {
    rank = size > 1 ? static_cast<int>(ptx::cluster_block_rank()) : 0;
    const int cluster = static_cast<int>(blockIdx.x) / size;
    const int64_t units = (params.n + kDecodeRowUnit - 1) / kDecodeRowUnit;
    first_row = static_cast<int>(units * cluster / params.clusters) * kDecodeRowUnit;
    end_row = min(params.n, static_cast<int>(units * (cluster + 1) / params.clusters) * kDecodeRowUnit);
    first_block = params.blocks * rank / size;
    end_block = params.blocks * (rank + 1) / size;
  }

  __device__ __forceinline__ int rounds() const { return (end_row - first_row + Shape::kStageRows - 1) / Shape::kStageRows; }
  __device__ __forceinline__ uint32_t full(int stage) const { return base + stage * 8; }
  __device__ __forceinline__ uint32_t received_barrier(int buffer) const { return base + (kDecodeMaxStages + buffer) * 8; }
  __device__ __forceinline__ uint32_t received(int buffer) const {
    return base + Smem::kReceivedOffset + buffer * (Smem::kReceivedBytes / 2);
  }
  __device__ __forceinline__ uint32_t partial(int buffer, int warp_k) const {
    return base + Smem::kPartialOffset + (buffer * Shape::kWarpsK + warp_k) * (Shape::kQuads * 16);
  }
  __device__ __forceinline__ uint32_t stage(const DecodeParams& params, int stage) const {
    return base + Smem::kRingOffset + stage * params.stage_bytes;
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

// Starts the copies of stage `round`: its rows' codes and scales in the block's part of k, a share by every warp. Rows keep
// 16-byte pieces of the scale array whole, so a row's first scale lies at its address modulo 16.
template <class Shape, DecodeKind kKind>
__device__ __forceinline__ void decode_fill(const DecodeParams& params, const DecodeBlock<Shape>& block, int round, int stage,
                                            int warp) {
  const int row = block.first_row + round * Shape::kStageRows;
  const int rows = min(Shape::kStageRows, block.end_row - row);
  const int row_bytes = (block.end_block - block.first_block) * kDecodeStepBytes;
  const int64_t pitch = static_cast<int64_t>(params.blocks) * kDecodeStepBytes;
  const uint8_t* weights = params.b + row * pitch + block.first_block * kDecodeStepBytes;
  const uint32_t target = block.stage(params, stage);
  const uint32_t barrier = block.full(stage);
  if (params.bulk) {
    if (ptx::elect_lane()) {
      const int count = max(0, (rows - warp + Shape::kWarps - 1) / Shape::kWarps);
      ptx::mbarrier_arrive_expect(barrier, count * row_bytes);
#pragma unroll 1
      for (int r = warp; r < rows; r += Shape::kWarps) {
        ptx::bulk_load(target + r * params.weight_stride, weights + r * pitch, row_bytes, barrier);
      }
    }
    __syncwarp();
  } else {
    const int lane_byte = static_cast<int>(threadIdx.x) % 32 * 16;
#pragma unroll 1
    for (int r = warp; r < rows; r += Shape::kWarps) {
      for (int byte = lane_byte; byte < row_bytes; byte += 512) {
        ptx::cp_async_16(target + r * params.weight_stride + byte, weights + r * pitch + byte, 16);
      }
    }
    if (ptx::elect_lane()) ptx::mbarrier_arrive(barrier);
    __syncwarp();
  }
  const uint32_t scales = block.scales(params, stage);
#pragma unroll 1
  for (int r = static_cast<int>(threadIdx.x) >> 2; r < rows; r += Shape::kThreads / 4) {
    const DecodeScaleSpan<Shape, kKind> span(params, block, row + r);
    const int64_t aligned = span.begin & ~int64_t{15};
#pragma unroll 1
    for (int64_t byte = aligned + (threadIdx.x & 3) * 16; byte < span.end; byte += 64) {
      const int valid = static_cast<int>(min(int64_t{16}, params.scale_bytes - byte));
      ptx::cp_async_16(scales + r * params.scale_stride + static_cast<int>(byte - aligned), params.scales + byte, valid);
    }
  }
  ptx::mbarrier_arrive_copies(barrier);
}

// Writes the four results of quad `index` of the stage that starts at weight row `row`.
template <class Shape>
__device__ __forceinline__ void decode_emit(const DecodeParams& params, const DecodeBlock<Shape>& block, int row, int index,
                                            float4 sum, float factor) {
  using Element = typename Shape::Element;
  using Traits = ElementTraits<Element>;
  const int lane = index & 31;
  const int m = (index >> 5) % Shape::kColumnTiles * 8 + (lane & 3) * 2;
  const int n = row + (index >> 5) / Shape::kColumnTiles * 16 + (lane >> 2);
  const float values[2][2] = {{sum.x, sum.y}, {sum.z, sum.w}};
  Element* out = static_cast<Element*>(params.out);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int column = n + 8 * r;
    if (column >= block.end_row) continue;
    const float bias = epilogue::bias_at<Element>(params.bias, column, params.n);
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (m + c < params.m) {
        out[static_cast<int64_t>(m + c) * params.n + column] = Traits::from_float(fmaf(values[r][c], factor, bias));
      }
    }
  }
}

// Waits for the sums that every block of the cluster sent for stage `round`, adds them in order of rank, writes the results.
template <class Shape>
__device__ __forceinline__ void decode_receive(const DecodeParams& params, const DecodeBlock<Shape>& block, int round,
                                               float factor) {
  const int share = Shape::kQuads / block.cluster_size;
  const int index = static_cast<int>(threadIdx.x);
  if (index >= share) return;
  const int buffer = round & 1;
  ptx::mbarrier_wait(block.received_barrier(buffer), (round >> 1) & 1);
  float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 1
  for (int source = 0; source < block.cluster_size; ++source) {
    const uint4 part = ptx::lds_128(block.received(buffer) + (source * share + index) * 16);
    sum.x += __uint_as_float(part.x);
    sum.y += __uint_as_float(part.y);
    sum.z += __uint_as_float(part.z);
    sum.w += __uint_as_float(part.w);
  }
  decode_emit(params, block, block.first_row + round * Shape::kStageRows, block.rank * share + index, sum, factor);
}

// Adds the sums of the warps along k, in order; then writes the results or sends them to the block that owns the quad.
template <class Shape>
__device__ __forceinline__ void decode_reduce(const DecodeParams& params, const DecodeBlock<Shape>& block, int round,
                                              float factor) {
  const int index = static_cast<int>(threadIdx.x);
  const int buffer = round & 1;
  if (index >= Shape::kQuads) return;
  float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int w = 0; w < Shape::kWarpsK; ++w) {
    const uint4 part = ptx::lds_128(block.partial(buffer, w) + index * 16);
    sum.x += __uint_as_float(part.x);
    sum.y += __uint_as_float(part.y);
    sum.z += __uint_as_float(part.z);
    sum.w += __uint_as_float(part.w);
  }
  if (block.cluster_size == 1) {
    decode_emit(params, block, block.first_row + round * Shape::kStageRows, index, sum, factor);
    return;
  }
  const int share = Shape::kQuads / block.cluster_size;
  const int owner = index / share;
  const uint32_t barrier = block.received_barrier(buffer);
  if (index == 0) ptx::mbarrier_arrive_expect(barrier, Shape::kQuads * 16);
  const uint32_t slot = block.received(buffer) + (block.rank * share + index - owner * share) * 16;
  ptx::store_async_float4(ptx::map_to_block(slot, owner), ptx::map_to_block(barrier, owner), sum);
}

template <class Shape, DecodeKind kKind>
__device__ __forceinline__ void decode_run(const DecodeParams& params, const DecodeBlock<Shape>& block,
                                               const DecodeExpander<typename Shape::Element, kKind != DecodeKind::kE2m1>& expander,
                                               int warp, int lane) {
  const int warp_k = warp % Shape::kWarpsK;
  const int warp_n = warp / Shape::kWarpsK;
  const int part = block.end_block - block.first_block;
  const int first = part * warp_k / Shape::kWarpsK;
  const int count = part * (warp_k + 1) / Shape::kWarpsK - first;
  ptx::wait_for_dependencies();
  DecodeActivations<Shape, kKind> activations;
  activations.load(params, block.first_block + first, count, lane);
  const float factor = kKind == DecodeKind::kE2m1 ? __ldg(params.offset) : 1.0f;

  const int tile_row = warp_n * 16 + (lane >> 2);
  const int lane_bytes = (lane & 3) * (kKind == DecodeKind::kBlock32 ? 4 : 8);
  const int rounds = block.rounds();
  int stage = 0;
  uint32_t phase = 0;
  for (int round = 0; round < rounds; ++round) {
    const int row = block.first_row + round * Shape::kStageRows + tile_row;
    ptx::mbarrier_wait(block.full(stage), phase);
    const uint32_t codes = block.stage(params, stage) + tile_row * params.weight_stride + first * kDecodeStepBytes + lane_bytes;
    const uint32_t scale_rows = block.scales(params, stage) + tile_row * params.scale_stride;
    const uint32_t scale_addresses[2] = {
        scale_rows + (static_cast<uint32_t>(DecodeScaleSpan<Shape, kKind>(params, block, row).begin) & 15u),
        scale_rows + 8 * params.scale_stride +
            (static_cast<uint32_t>(DecodeScaleSpan<Shape, kKind>(params, block, row + 8).begin) & 15u)};
    DecodeScales<Shape, kKind> scales;
    scales.load(params, scale_addresses, row, block.first_block, block.first_block + first, count,
                block.base + DecodeSmem<Shape>::kNestedOffset, lane);
    float acc[Shape::kColumnTiles][4];
    decode_tile<Shape, kKind>(acc, {codes, codes + 8 * params.weight_stride}, activations, scales, expander);
#pragma unroll
    for (int c = 0; c < Shape::kColumnTiles; ++c) {
      ptx::sts_float4(block.partial(round & 1, warp_k) + ((warp_n * Shape::kColumnTiles + c) * 32 + lane) * 16, acc[c][0],
                      acc[c][1], acc[c][2], acc[c][3]);
    }
    if (block.cluster_size > 1 && round > 0) decode_receive(params, block, round - 1, factor);
    __syncthreads();  // the stage has been read, the partial sums written
    if (round + params.stages < rounds) decode_fill<Shape, kKind>(params, block, round + params.stages, stage, warp);
    decode_reduce(params, block, round, factor);
    if (++stage == params.stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  if (block.cluster_size > 1) decode_receive(params, block, rounds - 1, factor);
}

// The table of all bytes, one copy per bank: entry `byte` of lane l at 128 byte + 4 l.
template <class Shape, class Expander>
__device__ __forceinline__ void decode_fill_lut(const Expander& expander, uint32_t table, int thread) {
  for (int i = thread; i < 256 * 8; i += Shape::kThreads) {
    uint32_t pairs[4];
    expander.template expand<false>(static_cast<uint32_t>(i >> 3), pairs);
    const float value = __uint_as_float(pairs[0]);
    ptx::sts_float4(table + i * 16, value, value, value, value);
  }
}

template <class Shape, DecodeKind kKind>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kOccupancy)
    decode_kernel(const __grid_constant__ DecodeParams params, int cluster_size) {
  using Smem = DecodeSmem<Shape>;
  extern __shared__ __align__(128) uint8_t shared[];
  ptx::release_dependents();
  const DecodeBlock<Shape> block(params, ptx::shared_address(shared), cluster_size);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (warp == 0) {
    // each warp says how many bytes it expects, each thread when its scales have come
    if (lane < params.stages) ptx::mbarrier_init(block.full(lane), Shape::kWarps + Shape::kThreads);
    if (lane < 2) ptx::mbarrier_init(block.received_barrier(lane), 1);
    ptx::mbarrier_init_fence();
  }
  __syncthreads();
  const int early = min(params.stages, block.rounds());
#pragma unroll 1
  for (int round = 0; round < early; ++round) decode_fill<Shape, kKind>(params, block, round, round, warp);

  DecodeExpander<typename Shape::Element, kKind != DecodeKind::kE2m1> expander;
  expander.tables = dequant::nibble_tables<typename Shape::Element>(params.quant_type);
  expander.lut = block.base + Smem::kLutOffset;
  expander.lut_lane = lane * 4;
  if constexpr (Shape::kLut > 0) {
    decode_fill_lut<Shape>(expander, block.base + Smem::kLutOffset, static_cast<int>(threadIdx.x));
  }
  if (params.nested_code != nullptr) {
    float* table = reinterpret_cast<float*>(shared + Smem::kNestedOffset);
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += Shape::kThreads) table[i] = __ldg(params.nested_code + i);
  }
  if (cluster_size > 1) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  decode_run<Shape, kKind>(params, block, expander, warp, lane);
}

}  // namespace tilewright::kernels

namespace tilewright {

namespace host {

// How many clusters of each size run at once with one block to a multiprocessor; asked once per device and kernel.
class DecodeClusters {
 public:
  cudaError_t get(const void* kernel, int threads, int cluster, int& clusters) {
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
    int slot = 0;
    while (1 << slot < cluster) ++slot;
    if (device < kMaxDevices && (clusters = known_[device][slot].load(std::memory_order_relaxed)) > 0) return cudaSuccess;
    const ClusterLaunch launch{dim3(cluster), dim3(threads), kWholeMultiprocessor, static_cast<unsigned>(cluster), false};
    const cudaError_t error = max_active_clusters(kernel, launch, device, clusters);
    if (error == cudaSuccess && device < kMaxDevices) known_[device][slot].store(clusters, std::memory_order_relaxed);
    return error;
  }
  static constexpr int kWholeMultiprocessor = 200 * 1024;  // no room for a second block

 private:
  static constexpr int kMaxDevices = 64;
  std::atomic<int> known_[kMaxDevices][4]{};
};

inline int64_t round_up(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

}  // namespace host

// Sizes of a stage of the ring and its depth; false when two stages do not fit or k is too long for the tile.
template <class Shape>
bool plan_decode_stages(const Gemm4bitArgs& args, const DecodeTuning& tuning, DecodeParams& params) {
  const int part = static_cast<int>(host::ceil_div(params.blocks, tuning.cluster));
  if (host::ceil_div(part, Shape::kWarpsK) > Shape::kKb) return false;
  params.weight_stride = static_cast<int>(host::round_up(part * kernels::kDecodeStepBytes, 128)) + 32;
  const int64_t scales = host::ceil_div(int64_t{part} * 64, args.blocksize) + 1;
  params.scale_stride = static_cast<int>(host::round_up(scales * params.scale_size, 16) + 16) | 16;
  params.stage_bytes = Shape::kStageRows * (params.weight_stride + params.scale_stride);
  const int stages = tuning.ring_kb * 1024 / params.stage_bytes;
  params.stages = stages < kDecodeMaxStages ? stages : kDecodeMaxStages;
  return stages >= 2;
}

template <class Shape, kernels::DecodeKind kKind>
cudaError_t launch_decode_kind(const Gemm4bitArgs& args, DecodeParams params, const DecodeTuning& tuning, cudaStream_t stream) {
  static host::SmemOptIn opt_in;
  static host::DecodeClusters known;
  const auto kernel = &kernels::decode_kernel<Shape, kKind>;
  const void* address = reinterpret_cast<const void*>(kernel);
  const int smem = DecodeSmem<Shape>::bytes(tuning.ring_kb);
  const int limit = smem > host::DecodeClusters::kWholeMultiprocessor ? smem : host::DecodeClusters::kWholeMultiprocessor;
  if (const cudaError_t error = opt_in.ensure(address, limit); error != cudaSuccess) return error;
  int clusters = args.num_sms / tuning.cluster;
  if (tuning.cluster > 1) {
    int resident = 0;
    if (const cudaError_t error = known.get(address, Shape::kThreads, tuning.cluster, resident); error != cudaSuccess) return error;
    clusters = clusters < resident ? clusters : resident;
  }
  if (clusters < 1) return cudaErrorInvalidValue;
  const int64_t units = host::ceil_div(args.n, kernels::kDecodeRowUnit);
  params.clusters = units < clusters ? static_cast<int>(units) : clusters;
  const host::ClusterLaunch launch{dim3(params.clusters * tuning.cluster), dim3(Shape::kThreads), smem,
                                   static_cast<unsigned>(tuning.cluster), true};
  return host::launch_cluster_kernel(kernel, launch, stream, params, tuning.cluster);
}

// cudaErrorNotSupported: M above kMb, K no multiple of 64 or of the blocksize, or too long for the tile's warps.
template <class Shape>
cudaError_t launch_decode_shape(const Gemm4bitArgs& args, const DecodeTuning& tuning, cudaStream_t stream) {
  if (const cudaError_t error = host::check_gemm_4bit(args, ElementTraits<typename Shape::Element>::kDType);
      error != cudaSuccess) {
    return error;
  }
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  if (args.m > Shape::kMb || args.k % 64 != 0 || args.k == 0 || args.k % args.blocksize != 0) return cudaErrorNotSupported;
  if (args.n > (int64_t{1} << 30) || args.k > (int64_t{1} << 24)) return cudaErrorNotSupported;
  if (!host::is_aligned(args.a, 16) || args.lda % 8 != 0 || !host::is_aligned(args.b, 16) ||
      !host::is_aligned(args.scales, 16)) {
    return cudaErrorMisalignedAddress;
  }
  const bool e2m1 = args.quant_type == QuantType::kE2m1;
  DecodeParams params{};
  params.a = args.a;
  params.b = args.b;
  params.scales = static_cast<const uint8_t*>(args.scales);
  params.nested_absmax = args.nested_absmax;
  params.nested_code = args.nested_code;
  params.offset = args.offset;
  params.bias = args.bias;
  params.out = args.out;
  params.lda = args.lda;
  params.m = static_cast<int>(args.m);
  params.n = static_cast<int>(args.n);
  params.blocks = static_cast<int>(args.k / 64);
  params.scales_per_row = static_cast<int>(args.k / args.blocksize);
  params.scale_size = e2m1 || args.nested_absmax != nullptr ? 1 : 4;
  params.scale_bytes = args.n * params.scales_per_row * params.scale_size;
  for (int size = 64; size < args.blocksize; size *= 2) ++params.block_shift;
  params.quant_type = args.quant_type;
  params.bulk = tuning.bulk;
  if (!plan_decode_stages<Shape>(args, tuning, params)) return cudaErrorNotSupported;
  if (e2m1) return launch_decode_kind<Shape, kernels::DecodeKind::kE2m1>(args, params, tuning, stream);
  if (args.blocksize == 32) return launch_decode_kind<Shape, kernels::DecodeKind::kBlock32>(args, params, tuning, stream);
  if (args.nested_absmax != nullptr) {
    return launch_decode_kind<Shape, kernels::DecodeKind::kBlock64Nested>(args, params, tuning, stream);
  }
  return launch_decode_kind<Shape, kernels::DecodeKind::kBlock64>(args, params, tuning, stream);
}

}  // namespace tilewright
