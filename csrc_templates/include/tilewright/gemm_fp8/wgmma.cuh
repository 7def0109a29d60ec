// gemm_fp8 on Hopper: both operands by bulk tensor copies into a ring of swizzled stages, one producer warp, one to
// three multiplying warpgroups, persistent over tiles, output by bulk stores.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/gemm_fp8/engine_launcher.h"
#include "tilewright/gemm_fp8/wgmma_consumer.cuh"
#include "tilewright/gemm_fp8/wgmma_epilogue.cuh"
#include "tilewright/gemm_fp8/wgmma_exchange.cuh"
#include "tilewright/gemm_fp8/wgmma_factors.cuh"
#include "tilewright/gemm_fp8/wgmma_launch.cuh"
#include "tilewright/gemm_fp8/wgmma_producer.cuh"
#include "tilewright/ptx/cp_async.cuh"

namespace tilewright::gemm_fp8 {

// What one multiplying warpgroup does.
template <class Config, bool kE5m2>
__device__ __forceinline__ void wgmma_consume(const WgmmaParams& params, const WgmmaShared<Config>& shared,
                                              const void* map_out, WgmmaPlace<Config> place,
                                              WgmmaSchedule<Config> schedule, int consumer) {
  using Geometry = WgmmaGeometry<Config>;
  const int member = Config::kPingpong ? 0 : consumer;
  const int next = consumer + 1 == Config::kConsumers ? 0 : consumer + 1;
  using Consumer = WgmmaConsumer<Config, kE5m2>;
  const Consumer multiplier(params, shared, place, member);
  WgmmaEpilogue<Config> epilogue(params, shared, map_out, consumer, member);
  constexpr bool kFactorsLate = Config::kPromote && !Config::kSwap;  // no registers for them beside the products
  WgmmaRing<Config::kStages> ring;
  WgmmaWork work;
  if ((Config::kPingpong || Consumer::kTakesTurns) && next == 0) {
    ptx::named_barrier_arrive(Consumer::turn_barrier(0), 256);
  }
  for (int turn = 0; schedule.take(work); turn = turn + 1 == Config::kConsumers ? 0 : turn + 1) {
    if constexpr (Config::kPingpong) {
      if (turn != consumer) {
        ring.skip(work.end_step - work.first_step);
        continue;
      }
    }
    WgmmaFactors<Config> factors;
    if (!kFactorsLate) factors.fetch(params, work, member);  // on their way while the sums are made
    float acc[Geometry::kXBlocks][Geometry::kYRows / 2];
    // A phase of a full barrier is told by its parity: nobody may wait for a stage before those ahead of it are full.
    if (Config::kPingpong) ptx::named_barrier_sync(Consumer::turn_barrier(consumer), 256);
    multiplier.multiply(acc, ring, work, [&] {
      if (Config::kPingpong) ptx::named_barrier_arrive(Consumer::turn_barrier(next), 256);
    });
    if (kFactorsLate && !factors.none(params)) factors.fetch(params, work, member);
    if (Config::kSplitK == 1 || !work.split) {
      epilogue.store(acc, work, factors);
      continue;
    }
    if constexpr (Config::kSplitK > 1) {
      if (Geometry::kPeers == 1) ptx::cluster_wait();  // the other blocks have set their barriers up
      using Exchange = WgmmaExchange<Config>;
      Exchange::send(acc, shared, place, member);
      if constexpr (Config::kSwap) {
        epilogue.store_share(acc, shared, work, factors, place);
      } else if (Exchange::stores(place.split, member)) {
        Exchange::receive(acc, shared, place);
        epilogue.store(acc, work, factors);
      }
    }
  }
  epilogue.finish();
}

template <class Config, bool kE5m2>
__global__ void __launch_bounds__(WgmmaGeometry<Config>::kThreads, Config::kOccupancy)
    gemm_fp8_wgmma_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_a_tail,
                          const __grid_constant__ CUtensorMap map_b, const __grid_constant__ CUtensorMap map_out,
                          const __grid_constant__ WgmmaParams params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Geometry = WgmmaGeometry<Config>;
  extern __shared__ uint8_t dynamic_smem[];
  const uint32_t window = ptx::shared_address(dynamic_smem);
  const WgmmaShared<Config> shared{(window + Geometry::kAlignment - 1) / Geometry::kAlignment * Geometry::kAlignment};
  const WgmmaPlace<Config> place;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  WgmmaSchedule<Config> schedule(params, place);
  WgmmaProducer<Config> producer(params, &map_a, &map_a_tail, &map_b, shared, place);
  ptx::release_dependents();
  if (threadIdx.x == 0) {
    ptx::tma_prefetch_map(&map_a);
    if (params.tail_rows > 0) ptx::tma_prefetch_map(&map_a_tail);
    ptx::tma_prefetch_map(&map_b);
    ptx::tma_prefetch_map(&map_out);
    for (int slot = 0; slot < Config::kStages; ++slot) {
      const int scales = Config::kPromote && params.by_block ? WgmmaScaleLoader<Config>::arrivals(params) : 0;
      ptx::mbarrier_init(shared.full(slot), 1 + scales);
      ptx::mbarrier_init(shared.empty(slot), 4 * Geometry::kTeam * Geometry::kPeers);
    }
    if (Config::kSplitK > 1) ptx::mbarrier_init(shared.received(), 1);
    ptx::mbarrier_init_fence();
    if (Config::kSplitK > 1) WgmmaExchange<Config>::expect(shared, place);
  }
  if (params.tail_rows > 0) {
    WgmmaSchedule<Config> ahead = schedule;
    WgmmaWork work;
    if (ahead.take(work) && producer.is_tail(work)) producer.clear_below_tail();
  }
  __syncthreads();
  if constexpr (Geometry::kPeers > 1) {
    ptx::cluster_sync();  // peers arrive at these barriers
  } else if (schedule.shares()) {
    ptx::cluster_arrive();  // and the other blocks of a split tile, once they have sums to send
  }

  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Geometry::kProducerRegisters>();
    if (threadIdx.x == 0) {
      WgmmaWork work;
      if (params.b_ahead) {
        WgmmaSchedule<Config> ahead = schedule;
        if (ahead.take(work)) producer.start_b(work);
      }
      ptx::wait_for_dependencies();
      while (schedule.take(work)) producer.load(work);
    } else if (Config::kPromote && threadIdx.x >= 32 && params.by_block) {
      ptx::wait_for_dependencies();
      WgmmaScaleLoader<Config> loader(params, shared, static_cast<int>(threadIdx.x) / 32 - 1);
      WgmmaSchedule<Config> own = schedule;
      WgmmaWork work;
      while (loader.loads() && own.take(work)) loader.load(work);
    }
    __syncwarp();
    if (Geometry::kPeers == 1 && schedule.shares()) ptx::cluster_wait();
  } else {
    ptx::setmaxnreg_inc<Geometry::kConsumerRegisters>();
    ptx::wait_for_dependencies();
    wgmma_consume<Config, kE5m2>(params, shared, &map_out, place, schedule, warpgroup - 1);
  }
  // No block leaves while another may still write to its shared memory or arrive at its barriers.
  if constexpr (Geometry::kPeers > 1) ptx::cluster_sync();
#endif
}

// Takes K % 16 == 0 (kBlock: K % 128 == 0), every M and N, e4m3 and e5m2 activations, every kind of output. kPromote 0
// takes fast_accum with scales per tensor or row only; kSplitK > 1 takes no groups: otherwise cudaErrorNotSupported.
// In kMasked, row i of group g is row g * m + i of scale_a.
template <>
struct EngineLauncher<Engine::kWgmma> {
  template <class Config>
  static cudaError_t launch(const GemmFp8Args& args, cudaStream_t stream) {
    const cudaError_t checked = check_mma(args, ElementTraits<typename Config::Element>::kDType);
    if (checked != cudaSuccess || args.m == 0 || args.n == 0) return checked;
    if (args.k == 0) return cudaErrorNotSupported;
    if (args.m > kMostRows || args.n > kMostRows || all_rows(args) > kMostRows) return cudaErrorNotSupported;
    if (!Config::kPromote && (args.scaling == Scaling::kBlock || !args.fast_accum)) return cudaErrorNotSupported;
    if (Config::kSplitK > 1 && args.grouping != Grouping::kNone) return cudaErrorNotSupported;
    if (args.a_type == Fp8Type::kE5m2) return launch_kind<Config, true>(args, stream);
    return launch_kind<Config, false>(args, stream);
  }

 private:
  static constexpr int64_t kMostRows = INT32_MAX - 1024;  // a tile that hangs over the end still counts in 32 bits

  template <class Config, bool kE5m2>
  static cudaError_t launch_kind(const GemmFp8Args& args, cudaStream_t stream) {
    using Geometry = WgmmaGeometry<Config>;
    using Epilogue = WgmmaEpilogue<Config>;
    static host::SmemOptIn opt_in;
    static ClusterCount fitting;
    const auto kernel = &gemm_fp8_wgmma_kernel<Config, kE5m2>;
    const void* function = reinterpret_cast<const void*>(kernel);
    host::ClusterLaunch launch{dim3(Geometry::kCluster), dim3(Geometry::kThreads), Geometry::kBytes,
                               Geometry::kCluster, true};
    if (const cudaError_t error = opt_in.ensure(function, Geometry::kBytes); error != cudaSuccess) return error;
    int fit = 0;
    if (const cudaError_t error = fitting.find(function, launch, fit); error != cudaSuccess) return error;
    const int64_t tiles = most_tiles<Config>(args);
    if (tiles > INT32_MAX / 2) return cudaErrorInvalidConfiguration;
    WgmmaMaps maps;
    const cudaError_t made = make_maps<Config>(args, Epilogue::kRows, Epilogue::kBoxColumns, maps);
    if (made != cudaSuccess) return made;
    const int64_t clusters = tiles < fit ? tiles : fit;
    launch.grid = dim3(static_cast<unsigned>(clusters * Geometry::kCluster));
    return host::launch_cluster_kernel(kernel, launch, stream, maps.a, maps.a_tail, maps.b, maps.out,
                                       make_params<Config>(args, clusters));
  }
};

}  // namespace tilewright::gemm_fp8
