// The kernel of the tcgen05 engine: one persistent CTA per SM, its warps each with one role.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "tilewright/ptx/cluster.cuh"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/ptx/elect.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mbarrier.cuh"
#include "tilewright/ptx/tcgen05.cuh"
#include "tilewright/ptx/tma.cuh"
#include "tilewright/tcgen05/epilogue.cuh"
#include "tilewright/tcgen05/multiplier.cuh"
#include "tilewright/tcgen05/pair.cuh"
#include "tilewright/tcgen05/producer.cuh"

#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__)
#if __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000 && __CUDA_ARCH_FAMILY_SPECIFIC__ < 1200
#define TILEWRIGHT_HAS_TCGEN05 1
#endif
#endif

namespace tilewright::tcgen05 {

// One thread. Slots are given back by every pair of the cluster, accumulators by the storing warps of both CTAs.
template <class Plan>
__device__ __forceinline__ void start_barriers(const PairShared<Plan>& shared, int stages) {
  for (int slot = 0; slot < stages; ++slot) {
    ptx::mbarrier_init(shared.full(slot), 1);
    ptx::mbarrier_init(shared.empty(slot), Plan::kPairs);
  }
  for (int slot = 0; slot < Plan::kASlots; ++slot) {
    ptx::mbarrier_init(shared.full_a(slot), 1);
    ptx::mbarrier_init(shared.empty_a(slot), Plan::kPairs);
  }
  for (int sum = 0; sum < Plan::kSums; ++sum) {
    ptx::mbarrier_init(shared.sum_full(sum), 1);
    ptx::mbarrier_init(shared.sum_empty(sum), 2 * 4);
  }
  for (int buffer = 0; buffer < Plan::kScaleBuffers; ++buffer) ptx::mbarrier_init(shared.scale_free(buffer), 1);
  ptx::mbarrier_init_fence();
}

// The rest of a producer warp waits at the end of the kernel.
template <class Config, class Plan>
__device__ __forceinline__ void run_producer(const PairParams& params, const PairMaps& maps,
                                             const PairShared<Plan>& shared, const PairPlace& place, bool of_a) {
  PairProducer<Config, Plan> producer(maps, shared, place);
  PairTile tile;
  if (!of_a || !Plan::kSplitRings) {
    TileOrder<Config, Plan> ahead(params);
    if (params.groups.count == 0 && ahead.take(tile, place.pair)) producer.prefetch_b(tile, params.stages);
  }
  ptx::wait_for_dependencies();
  TileOrder<Config, Plan> order(params);
  if (Plan::kSplitRings && of_a) {
    while (order.take(tile, place.pair)) producer.load_a_ring(tile, params.stages);
    producer.drain_a_ring();
  } else {
    while (order.take(tile, place.pair)) producer.load(tile, params.stages, params.groups.b_rows);
    producer.drain();
  }
}

template <class Config, class Plan, bool kApart>
__device__ __forceinline__ void run_multiplier(const PairParams& params, const PairShared<Plan>& shared,
                                               const PairPlace& place, uint32_t tmem) {
  if (Plan::kGroups && params.groups.count > 0) ptx::wait_for_dependencies();  // the groups may be another kernel's
  PairMultiplier<Config, Plan> multiplier(params, shared, place, tmem);
  TileOrder<Config, Plan> order(params);
  PairTile tile;
  while (order.take(tile, place.pair)) {
    if constexpr (kApart) {
      multiplier.multiply_apart(params.stages);
    } else {
      multiplier.multiply(tile.n, params.stages);
    }
  }
  multiplier.drain();
}

template <class Config, class Plan, bool kApart>
__device__ __forceinline__ void run_epilogue(const PairParams& params, const CUtensorMap* map_out,
                                             const PairShared<Plan>& shared, const PairPlace& place, uint32_t tmem) {
  ptx::wait_for_dependencies();
  PairEpilogue<Config, Plan> epilogue(params, map_out, shared, place, tmem);
  TileOrder<Config, Plan> order(params);
  PairTile tile;
  while (order.take(tile, place.pair)) {
    if constexpr (kApart) {
      epilogue.store_sum(tile, params.stages);
    } else {
      epilogue.store(tile);
    }
  }
  epilogue.drain();
}

// kApart: every stage has an accumulator of its own and the epilogue adds them up (fp32 promotion).
template <class Config, class Operands, bool kApart>
__global__ void __launch_bounds__(Plan<Config, Operands>::kThreads, 1)
    gemm_pair_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_scale_a, const __grid_constant__ CUtensorMap map_scale_b,
                     const __grid_constant__ CUtensorMap map_out, const __grid_constant__ PairParams params) {
#if defined(TILEWRIGHT_HAS_TCGEN05)
  using Layout = Plan<Config, Operands>;
  static_assert(!Layout::kNeedsSm107 || __CUDA_ARCH_FAMILY_SPECIFIC__ == 1070, "this tile is one of sm_107");
  extern __shared__ __align__(1024) uint8_t dynamic_smem[];
  const PairShared<Layout> shared{ptx::shared_address(dynamic_smem)};
  if (shared.base % 1024 != 0) __trap();
  const PairPlace place;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  ptx::release_dependents();
  if (threadIdx.x == 0) {
    for (const CUtensorMap* map : {&map_a, &map_b}) ptx::tma_prefetch_map(map);
    if constexpr (Layout::kScaled) {
      for (const CUtensorMap* map : {&map_scale_a, &map_scale_b}) ptx::tma_prefetch_map(map);
    }
    if (params.bulk_store) ptx::tma_prefetch_map(&map_out);
    start_barriers(shared, Config::kStages);
  }
  if (warp == Layout::kMultiplyWarp) {
    ptx::tmem_allocate<Layout::kAllocatedColumns, Layout::kExclusive>(shared.tmem_slot());
    ptx::tmem_relinquish();
  }
  ptx::tcgen05_fence_before();
  __syncthreads();
  ptx::cluster_sync();  // the other CTAs arrive at these barriers, and the pair has allocated
  ptx::tcgen05_fence_after();
  const uint32_t tmem = ptx::lds_32(shared.tmem_slot());

  if (warp < Layout::kEpilogueWarps) {
    run_epilogue<Config, Layout, kApart>(params, &map_out, shared, place, tmem);
  } else if (warp == Layout::kMultiplyWarp) {
    if (place.leads() && ptx::elect_lane()) run_multiplier<Config, Layout, kApart>(params, shared, place, tmem);
  } else if (ptx::elect_lane()) {
    const PairMaps maps{&map_a, &map_b, &map_scale_a, &map_scale_b};
    run_producer<Config, Layout>(params, maps, shared, place, warp == Layout::kProducerAWarp);
  }
  __syncwarp();
  // Nobody leaves, or frees tensor memory, while the other CTAs still use what is here.
  ptx::tcgen05_fence_before();
  ptx::cluster_sync();
  ptx::tcgen05_fence_after();
  if (warp == Layout::kMultiplyWarp) ptx::tmem_free<Layout::kAllocatedColumns, Layout::kExclusive>(tmem);
#else
  __trap();  // the launcher refuses devices without tcgen05
#endif
}

}  // namespace tilewright::tcgen05
