// The decode engine of gemm_fp8: few rows of A, so the time is that of reading the weights once (sm_89 and later; dependent
// launches from sm_90 on).
//
// A block owns a range of weight rows and splits k among its warps. A warp streams the weights, and A along with them, through
// rings of its own, and multiplies kTiles tiles of 16 rows by each part of A; it waits for nobody until its part of k is done.
// Then the sums of the warps are added up in a fixed order: results do not depend on timing. Weights and their scales are
// constants, so they are fetched before the kernels this one depends on have finished; the rest waits for those.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/gemm_fp8/config.h"
#include "tilewright/gemm_fp8/decode_constants.cuh"
#include "tilewright/gemm_fp8/decode_multiply.cuh"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/gemm_fp8/decode_stream.cuh"
#include "tilewright/gemm_fp8/decode_sum.cuh"
#include "tilewright/gemm_fp8/engine_launcher.h"
#include "tilewright/gemm_fp8/mma_check.h"
#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/cp_async.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define TILEWRIGHT_FP8_DECODE_DEPENDENT 1
#else
#define TILEWRIGHT_FP8_DECODE_DEPENDENT 0
#endif

namespace tilewright::gemm_fp8 {
namespace kernels {

// A warp's part of k times its tiles of the pass, from the state in which kDepth - 1 steps are under way.
template <class Config, bool kBlock, Fp8Type kAType>
__device__ __forceinline__ void decode_pass(DecodeAccumulator<Config, kBlock, kAType>& accumulator,
                                            DecodeStream<Config, kBlock>& stream,
                                            const DecodeConstants<Config, kBlock>& constants, int row, int lane) {
  constexpr int kAhead = Config::kDepth - 1;
#pragma unroll 1
  for (; stream.more(); stream.advance()) {
#pragma unroll
    for (int tile = 0; tile < Config::kTiles; ++tile) {
      stream.start_weights(tile + kAhead);
      if ((tile + kAhead) % Config::kTiles == 0) stream.start_a((tile + kAhead) / Config::kTiles);
      ptx::cp_async_commit();
      ptx::cp_async_wait<kAhead>();
      if (tile == 0) {
        __syncwarp();
        accumulator.load(stream, lane);
      }
      uint4 weights[2][2];
      stream.read_weights(weights);
      if (stream.has_tile(tile)) {
        accumulator.multiply(tile, weights, constants, stream.unit(), row + tile * DecodeStream<Config, kBlock>::kTileRows);
      }
    }
  }
}

template <class Config, bool kBlock, Fp8Type kAType>
__global__ void __launch_bounds__(DecodeLayout<Config>::kThreads, Config::kOccupancy)
    gemm_fp8_decode_kernel(const __grid_constant__ DecodeParams params) {
  using Layout = DecodeLayout<Config>;
  extern __shared__ __align__(128) unsigned char smem[];
#if TILEWRIGHT_FP8_DECODE_DEPENDENT
  ptx::release_dependents();
#endif
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t base = ptx::shared_address(smem);
  const DecodeShare<Config> share(params, warp);
  const DecodeConstants<Config, kBlock> constants(params, share, base);
  const DecodeSums<Config, kBlock> sums(params, share, constants, base);

#pragma unroll 1
  for (int pass = share.first_row; pass < share.end_row; pass += Layout::kPassRows) {
    const int row = pass + share.warp_n * 16 + (lane >> 2);
    DecodeStream<Config, kBlock> stream(params, share, base, warp, lane, row);
#pragma unroll
    for (int step = 0; step < Config::kDepth - 1; ++step) {
      stream.start_weights(step);
      ptx::cp_async_commit();
    }
    if (pass == share.first_row) {
      constants.fetch_weight_scales();
#if TILEWRIGHT_FP8_DECODE_DEPENDENT
      ptx::wait_for_dependencies();
#endif
    }
#pragma unroll
    for (int step = 0; step < Config::kDepth - 1; step += Config::kTiles) stream.start_a(step / Config::kTiles);
    ptx::cp_async_commit();
    if (pass == share.first_row) {
      constants.fetch_others();
      __syncthreads();
    }
    ptx::cp_async_wait<0>();

    DecodeAccumulator<Config, kBlock, kAType> accumulator;
    decode_pass(accumulator, stream, constants, row, lane);

    ptx::cp_async_wait<0>();
    const int tiles = (share.end_row - pass + 15) / 16;
#pragma unroll
    for (int first = 0; first < Config::kTiles; first += Layout::kSumsBatch) {
      if (first * Layout::kWarpsN >= tiles) break;
      __syncthreads();  // the rings, or the sums before these, are no longer read
#pragma unroll
      for (int slot = 0; slot < Layout::kSumsBatch; ++slot) {
        if (first + slot >= Config::kTiles) break;
        float sum[Layout::kColumnTiles][4];
        accumulator.sum(first + slot, sum);
        sums.leave(slot, sum, warp, lane);
      }
      __syncthreads();
      sums.add_up(pass + first * Layout::kWarpsN * 16, min(tiles - first * Layout::kWarpsN, Layout::kSumsBatch * Layout::kWarpsN));
    }
    if (pass + Layout::kPassRows < share.end_row) __syncthreads();
  }
}

}  // namespace kernels

inline DecodeParams decode_params(const GemmFp8Args& args) {
  DecodeParams params{};
  params.a = static_cast<const uint8_t*>(args.a);
  params.b = static_cast<const uint8_t*>(args.b);
  params.scale_a = args.scale_a;
  params.scale_b = args.scale_b;
  params.bias = args.bias;
  params.out = args.out;
  params.lda = args.lda;
  params.ldb = args.ldb;
  params.ldo = args.ldo;
  params.scale_a_m = args.scaling == Scaling::kTensor ? 0 : args.scale_a_m;
  params.scale_a_k = args.scale_a_k;
  params.scale_b_n = args.scaling == Scaling::kTensor ? 0 : args.scale_b_n;
  params.scale_b_k = args.scale_b_k;
  params.m = static_cast<int>(args.m);
  params.n = static_cast<int>(args.n);
  params.k = static_cast<int>(args.k);
  params.units = static_cast<int>(ceil_div(args.k, kDecodeUnit));
  return params;
}

template <class Config, bool kBlock, Fp8Type kAType>
cudaError_t launch_decode(const GemmFp8Args& args, DecodeParams params, cudaStream_t stream) {
  using Layout = DecodeLayout<Config>;
  const int64_t slots = int64_t{args.num_sms} * Config::kPerSm;
  const int blocks = static_cast<int>(args.n < slots ? args.n : slots);
  const int64_t rows = ceil_div(args.n, blocks);
  const int64_t scales = kBlock ? (rows / kScaleBlock + 2) * params.units : rows;
  const int64_t constants = (Config::kMb + scales + (params.bias == nullptr ? 0 : rows)) * 4;
  if (constants > Layout::kConstantsBytes) return cudaErrorNotSupported;
  params.scale_b_offset = Layout::kConstantsOffset + Config::kMb * 4;
  params.bias_offset = params.scale_b_offset + static_cast<int>(scales) * 4;

  static host::SmemOptIn opt_in;
  const auto kernel = &kernels::gemm_fp8_decode_kernel<Config, kBlock, kAType>;
  cudaError_t error = opt_in.ensure(reinterpret_cast<const void*>(kernel), Layout::kBytes);
  int device = 0, major = 0;
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;
  const host::ClusterLaunch launch{dim3(static_cast<unsigned>(blocks)), dim3(Layout::kThreads),
                                   Layout::kConstantsOffset + static_cast<int>(constants), 1, major >= 9};
  return host::launch_cluster_kernel(kernel, launch, stream, params);
}

// Takes M up to kMb, every N, K % 16 == 0 (Scaling::kBlock: K % 128 == 0); cudaErrorNotSupported for more rows, for groups, for
// K == 0, and where the scales of a block of the grid exceed 16 KB of shared memory.
template <>
struct EngineLauncher<Engine::kDecode> {
  template <class Config>
  static cudaError_t launch(const GemmFp8Args& args, cudaStream_t stream) {
    if (const cudaError_t error = check_mma(args, ElementTraits<typename Config::Element>::kDType); error != cudaSuccess) {
      return error;
    }
    if (args.m == 0 || args.n == 0) return cudaSuccess;
    if (args.grouping != Grouping::kNone || args.m > Config::kMb || args.k == 0 || args.n > (int64_t{1} << 30)) {
      return cudaErrorNotSupported;
    }
    if (args.num_sms < 1) return cudaErrorInvalidValue;
    const DecodeParams params = decode_params(args);
    const bool e5m2 = args.a_type == Fp8Type::kE5m2;
    if (args.scaling == Scaling::kBlock) {
      return e5m2 ? launch_decode<Config, true, Fp8Type::kE5m2>(args, params, stream)
                  : launch_decode<Config, true, Fp8Type::kE4m3>(args, params, stream);
    }
    return e5m2 ? launch_decode<Config, false, Fp8Type::kE5m2>(args, params, stream)
                : launch_decode<Config, false, Fp8Type::kE4m3>(args, params, stream);
  }
};

}  // namespace tilewright::gemm_fp8
