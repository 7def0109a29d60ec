// gemm_4bit on warp-level tensor cores: mma.sync m16n8k16, sm_80 and later.
//
// A block computes mt x nt outputs from a ring of `stages` chunks of kc in k: A in 16-bit elements, B in packed 4-bit
// codes, scales in fp32. B is dequantised in registers straight into multiplication fragments: codebook * scale in
// fp32, rounded once to the element type.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "tilewright/dequant/codebooks.cuh"
#include "tilewright/dequant/scales.cuh"
#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/check.h"
#include "tilewright/gemm_4bit/engine_launcher.h"
#include "tilewright/gemm_4bit/mma_stages.cuh"
#include "tilewright/gemm_4bit/mma_warp_tile.cuh"
#include "tilewright/gemm_4bit/smem.h"
#include "tilewright/host/kernel_launch.cuh"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright {
namespace kernels {

template <class Config>
__device__ __forceinline__ void fill_tables(unsigned char* smem, const Gemm4bitArgs& args,
                                            const dequant::ScaleSource& source) {
  using Smem = MmaM16n8k16Smem<Config>;
  dequant::fill_codebook(reinterpret_cast<float*>(smem + Smem::kCodebookOffset), args.quant_type);
  if (source.kind != dequant::ScaleKind::kNestedAbsmax) return;
  float* nested_code = reinterpret_cast<float*>(smem + Smem::kNestedCodeOffset);
  for (int i = static_cast<int>(threadIdx.x); i < dequant::kNestedCodeSize; i += static_cast<int>(blockDim.x)) {
    nested_code[i] = source.nested_code[i];
  }
}

// Blocks per multiprocessor the registers are sized for: 128 registers a thread where accumulators and scales in flight
// leave room for the rest, else as many as one block can have.
template <class Config>
constexpr int mma_m16n8k16_min_blocks() {
  constexpr int kThreads = MmaM16n8k16Smem<Config>::kThreads;
  constexpr int kAccumulators = Config::kMt * Config::kNt / (32 * Config::kWarpsM * Config::kWarpsN);
  constexpr int kScaleRegisters = 2 * ScaleShare<Config, kThreads>::kScales;
  return kAccumulators + kScaleRegisters <= 40 && kThreads <= 512 ? 512 / kThreads : 1;
}

// Blocks run over the rows of tiles first, so that neighbours share their part of B.
template <class Config>
__global__ void __launch_bounds__(MmaM16n8k16Smem<Config>::kThreads, mma_m16n8k16_min_blocks<Config>())
    gemm_4bit_mma_m16n8k16_kernel(const __grid_constant__ Gemm4bitArgs args,
                                  const __grid_constant__ dequant::ScaleSource source, int tiles_m, int granule_shift) {
  extern __shared__ __align__(1024) unsigned char smem[];
  constexpr int kAhead = Config::kStages - 1;
  const int64_t row_m = int64_t{static_cast<int>(blockIdx.x) % tiles_m} * Config::kMt;
  const int64_t row_n = int64_t{static_cast<int>(blockIdx.x) / tiles_m} * Config::kNt;
  const int chunks = static_cast<int>((args.k + Config::kKc - 1) / Config::kKc);
  StageLoader<Config> loader(args, source, row_m, row_n, granule_shift, smem);
  WarpTile<Config> tile(args.quant_type, granule_shift, smem);

  const int prologue = chunks < kAhead ? chunks : kAhead;
#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage) {
    if (stage < prologue) loader.copy_next(stage);
    ptx::cp_async_commit();
  }
  fill_tables<Config>(smem, args, source);
  if (!loader.scales_asynchronous()) {
    __syncthreads();  // the nested code is read below
    for (int stage = 0; stage < prologue; ++stage) {
      loader.load_scales(prologue - stage, stage);
      loader.finish_scales(stage);
    }
  }

  int slot = 0;
  int next_slot = kAhead;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    // One group is committed per chunk, so all but the newest kAhead - 1 being done means that this chunk has arrived.
    // The barrier shows it to the block, and says that the block has left the slot that is filled next.
    ptx::cp_async_wait<kAhead - 1>();
    __syncthreads();
    const bool more = chunk + kAhead < chunks;
    if (more) {
      loader.copy_next(next_slot);
      loader.load_scales(1, next_slot);
    }
    ptx::cp_async_commit();
    tile.multiply(slot);
    if (more) loader.finish_scales(next_slot);
    slot = slot + 1 == Config::kStages ? 0 : slot + 1;
    next_slot = next_slot + 1 == Config::kStages ? 0 : next_slot + 1;
  }
  if (tile.reduce(smem)) tile.store(args, row_m, row_n);
}

}  // namespace kernels

// Takes f16 and bf16, K % 32 == 0 (any remainder against kc), every M and N. Rows of A start on 16 bytes (pointer, and
// lda % 8 == 0), and so does B; otherwise cudaErrorMisalignedAddress.
template <>
struct EngineLauncher<Engine::kMmaM16n8k16> {
  template <class Config>
  static cudaError_t launch(const Gemm4bitArgs& args, cudaStream_t stream) {
    using Element = typename Config::Element;
    static_assert(!std::is_same_v<Element, float>, "mma_m16n8k16 multiplies 16-bit elements");
    static_assert(Config::kKc % 64 == 0 && Config::kKc <= 256, "a chunk is one to four groups of 64 in k");
    static_assert(Config::kStages >= 2, "one stage is filled while another is read");
    using Smem = MmaM16n8k16Smem<Config>;
    static_assert(Smem::kThreads <= 1024, "a block has at most 1024 threads");
    const cudaError_t checked = host::check_gemm_4bit(args, ElementTraits<Element>::kDType);
    if (checked != cudaSuccess || args.m == 0 || args.n == 0) return checked;
    if (args.layout != WeightLayout::kPacked) return cudaErrorNotSupported;
    if (args.k % 32 != 0 || args.k > INT32_MAX) return cudaErrorNotSupported;
    if (!host::is_aligned(args.a, 16) || args.lda % 8 != 0 || !host::is_aligned(args.b, 16)) {
      return cudaErrorMisalignedAddress;
    }
    const int64_t tiles_m = host::ceil_div(args.m, Config::kMt);
    const int64_t tiles_n = host::ceil_div(args.n, Config::kNt);
    if (tiles_m > host::kMaxGridX || tiles_n > host::kMaxGridX / tiles_m) return cudaErrorInvalidConfiguration;
    static host::SmemOptIn opt_in;
    const auto kernel = &kernels::gemm_4bit_mma_m16n8k16_kernel<Config>;
    constexpr int kSmemBytes = smem_bytes<Config>();
    const cudaError_t raised = opt_in.ensure(reinterpret_cast<const void*>(kernel), kSmemBytes);
    if (raised != cudaSuccess) return raised;
    const dequant::ScaleSource source = dequant::make_scale_source(args.scales, args.nested_absmax, args.nested_code,
                                                                   args.offset, args.blocksize, args.quant_type);
    return host::launch_kernel(kernel, dim3(static_cast<unsigned>(tiles_m * tiles_n)),
                               dim3(Smem::kThreads), kSmemBytes, stream, args, source,
                               static_cast<int>(tiles_m),
                               kernels::scale_granule_shift<Config>(args.k, source.block_shift));
  }
};

}  // namespace tilewright
