// The decode engine (sm_90a): few rows of A, so the time is that of reading the weights once.
//
// A cluster owns a range of weight rows and splits k among its blocks. In a block two warps stream packed rows and their
// scales through a ring of stages; kWarpsK * kWarpsN warps split the block's k and the rows of a stage, keep their part of A
// in registers throughout (where that is much, it gets there through shared memory that the ring lends) and never wait for
// each other; kAdders warps add up what those leave in shared memory and, across the cluster, what blocks send each other,
// in a fixed order: results do not depend on timing. Weights and scales are constants, so they are fetched before the
// kernels this one depends on have finished; A and the output wait for those.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "tilewright/gemm_4bit/check.h"
#include "tilewright/gemm_4bit/decode_block.cuh"
#include "tilewright/gemm_4bit/decode_multiply.cuh"
#include "tilewright/gemm_4bit/decode_plan.h"
#include "tilewright/gemm_4bit/decode_sum.cuh"
#include "tilewright/gemm_4bit/engine_launcher.h"
#include "tilewright/gemm_4bit/smem.h"
#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/host/tensor_map.h"
#include "tilewright/ptx/warpgroup.cuh"

namespace tilewright::kernels {

template <class Shape, DecodeKind kKind>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kOccupancy)
    decode_kernel(const __grid_constant__ DecodeParams params, const __grid_constant__ CUtensorMap map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) uint8_t shared[];
  ptx::release_dependents();
  const DecodeBlock<Shape> block(params, ptx::shared_address(shared));
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (warp < Shape::kWarps) {
    ptx::setmaxnreg_inc<Shape::kWorkRegisters>();
    decode_work<Shape, kKind>(params, block, warp, lane);
  } else {
    ptx::setmaxnreg_dec<Shape::kServiceRegisters>();
    if (warp == Shape::kWarps) {
      decode_init_barriers(params, block, lane);
      ptx::named_barrier_sync(1, 64);
      decode_announce<Shape>(block.cluster_size);
      decode_load_codes(params, block);
    } else if (warp == Shape::kWarps + 1) {
      ptx::named_barrier_sync(1, 64);
      decode_announce<Shape>(block.cluster_size);
      decode_load_scales<Shape, kKind>(params, block, lane);
    } else {
      decode_add_up<Shape, kKind>(params, block, &map, warp - Shape::kWarps - 2, lane);
    }
  }
#endif
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

// Sizes of a stage of the ring, its depth and place; false when two stages or A do not fit or k is too long for the tile.
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
  params.ring_end = DecodeSmem<Shape>::kRingOffset + tuning.ring_kb * 1024;
  const int undisturbed = (params.ring_end - DecodeSmem<Shape>::kChunksEnd) / params.stage_bytes;
  params.first_lent = undisturbed < params.stages ? undisturbed : params.stages;
  return stages >= 2 && DecodeSmem<Shape>::kChunksEnd <= params.ring_end;
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
  clusters *= tuning.per_sm;
  if (clusters < 1) return cudaErrorInvalidValue;
  const int64_t units = host::ceil_div(args.n, kernels::kDecodeRowUnit<Shape>);
  params.clusters = units < clusters ? static_cast<int>(units) : clusters;
  params.units_each = static_cast<uint64_t>(host::ceil_div(units << 32, params.clusters));
  while (1 << params.cluster_shift < tuning.cluster) ++params.cluster_shift;
  CUtensorMap map{};
  if constexpr (Shape::kStaged) {
    const host::SlicedMapKey key{args.a, args.m, args.k, args.lda * 2, Shape::kMb, Shape::kChunkBlocks};
    if (const cudaError_t error = host::make_sliced_map(key, map); error != cudaSuccess) return error;
  }
  const host::ClusterLaunch launch{dim3(params.clusters * tuning.cluster), dim3(Shape::kThreads), smem,
                                   static_cast<unsigned>(tuning.cluster), !args.fresh_weights};
  return host::launch_cluster_kernel(kernel, launch, stream, params, map);
}

template <class Shape>
cudaError_t launch_decode_layout(const Gemm4bitArgs& args, const DecodeParams& params, const DecodeTuning& tuning,
                                 cudaStream_t stream) {
  using kernels::DecodeKind;
  if (args.quant_type == QuantType::kE2m1) return launch_decode_kind<Shape, DecodeKind::kE2m1>(args, params, tuning, stream);
  if (args.blocksize == 32) return launch_decode_kind<Shape, DecodeKind::kBlock32>(args, params, tuning, stream);
  if (args.nested_absmax != nullptr) {
    return launch_decode_kind<Shape, DecodeKind::kBlock64Nested>(args, params, tuning, stream);
  }
  return launch_decode_kind<Shape, DecodeKind::kBlock64>(args, params, tuning, stream);
}

// cudaErrorNotSupported: prepacked weights of N no multiple of 16, M above kMb, K no multiple of 64 or of the blocksize, or too
// long for the tile's warps.
template <class Shape>
cudaError_t launch_decode_shape(const Gemm4bitArgs& args, const DecodeTuning& tuning, cudaStream_t stream) {
  if (const cudaError_t error = host::check_gemm_4bit(args, ElementTraits<typename Shape::Element>::kDType);
      error != cudaSuccess) {
    return error;
  }
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  if (args.m > Shape::kMb || args.k % 64 != 0 || args.k == 0 || args.k % args.blocksize != 0) return cudaErrorNotSupported;
  if (args.layout == WeightLayout::kPrepacked && args.n % kPrepackedRows != 0) return cudaErrorNotSupported;
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
  if (!plan_decode_stages<Shape>(args, tuning, params)) return cudaErrorNotSupported;
  return args.layout == WeightLayout::kPrepacked
             ? launch_decode_layout<DecodePrepacked<Shape>>(args, params, tuning, stream)
             : launch_decode_layout<Shape>(args, params, tuning, stream);
}

// Carries the tile in its name, so that a kernel in the binary says which tile it is.
template <class Config>
struct DecodeConfigShape : DecodeShape<typename Config::Element, Config::kMb, Config::kKb, Config::kWarpsK,
                                       Config::kWarpsN, Config::kLut, Config::kOccupancy> {};

template <>
struct EngineLauncher<Engine::kDecode> {
  template <class Config>
  static cudaError_t launch(const Gemm4bitArgs& args, cudaStream_t stream) {
    using Shape = DecodeConfigShape<Config>;
    return launch_decode_shape<Shape>(args, {Config::kCluster, Config::kRingKb, Config::kPerSm}, stream);
  }
};

}  // namespace tilewright
