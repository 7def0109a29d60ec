// gemm_fp8 on warp-level tensor cores: mma.sync m16n8k32, sm_89 and later.
//
// A block computes mt x nt outputs from a ring of `stages` chunks of 128 in k. Groups of rows that belong to different
// weights (Grouping) are tiles of their own.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/gemm_fp8/config.h"
#include "tilewright/gemm_fp8/engine_launcher.h"
#include "tilewright/gemm_fp8/mma_check.h"
#include "tilewright/gemm_fp8/mma_plan.h"
#include "tilewright/gemm_fp8/mma_tile.cuh"
#include "tilewright/gemm_fp8/mma_warp.cuh"
#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/cp_async.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define TILEWRIGHT_FP8_MMA_DEPENDENT 1
#else
#define TILEWRIGHT_FP8_MMA_DEPENDENT 0
#endif

namespace tilewright::gemm_fp8 {
namespace kernels {

// Blocks run over the rows of tiles first, so that neighbours share their part of B. Weights are constants: the first
// ones are fetched before the kernels this one depends on have finished.
template <class Config, bool kPromote, Fp8Type kAType>
__global__ void __launch_bounds__(MmaLayout<Config>::kThreads)
    gemm_fp8_mma_m16n8k32_kernel(const __grid_constant__ GemmFp8Args args, int tiles_m) {
  using Layout = MmaLayout<Config>;
  extern __shared__ __align__(1024) unsigned char smem[];
  constexpr int kAhead = Config::kStages - 1;
#if TILEWRIGHT_FP8_MMA_DEPENDENT
  ptx::release_dependents();
  if (args.grouping != Grouping::kNone) ptx::wait_for_dependencies();
#endif
  const MmaTarget target = find_target<Config>(args, blockIdx.x, tiles_m);
  if (!target.any) return;
  const uint32_t base = ptx::shared_address(smem);
  MmaCopy<Config::kMt, Layout::kThreads> a(static_cast<const uint8_t*>(args.a) + target.row * args.lda, args.lda,
                                           target.row_end - target.row);
  MmaCopy<Config::kNt, Layout::kThreads> b(
      static_cast<const uint8_t*>(args.b) + target.group * args.b_group_stride + target.column * args.ldb, args.ldb,
      args.n - target.column);
  MmaWarp<Config, kPromote, kAType> warp(args, target, base);

  const int k = static_cast<int>(args.k);
  const int chunks = (k + Config::kKc - 1) / Config::kKc;
#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage) {
    if (stage < chunks) b.start(base + stage * Layout::kStageBytes + Layout::kABytes, k - stage * Config::kKc);
  }
#if TILEWRIGHT_FP8_MMA_DEPENDENT
  ptx::wait_for_dependencies();
#endif
#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage) {
    if (stage < chunks) a.start(base + stage * Layout::kStageBytes, k - stage * Config::kKc);
    ptx::cp_async_commit();
  }
  int slot = 0;
  int next_slot = kAhead;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    // One group is committed per chunk, so all but the newest kAhead - 1 being done means that this chunk has arrived.
    // The barrier shows it to the block, and says that the block has left the slot that is filled next.
    ptx::cp_async_wait<kAhead - 1>();
    __syncthreads();
    if (chunk + kAhead < chunks) {
      const uint32_t stage = base + next_slot * Layout::kStageBytes;
      const int k_left = k - (chunk + kAhead) * Config::kKc;
      a.start(stage, k_left);
      b.start(stage + Layout::kABytes, k_left);
    }
    ptx::cp_async_commit();
    warp.multiply(slot, chunk);
    slot = slot + 1 == Config::kStages ? 0 : slot + 1;
    next_slot = next_slot + 1 == Config::kStages ? 0 : next_slot + 1;
  }
  warp.store();
}

}  // namespace kernels

// Launches overlap only where blocks are this short. Blocks that start while others still run are spread unevenly over
// the multiprocessors, which costs longer ones more than they gain.
constexpr int64_t kDependentK = 1536;

template <class Config, bool kPromote, Fp8Type kAType>
cudaError_t launch_mma(const GemmFp8Args& args, cudaStream_t stream) {
  using Layout = MmaLayout<Config>;
  int64_t tiles_m = ceil_div(args.m, Config::kMt);
  if (args.grouping == Grouping::kMasked) tiles_m *= args.groups;
  if (args.grouping == Grouping::kContiguous) tiles_m = args.m / Config::kMt + args.groups;
  const int64_t tiles_n = ceil_div(args.n, Config::kNt);
  constexpr int64_t kMaxBlocks = 2147483647;
  if (tiles_m > kMaxBlocks || tiles_n > kMaxBlocks / tiles_m) return cudaErrorInvalidConfiguration;
  static host::SmemOptIn opt_in;
  const auto kernel = &kernels::gemm_fp8_mma_m16n8k32_kernel<Config, kPromote, kAType>;
  const cudaError_t raised = opt_in.ensure(reinterpret_cast<const void*>(kernel), Layout::kBytes);
  if (raised != cudaSuccess) return raised;
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;
  const host::ClusterLaunch launch{dim3(static_cast<unsigned>(tiles_m * tiles_n)), dim3(Layout::kThreads),
                                   Layout::kBytes, 1, major >= 9 && args.k <= kDependentK && !args.fresh_weights};
  return host::launch_cluster_kernel(kernel, launch, stream, args, static_cast<int>(tiles_m));
}

// Takes every M and N, K % 16 == 0 (Scaling::kBlock: K % 128 == 0), every grouping and scaling. Rows of A and B start
// on 16 bytes. Sums are promoted to fp32 every 128 of k for Scaling::kBlock and wherever `fast_accum` is not set.
template <>
struct EngineLauncher<Engine::kMmaM16n8k32> {
  template <class Config>
  static cudaError_t launch(const GemmFp8Args& args, cudaStream_t stream) {
    if (const cudaError_t error = check_mma(args, ElementTraits<typename Config::Element>::kDType);
        error != cudaSuccess) {
      return error;
    }
    if (args.m == 0 || args.n == 0) return cudaSuccess;
    const bool e5m2 = args.a_type == Fp8Type::kE5m2;
    if (args.scaling == Scaling::kBlock || !args.fast_accum) {
      return e5m2 ? launch_mma<Config, true, Fp8Type::kE5m2>(args, stream)
                  : launch_mma<Config, true, Fp8Type::kE4m3>(args, stream);
    }
    return e5m2 ? launch_mma<Config, false, Fp8Type::kE5m2>(args, stream)
                : launch_mma<Config, false, Fp8Type::kE4m3>(args, stream);
  }
};

}  // namespace tilewright::gemm_fp8
