// gemm_nvfp4 on warp-level tensor cores: block-scaled mma.sync m16n8k64, sm_120a and sm_121a, within 99 KB of shared
// memory.
//
// A block computes mt x nt outputs from a ring of `stages` chunks of 256 in k: packed elements of both operands, and
// the scale atoms of their 128 rows as they lie in memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/gemm_nvfp4/config.h"
#include "tilewright/gemm_nvfp4/engine_launcher.h"
#include "tilewright/gemm_nvfp4/mma_check.h"
#include "tilewright/gemm_nvfp4/mma_plan.h"
#include "tilewright/gemm_nvfp4/mma_stages.cuh"
#include "tilewright/gemm_nvfp4/mma_warp.cuh"
#include "tilewright/host/kernel_launch.cuh"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright::gemm_nvfp4 {
namespace kernels {

// Blocks run over the rows of tiles first, so that neighbours share their part of B.
template <class Config>
__global__ void __launch_bounds__(MmaLayout<Config>::kThreads)
    gemm_nvfp4_mma_block_scaled_kernel(const __grid_constant__ GemmNvfp4Args args, int tiles_m) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM120_ALL) || defined(__CUDA_ARCH_FEAT_SM121_ALL) || \
    (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1200)
  using Layout = MmaLayout<Config>;
  extern __shared__ __align__(1024) unsigned char smem[];
  constexpr int kAhead = Config::kStages - 1;
  const uint32_t base = ptx::shared_address(smem);
  const int64_t row = int64_t{static_cast<int>(blockIdx.x) % tiles_m} * Config::kMt;
  const int64_t column = int64_t{static_cast<int>(blockIdx.x) / tiles_m} * Config::kNt;
  const int64_t row_bytes = args.k / 2;
  MmaCopy<Config::kMt, Layout::kThreads> a(args.a + row * row_bytes, row_bytes, args.m - row);
  MmaCopy<Config::kNt, Layout::kThreads> b(args.b + column * row_bytes, row_bytes, args.n - column);
  MmaWarp<Config> warp(args, row, column, base);

  const int k = static_cast<int>(args.k);
  const int chunks = (k + Config::kKc - 1) / Config::kKc;
  const int64_t atoms = nvfp4::scale_atoms_per_row_group(args.k);
  const int64_t groups_a = (args.m + nvfp4::kScaleAtomRows - 1) / nvfp4::kScaleAtomRows;
  const int64_t groups_b = (args.n + nvfp4::kScaleAtomRows - 1) / nvfp4::kScaleAtomRows;
  const auto fill = [&](int chunk, int slot) {
    if (chunk < chunks) {
      const uint32_t stage = base + slot * Layout::kStageBytes;
      const int bytes_left = (k - chunk * Config::kKc) / 2;
      a.start(stage, bytes_left);
      b.start(stage + Layout::kBOffset, bytes_left);
      start_scales<Layout::kAScaleGroups, Layout::kAtoms, Layout::kThreads>(stage + Layout::kAScaleOffset, args.scale_a,
                                                                            row / nvfp4::kScaleAtomRows, groups_a,
                                                                            atoms, chunk * Layout::kAtoms);
      start_scales<Layout::kBScaleGroups, Layout::kAtoms, Layout::kThreads>(stage + Layout::kBScaleOffset, args.scale_b,
                                                                            column / nvfp4::kScaleAtomRows, groups_b,
                                                                            atoms, chunk * Layout::kAtoms);
    }
    ptx::cp_async_commit();
  };
#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage) fill(stage, stage);
  int slot = 0;
  int next_slot = kAhead;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    // One group is committed per chunk, so all but the newest kAhead - 1 being done means that this chunk has arrived.
    // The barrier shows it to the block, and says that the block has left the slot that is filled next.
    ptx::cp_async_wait<kAhead - 1>();
    __syncthreads();
    fill(chunk + kAhead, next_slot);
    warp.multiply(slot, k - chunk * Config::kKc);
    slot = slot + 1 == Config::kStages ? 0 : slot + 1;
    next_slot = next_slot + 1 == Config::kStages ? 0 : next_slot + 1;
  }
  warp.store();
#endif
}

}  // namespace kernels

// Takes every M and N, K % 32 == 0: rows of packed elements then start on 16 bytes.
template <>
struct EngineLauncher<Engine::kMmaBlockScaled> {
  template <class Config>
  static cudaError_t launch(const GemmNvfp4Args& args, cudaStream_t stream) {
    using Layout = MmaLayout<Config>;
    if (const cudaError_t error = check_mma(args, ElementTraits<typename Config::Element>::kDType);
        error != cudaSuccess) {
      return error;
    }
    if (args.m == 0 || args.n == 0) return cudaSuccess;
    const int64_t tiles_m = (args.m + Config::kMt - 1) / Config::kMt;
    const int64_t tiles_n = (args.n + Config::kNt - 1) / Config::kNt;
    constexpr int64_t kMaxBlocks = 2147483647;
    if (tiles_m > kMaxBlocks || tiles_n > kMaxBlocks / tiles_m) return cudaErrorInvalidConfiguration;
    static host::SmemOptIn opt_in;
    const auto kernel = &kernels::gemm_nvfp4_mma_block_scaled_kernel<Config>;
    const cudaError_t raised = opt_in.ensure(reinterpret_cast<const void*>(kernel), Layout::kBytes);
    if (raised != cudaSuccess) return raised;
    return host::launch_kernel(kernel, dim3(static_cast<unsigned>(tiles_m * tiles_n)), dim3(Layout::kThreads),
                               Layout::kBytes, stream, args, static_cast<int>(tiles_m));
  }
};

}  // namespace tilewright::gemm_nvfp4
