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
#include "tilewright/host/kernel_launch.cuh"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright::gemm_fp8 {
namespace kernels {

// Blocks run over the rows of tiles first, so that neighbours share their part of B.
template <class Config, bool kPromote, Fp8Type kAType>
__global__ void __launch_bounds__(MmaLayout<Config>::kThreads)
    gemm_fp8_mma_m16n8k32_kernel(const __grid_constant__ GemmFp8Args args, int tiles_m) {
  using Layout = MmaLayout<Config>;
  extern __shared__ __align__(1024) unsigned char smem[];
  constexpr int kAhead = Config::kStages - 1;
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
  const auto fill = [&](int chunk, int slot) {
    if (chunk < chunks) {
      const uint32_t stage = base + slot * Layout::kStageBytes;
      a.start(stage, k - chunk * Config::kKc);
      b.start(stage + Layout::kABytes, k - chunk * Config::kKc);
    }
    ptx::cp_async_commit();
  };
#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage) fill(stage, stage);
  int slot = 0;
  int next_slot = kAhead;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    // One group is committed per chunk, so all but the newest kAhead - 1 being done means that this chunk has arrived. The
    // barrier shows it to the block, and says that the block has left the slot that is filled next.
    ptx::cp_async_wait<kAhead - 1>();
    __syncthreads();
    fill(chunk + kAhead, next_slot);
    warp.multiply(slot, chunk);
    slot = slot + 1 == Config::kStages ? 0 : slot + 1;
    next_slot = next_slot + 1 == Config::kStages ? 0 : next_slot + 1;
  }
  warp.store();
}

}  // namespace kernels

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
  return host::launch_kernel(kernel, dim3(static_cast<unsigned>(tiles_m * tiles_n)), dim3(Layout::kThreads),
                             Layout::kBytes, stream, args, static_cast<int>(tiles_m));
}

// Takes every M and N, K % 16 == 0 (Scaling::kBlock: K % 128 == 0), every grouping and scaling. Rows of A and B start on 16
// bytes. Sums are promoted to fp32 every 128 of k for Scaling::kBlock and wherever `fast_accum` is not set.
template <>
struct EngineLauncher<Engine::kMmaM16n8k32> {
  template <class Config>
  static cudaError_t launch(const GemmFp8Args& args, cudaStream_t stream) {
    if (const cudaError_t error = check_mma(args, ElementTraits<typename Config::Element>::kDType); error != cudaSuccess) {
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
