// The decode engine of gemm_fp8: few rows of A, so the time is that of reading the weights once (sm_89 and later; clusters,
// dependent launches and reading ahead into L2 from sm_90 on).
//
// A cluster owns a range of weight rows and splits k among its blocks, a block among its warps. The weight is the 16-row
// operand of mma.m16n8k32 and comes through a ring of kDepth steps that each warp has to itself; A waits in shared memory.
// Weights are constants, so they are fetched before the kernels this one depends on have finished; A, its scales, bias and
// output wait for those. Sums are added in a fixed order: results do not depend on timing.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "tilewright/gemm_fp8/config.h"
#include "tilewright/gemm_fp8/decode_plan.h"
#include "tilewright/gemm_fp8/decode_stream.cuh"
#include "tilewright/gemm_fp8/decode_sum.cuh"
#include "tilewright/gemm_fp8/engine_launcher.h"
#include "tilewright/gemm_fp8/mma_check.h"
#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/elect.cuh"
#include "tilewright/ptx/mma_fp8.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define TILEWRIGHT_FP8_DECODE_HOPPER 1
#else
#define TILEWRIGHT_FP8_DECODE_HOPPER 0
#endif

namespace tilewright::gemm_fp8 {
namespace kernels {

// acc (16 x 8 per column tile) += 16 rows times A over the warp's unit `unit` of k; `row` is this lane's first weight row.
template <class Config, bool kBlock, Fp8Type kAType>
__device__ __forceinline__ void decode_multiply(float (&acc)[DecodeLayout<Config>::kColumnTiles][4],
                                                const uint4 (&weights)[2][2], const DecodeActivations<Config>& activations,
                                                int unit, int row, int lane) {
  constexpr int kColumns = DecodeLayout<Config>::kColumnTiles;
  float fresh[kColumns][4] = {};
  float(&sum)[kColumns][4] = kBlock ? fresh : acc;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 upper = weights[0][half];
    const uint4 lower = weights[1][half];
    const uint32_t first[4] = {upper.x, lower.x, upper.y, lower.y};
    const uint32_t second[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const uint4 a = activations.fragment(unit, half, c, lane);
      ptx::mma_m16n8k32<Fp8Type::kE4m3, kAType>(sum[c], first, a.x, a.y);
      ptx::mma_m16n8k32<Fp8Type::kE4m3, kAType>(sum[c], second, a.z, a.w);
    }
  }
  if constexpr (kBlock) {
    const float upper_scale = activations.scale_b(unit, row);
    const float lower_scale = activations.scale_b(unit, row + 8);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float left = activations.scale_a(unit, c * 8 + (lane & 3) * 2);
      const float right = activations.scale_a(unit, c * 8 + (lane & 3) * 2 + 1);
      acc[c][0] = fmaf(fresh[c][0], left * upper_scale, acc[c][0]);
      acc[c][1] = fmaf(fresh[c][1], right * upper_scale, acc[c][1]);
      acc[c][2] = fmaf(fresh[c][2], left * lower_scale, acc[c][2]);
      acc[c][3] = fmaf(fresh[c][3], right * lower_scale, acc[c][3]);
    }
  }
}

// Brings the first rows of the block's share into L2, past what the warps fetch at once themselves. One lane asks: the
// instruction takes its operands from uniform registers.
template <class Config>
__device__ __forceinline__ void decode_look_ahead(const DecodeParams& params, const DecodeShare<Config>& share, int warp) {
  const int first_k = share.first_unit * kDecodeUnit;
  const int bytes = min(share.units * kDecodeUnit, params.k - first_k);
  if (bytes <= 0 || !ptx::elect_lane()) return;
  const int end = min(share.end_row, share.first_row + params.ahead_rows);
  for (int row = share.first_row + warp; row < end; row += Config::kWarps) {
    ptx::bulk_prefetch_l2(params.b + row * params.ldb + first_k, bytes);
  }
}

template <class Config, bool kBlock, Fp8Type kAType>
__global__ void __launch_bounds__(DecodeLayout<Config>::kThreads, Config::kOccupancy)
    gemm_fp8_decode_kernel(const __grid_constant__ DecodeParams params) {
  using Layout = DecodeLayout<Config>;
  extern __shared__ __align__(128) unsigned char smem[];
  int rank = 0;
#if TILEWRIGHT_FP8_DECODE_HOPPER
  ptx::release_dependents();
  if (Config::kCluster > 1) rank = static_cast<int>(ptx::cluster_block_rank());
#endif
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t base = ptx::shared_address(smem);
  const DecodeShare<Config> share(params, static_cast<int>(blockIdx.x) / Config::kCluster, rank, warp);
  DecodeStream<Config> stream(params, share, base, warp, lane);
#pragma unroll 1
  for (int i = 0; i < Config::kDepth - 1; ++i) stream.start();
  const DecodeActivations<Config> activations(params, share, base);
  if constexpr (kBlock) activations.fetch_constants(lane);
#if TILEWRIGHT_FP8_DECODE_HOPPER
  if (Config::kAheadKb > 0) decode_look_ahead(params, share, warp);
  __syncwarp();
  ptx::wait_for_dependencies();
#endif
  activations.template fetch<kBlock>(lane);
  const DecodeSums<Config, kBlock> sums(params, share, base, rank);

  const int rounds = share.rounds();
  int row = share.first_row + share.warp_n * 16 + (lane >> 2);
  int buffer = 0;
  int slot = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round, row += 16 * Layout::kWarpsN) {
    float acc[Layout::kColumnTiles][4] = {};
#pragma unroll 1
    for (int unit = 0; unit < share.warp_units; ++unit) {
      stream.start();
      uint4 weights[2][2];
      stream.take(weights);
      decode_multiply<Config, kBlock, kAType>(acc, weights, activations, unit, row, lane);
    }
    sums.leave(buffer, slot, acc, warp, lane);
    if (++slot == Layout::kSlots || round + 1 == rounds) {
      sums.finish(buffer, round + 1 - slot, slot);
      buffer ^= 1;
      slot = 0;
    }
  }
#if TILEWRIGHT_FP8_DECODE_HOPPER
  if (Config::kCluster > 1) ptx::cluster_sync();  // the others may still read this block's sums
#endif
}

}  // namespace kernels

// How many clusters of a kernel run at once; asked once per device.
class DecodeClusters {
 public:
  cudaError_t get(const void* kernel, const host::ClusterLaunch& launch, int device, int& clusters) {
    if (device < kMaxDevices && (clusters = known_[device].load(std::memory_order_relaxed)) > 0) return cudaSuccess;
    const cudaError_t error = host::max_active_clusters(kernel, launch, device, clusters);
    if (error == cudaSuccess && device < kMaxDevices) known_[device].store(clusters, std::memory_order_relaxed);
    return error;
  }

 private:
  static constexpr int kMaxDevices = 64;
  std::atomic<int> known_[kMaxDevices]{};
};

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

// Shares the rows out among at most `clusters` clusters and lays out shared memory; false when A does not fit.
template <class Config>
bool plan_decode(DecodeParams& params, int clusters, bool block) {
  using Layout = DecodeLayout<Config>;
  const int lots = static_cast<int>(ceil_div(params.n, kDecodeRowLot));
  params.clusters = lots < clusters ? lots : clusters;
  const int rows = static_cast<int>(ceil_div(lots, params.clusters)) * kDecodeRowLot;
  const int part = static_cast<int>(ceil_div(params.units, Config::kCluster));
  params.ahead_rows = Config::kAheadKb * 1024 / (part * kDecodeUnit);
  params.scale_a_offset = Layout::kRingBytes + part * params.m * kDecodeUnit;
  params.scale_b_offset = params.scale_a_offset + (block ? part * params.m * 4 : 0);
  const int end = params.scale_b_offset + (block ? (rows / kScaleBlock + 2) * part * 4 : 0);
  params.sums_offset = (end + 15) / 16 * 16;
  const int a_bytes = params.sums_offset - Layout::kRingBytes;
  const int buffers = ceil_div(rows, 16 * Layout::kWarpsN) <= Layout::kSlots ? 1 : 2;
  params.exchange_offset = params.sums_offset + buffers * Layout::kBufferBytes;
  params.smem_bytes = Layout::bytes(a_bytes, buffers);
  return a_bytes <= Config::kAKb * 1024;
}

template <class Config, bool kBlock, Fp8Type kAType>
cudaError_t launch_decode(const GemmFp8Args& args, DecodeParams params, cudaStream_t stream) {
  using Layout = DecodeLayout<Config>;
  static host::SmemOptIn opt_in;
  static DecodeClusters known;
  const auto kernel = &kernels::gemm_fp8_decode_kernel<Config, kBlock, kAType>;
  const void* address = reinterpret_cast<const void*>(kernel);
  if (const cudaError_t error = opt_in.ensure(address, Layout::kBytes); error != cudaSuccess) return error;
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;
  const bool hopper = major >= 9;
  if (!hopper && Config::kCluster > 1) return cudaErrorNotSupported;

  host::ClusterLaunch launch{dim3(Config::kCluster), dim3(Layout::kThreads), Layout::kBytes,
                             static_cast<unsigned>(Config::kCluster), hopper};
  int clusters = args.num_sms / Config::kCluster;
  if (Config::kCluster > 1) {
    int resident = 0;
    if (error = known.get(address, launch, device, resident); error != cudaSuccess) return error;
    clusters = clusters < resident ? clusters : resident;
  }
  clusters *= Config::kPerSm;
  if (clusters < 1) return cudaErrorInvalidValue;
  if (!plan_decode<Config>(params, clusters, kBlock)) return cudaErrorNotSupported;
  launch.smem_bytes = params.smem_bytes;
  launch.grid = dim3(static_cast<unsigned>(params.clusters) * Config::kCluster);
  return host::launch_cluster_kernel(kernel, launch, stream, params);
}

// cudaErrorNotSupported: groups, M above kMb, K of 0 or too long for the shared memory of the tile.
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
    if (args.num_sms < Config::kCluster) return cudaErrorInvalidValue;
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
