// The decode engine of gemm_fp8: few rows of A, so the time is that of reading the weights once (sm_89 and later;
// dependent launches from sm_90 on).
//
// A block owns a range of weight rows and splits k among its warps. A warp streams its part of the rows, 16 at a time,
// through a ring of its own and multiplies it by A, which waits in shared memory. Every few tiles the block meets and
// adds up the sums of its warps, in a fixed order: results do not depend on timing. Weights and their scales are
// constants, so they are fetched before the kernels this one depends on have finished; the rest waits for those.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/gemm_fp8/config.h"
#include "tilewright/gemm_fp8/decode_bulk.cuh"
#include "tilewright/gemm_fp8/decode_multiply.cuh"
#include "tilewright/gemm_fp8/decode_operands.cuh"
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

template <class Config, bool kBlock, Fp8Type kAType>
__global__ void __launch_bounds__(DecodeLayout<Config>::kThreads, Config::kOccupancy)
    gemm_fp8_decode_kernel(const __grid_constant__ DecodeParams params) {
  using Layout = DecodeLayout<Config>;
  extern __shared__ __align__(1024) unsigned char smem[];
#if TILEWRIGHT_FP8_DECODE_DEPENDENT
  ptx::release_dependents();
#endif
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t base = ptx::shared_address(smem);
  const DecodeShare<Config> share(params, warp);
  DecodeStream<Config> stream(params, share, base, warp, lane);
#pragma unroll 1
  for (int i = 0; i < Config::kDepth - 1; ++i) stream.start();
  const DecodeOperands<Config, kBlock> operands(params, share, base);
  operands.fetch_constants();
#if TILEWRIGHT_FP8_DECODE_DEPENDENT
  ptx::wait_for_dependencies();
#endif
  operands.fetch(lane);
  const DecodeSums<Config, kBlock> sums(params, share, operands, base);

  const int rounds = share.rounds();
  int row = share.first_row + share.warp_n * 16 + (lane >> 2);
  int slot = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round, row += DecodeShare<Config>::kRoundRows) {
    DecodeAccumulator<Config, kBlock, kAType> accumulator;
    int unit = share.first_unit;
#pragma unroll 1
    for (int i = 0; i < share.units; ++i, ++unit) {
      stream.start();
      accumulator.load(operands, unit, lane);
      uint4 weights[2][2];
      stream.take(weights);
      accumulator.multiply(weights);
      accumulator.end_unit(operands, unit, row, lane);
    }
    float sum[Layout::kColumnTiles][4];
    accumulator.sum(sum);
    sums.leave(slot, sum, warp, lane);
    if (++slot == Layout::kSlots || round + 1 == rounds) {
      const int first_row = share.first_row + (round + 1 - slot) * DecodeShare<Config>::kRoundRows;
      __syncthreads();
      sums.add_up(first_row, slot * Layout::kWarpsN);
      slot = 0;
      if (round + 1 < rounds) __syncthreads();
    }
  }
  ptx::cp_async_wait<0>();  // the steps past the last one still write zeros
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
  params.scale_steps = scale_steps_of(args);
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
  const int64_t a_scales = kBlock ? int64_t{params.units} * params.m : params.m;
  const int64_t b_scales = kBlock ? (rows / kScaleBlock + 2) * params.units : rows;
  const int64_t biases = params.bias == nullptr ? 0 : rows;
  const int64_t bytes = int64_t{params.units} * params.m * kDecodeUnit + (a_scales + b_scales + biases) * 4;
  if (bytes > Config::kAKb * 1024) return cudaErrorNotSupported;
  params.scale_a_offset = Layout::kAOffset + params.units * params.m * kDecodeUnit;
  params.scale_b_offset = params.scale_a_offset + static_cast<int>(a_scales) * 4;
  params.bias_offset = params.scale_b_offset + static_cast<int>(b_scales) * 4;

  static host::SmemOptIn opt_in;
  const auto kernel = &kernels::gemm_fp8_decode_kernel<Config, kBlock, kAType>;
  cudaError_t error = opt_in.ensure(reinterpret_cast<const void*>(kernel), Layout::kBytes);
  int device = 0, major = 0;
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;
  const host::ClusterLaunch launch{dim3(static_cast<unsigned>(blocks)), dim3(Layout::kThreads),
                                   Layout::kAOffset + static_cast<int>(bytes), 1, major >= 9 && !args.fresh_weights};
  return host::launch_cluster_kernel(kernel, launch, stream, params);
}

// Takes M up to kMb, every N, K % 16 == 0 (Scaling::kBlock: K % 128 == 0); cudaErrorNotSupported for more rows, for
// groups, for K == 0, and where A, its scales and those of a block's weights, and the bias exceed kAKb.
template <>
struct EngineLauncher<Engine::kDecode> {
  template <class Config>
  static cudaError_t launch(const GemmFp8Args& args, cudaStream_t stream) {
    const cudaError_t checked = check_mma(args, ElementTraits<typename Config::Element>::kDType);
    if (checked != cudaSuccess || args.m == 0 || args.n == 0) return checked;
    if (args.grouping != Grouping::kNone || args.m > Config::kMb || args.k == 0 || args.n > (int64_t{1} << 30)) {
      return cudaErrorNotSupported;
    }
    if (args.num_sms < 1) return cudaErrorInvalidValue;
    if constexpr (Config::kCluster > 0) {
      return decode_by_bulk<Config>(args, stream);
    } else {
      return launch_kind<Config>(args, stream);
    }
  }

 private:
  template <class Config>
  static cudaError_t launch_kind(const GemmFp8Args& args, cudaStream_t stream) {
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
