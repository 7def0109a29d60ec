// The decode engine's kernel for Hopper: weights and A by bulk tensor copies into a ring of swizzled stages, one
// loading warp, one or two multiplying warpgroups that have the weight as the 64-row side of wgmma. Blocks of a cluster
// may share out k.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/gemm_fp8/decode_bulk_multiply.cuh"
#include "tilewright/gemm_fp8/decode_bulk_plan.h"
#include "tilewright/gemm_fp8/decode_bulk_stream.cuh"
#include "tilewright/gemm_fp8/mma_check.h"
#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/host/tensor_map.h"

namespace tilewright::gemm_fp8 {
namespace kernels {

template <class Config, bool kBlock, bool kE5m2>
__global__ void __launch_bounds__(DecodeBulkLayout<Config>::kThreads, Config::kOccupancy)
    gemm_fp8_decode_bulk_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                                const __grid_constant__ DecodeBulkParams params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kAlignment = DecodeBulkLayout<Config>::kAlignment;
  extern __shared__ uint8_t dynamic_smem[];
  const uint32_t window = ptx::shared_address(dynamic_smem);
  const DecodeBulkShared<Config> shared{(window + kAlignment - 1) / kAlignment * kAlignment};
  const DecodeBulkShare<Config> share(params);
  DecodeBulkProducer<Config> producer(&map_a, &map_b, params, share, shared);
  const bool loads = threadIdx.x == 32 * Config::kWarps;
  if (loads) {
    ptx::tma_prefetch_map(&map_b);
    ptx::tma_prefetch_map(&map_a);
    producer.initialise();
    if (params.fresh) ptx::wait_for_dependencies();
    producer.start();
  }
  DecodeBulkConsumer<Config, kBlock, kE5m2> consumer(params, share, shared);
  if (threadIdx.x < 32 * Config::kWarps) consumer.clear_unused_rows();
  __syncthreads();
  if constexpr (Config::kCluster > 1) ptx::cluster_arrive();  // other blocks send sums once this one's barriers stand
  if (threadIdx.x >= 32 * Config::kWarps) {
    if (loads) producer.run();
    __syncwarp();
    if constexpr (Config::kCluster > 1) ptx::cluster_wait();
  } else {
    ptx::wait_for_dependencies();
    consumer.run();
  }
#endif
}

}  // namespace kernels

template <class Config>
DecodeBulkParams decode_bulk_params(const GemmFp8Args& args, int64_t slots) {
  constexpr int64_t kElement = sizeof(typename Config::Element);
  DecodeBulkParams params{};
  params.scale_a = args.scale_a;
  params.scale_b = args.scale_b;
  params.bias = args.bias;
  params.out = args.out;
  params.ldo = args.ldo;
  params.scale_steps = scale_steps_of(args);
  params.m = static_cast<int>(args.m);
  params.n = static_cast<int>(args.n);
  params.units = static_cast<int>(ceil_div(args.k, 128));
  params.tile_rows = static_cast<int>(best_tile_rows(args.n, slots, DecodeBulkLayout<Config>::kRows));
  params.tiles = static_cast<int>(ceil_div(args.n, params.tile_rows));
  params.fresh = args.fresh_weights;
  params.wide = args.ldo % 4 == 0 && lies_on(args.out, 4 * kElement);
  return params;
}

template <class Config, bool kBlock, bool kE5m2>
cudaError_t launch_decode_bulk(const GemmFp8Args& args, const DecodeBulkParams& params, int64_t clusters,
                               cudaStream_t stream) {
  using Layout = DecodeBulkLayout<Config>;
  const int64_t units = ceil_div(params.units, Config::kCluster);
  const int64_t tiles = ceil_div(params.tiles, clusters);
  const int64_t scales = kBlock ? units * (Config::kMb + 2 * tiles) * 4 : 0;
  if (scales > Config::kAKb * 1024) return cudaErrorNotSupported;
  static host::SmemOptIn opt_in;
  const auto kernel = &kernels::gemm_fp8_decode_bulk_kernel<Config, kBlock, kE5m2>;
  cudaError_t error = opt_in.ensure(reinterpret_cast<const void*>(kernel), Layout::kBytes);
  if (error != cudaSuccess) return error;
  const host::TensorMapKey key_a{args.a,      args.m, args.k, args.lda, static_cast<uint32_t>(args.m),
                                 128,         CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_SWIZZLE_128B};
  const host::TensorMapKey key_b{args.b,   args.n, args.k, args.ldb, static_cast<uint32_t>(params.tile_rows),
                                 128,      CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_SWIZZLE_128B};
  CUtensorMap map_a, map_b;
  error = host::make_tensor_map(key_a, map_a);
  if (error == cudaSuccess) error = host::make_tensor_map(key_b, map_b);
  if (error != cudaSuccess) return error;
  const host::ClusterLaunch launch{dim3(static_cast<unsigned>(clusters * Config::kCluster)), dim3(Layout::kThreads),
                                   Layout::kLeastBytes + static_cast<int>(scales), Config::kCluster, true};
  return host::launch_cluster_kernel(kernel, launch, stream, map_a, map_b, params);
}

// As the mma.sync kernel, for sm_90 alone. Without a cluster every N; with one, cudaErrorNotSupported for more tiles
// than clusters. Scales of Scaling::kBlock that exceed kAKb: cudaErrorNotSupported.
template <class Config>
cudaError_t decode_by_bulk(const GemmFp8Args& args, cudaStream_t stream) {
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;
  if (major != 9) return cudaErrorNotSupported;
  const int64_t blocks = int64_t{args.num_sms} * Config::kPerSm;
  const int64_t slots = blocks < Config::kCluster ? 1 : blocks / Config::kCluster;
  const DecodeBulkParams params = decode_bulk_params<Config>(args, slots);
  const int64_t rounds = ceil_div(params.tiles, slots);
  if (Config::kCluster > 1 && rounds > 1) return cudaErrorNotSupported;
  const int64_t clusters = ceil_div(params.tiles, rounds);
  const bool e5m2 = args.a_type == Fp8Type::kE5m2;
  if (args.scaling == Scaling::kBlock) {
    return e5m2 ? launch_decode_bulk<Config, true, true>(args, params, clusters, stream)
                : launch_decode_bulk<Config, true, false>(args, params, clusters, stream);
  }
  return e5m2 ? launch_decode_bulk<Config, false, true>(args, params, clusters, stream)
              : launch_decode_bulk<Config, false, false>(args, params, clusters, stream);
}

}  // namespace tilewright::gemm_fp8
