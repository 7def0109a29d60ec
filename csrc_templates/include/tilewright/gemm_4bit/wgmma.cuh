// gemm_4bit on Hopper: packed weights expanded in registers as the A operand of wgmma, activations brought by bulk tensor
// copies, one producer warp and kNt / 64 consumer warpgroups, persistent over tiles.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/check.h"
#include "tilewright/gemm_4bit/engine_launcher.h"
#include "tilewright/gemm_4bit/wgmma_consumer.cuh"
#include "tilewright/gemm_4bit/wgmma_epilogue.cuh"
#include "tilewright/gemm_4bit/wgmma_plan.cuh"
#include "tilewright/gemm_4bit/wgmma_smem.h"
#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/host/tensor_map.h"
#include "tilewright/ptx/cp_async.cuh"
#include "tilewright/ptx/tma.cuh"

namespace tilewright {
namespace kernels {

// Fills the ring. One thread.
template <class Config, bool kPrepacked>
class WgmmaProducer {
 public:
  using Geometry = WgmmaGeometry<Config>;

  // `map_last` is of A too, in boxes of `last_rows` rows, for its last tile: a copy is the slower, the more of its rows lie
  // outside of A.
  __device__ __forceinline__ WgmmaProducer(const CUtensorMap* map_a, const CUtensorMap* map_last, const CUtensorMap* map_w,
                                           const WgmmaParams& params, const WgmmaShared<Config>& shared,
                                           WgmmaPlace<Config> place)
      : map_a_(map_a), map_last_(map_last), map_w_(map_w), params_(params), shared_(shared), place_(place) {}

  // Weights of the first stages, which do not depend on the kernels before this one. Call once, before load_tile.
  __device__ __forceinline__ void load_weights_early(int tile_m, int weight_tile, int first_turn, int end_turn) {
    early_ = min((end_turn - first_turn) * (kTurnK / Config::kKc), Config::kStages);
    for (int stage = 0; stage < early_; ++stage) {
      load_weights(stage, tile_m, weight_tile, first_turn * kTurnK + stage * Config::kKc);
    }
  }

  __device__ __forceinline__ void load_tile(int tile_m, int weight_tile, int first_turn, int end_turn) {
    const CUtensorMap* map = is_last(tile_m) ? map_last_ : map_a_;
    for (int k = first_turn * kTurnK; k < end_turn * kTurnK; k += Config::kKc) {
      if (early_ > 0) {
        --early_;
      } else {
        ptx::mbarrier_wait(shared_.empty(ring_.slot), ring_.phase ^ 1);
        load_weights(ring_.slot, tile_m, weight_tile, k);
      }
#pragma unroll
      for (int panel = 0; panel < Config::kKc / kStepK; ++panel) load_panel(map, tile_m, k, panel);
      ring_.advance();
    }
  }

 private:
  // Opens the stage: its barrier waits for the activations too.
  __device__ __forceinline__ void load_weights(int slot, int tile_m, int weight_tile, int k) const {
    const uint32_t full = shared_.full(slot);
    ptx::mbarrier_arrive_expect(full, a_bytes(tile_m) + Geometry::kWStageBytes);
    // Prepacked, the map counts 8 bytes to a column, as many columns as elements of k, and 16 rows to a row.
    ptx::tma_load_2d(shared_.w_stage(slot), map_w_, full, kPrepacked ? k : k / 2,
                     weight_tile * (kPrepacked ? Config::kNt / kPrepackedRows : Config::kNt));
  }

  __device__ __forceinline__ void load_panel(const CUtensorMap* map, int tile_m, int k, int panel) const {
    const uint32_t full = shared_.full(ring_.slot);
    const uint32_t destination = shared_.a_stage(ring_.slot) + panel * Geometry::kPanelBytes;
    const int x = k + panel * kStepK;
    if constexpr (Config::kClusterN == 1) {
      ptx::tma_load_2d(destination, map, full, x, tile_m * Config::kMt);
    } else {
      constexpr int kRows = Config::kMt / Config::kClusterN;
      const auto mask = static_cast<uint16_t>(((1 << Config::kClusterN) - 1) << (place_.split * Config::kClusterN));
      ptx::tma_load_2d_multicast(destination + place_.peer * kRows * 128, map, full, x,
                                 tile_m * Config::kMt + place_.peer * kRows, mask);
    }
  }

  __device__ __forceinline__ bool is_last(int tile_m) const {
    return Geometry::kOwnLastBox && tile_m == params_.tiles_m - 1;
  }
  __device__ __forceinline__ int a_bytes(int tile_m) const {
    return is_last(tile_m) ? Config::kKc / kStepK * 128 * params_.last_rows : Geometry::kAStageBytes;
  }

  const CUtensorMap* map_a_;
  const CUtensorMap* map_last_;
  const CUtensorMap* map_w_;
  const WgmmaParams& params_;
  const WgmmaShared<Config>& shared_;
  WgmmaPlace<Config> place_;
  RingPosition<Config::kStages> ring_;
  int early_ = 0;  // stages whose weights are on their way already
};

// Entry `byte`: the two elements of a byte of codes, once per lane. All threads of the block; the caller synchronises.
// Neighbouring threads store different sixteenths of their rows, in different banks.
template <class Element, int kThreads, int kStride>
__device__ __forceinline__ void fill_byte_table(uint32_t table, QuantType quant_type) {
  const dequant::NibbleTables tables = dequant::nibble_tables<Element>(quant_type);
  for (int byte = static_cast<int>(threadIdx.x); byte < 256; byte += kThreads) {
    uint32_t entry, unused;
    if (quant_type == QuantType::kE2m1) {
      dequant::expand_four<false>(tables, byte, entry, unused);
    } else {
      dequant::expand_four<true>(tables, byte, entry, unused);
    }
    const float word = __uint_as_float(entry);
#pragma unroll
    for (int i = 0; i < 8; ++i) ptx::sts_float4(table + byte * kStride + ((byte + i) & 7) * 16, word, word, word, word);
  }
}

template <class Config, bool kBlock16, bool kPrepacked>
__global__ void __launch_bounds__(WgmmaGeometry<Config>::kThreads, Config::kOccupancy)
    gemm_4bit_wgmma_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_last,
                           const __grid_constant__ CUtensorMap map_w, const __grid_constant__ WgmmaParams params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Geometry = WgmmaGeometry<Config>;
  extern __shared__ uint8_t dynamic_smem[];
  const uint32_t window = ptx::shared_address(dynamic_smem);
  const WgmmaShared<Config> shared{(window + Geometry::kAlignment - 1) / Geometry::kAlignment * Geometry::kAlignment};
  const WgmmaPlace<Config> place;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  WgmmaSchedule<Config> schedule(params.tiles_m * params.clusters_n, (params.steps + 1) / 2, place);
  WgmmaProducer<Config, kPrepacked> producer(&map_a, &map_last, &map_w, params, shared, place);
  const auto weight_tile = [&](WgmmaTile tile) { return tile.n * Config::kClusterN + place.peer; };
  ptx::release_dependents();
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < Config::kStages; ++slot) {
      ptx::mbarrier_init(shared.full(slot), 1);
      ptx::mbarrier_init(shared.empty(slot), 4 * Geometry::kConsumers * Config::kClusterN);
    }
    ptx::mbarrier_init(shared.received(), 1);
    ptx::mbarrier_init(shared.spare(), 1);
    ptx::mbarrier_init_fence();
    WgmmaSchedule<Config> ahead = schedule;
    WgmmaWork work;
    if (ahead.take(work)) {
      const WgmmaTile tile = tile_at(params, work.tile);
      producer.load_weights_early(tile.m, weight_tile(tile), work.first_turn, work.end_turn);
    }
    ptx::tma_prefetch_map(&map_a);
    ptx::tma_prefetch_map(&map_last);
    const QuantType quant_type = kBlock16 ? QuantType::kE2m1 : params.quant_type;
    auto* tables = reinterpret_cast<dequant::NibbleTables*>(dynamic_smem + (shared.tables() - window));
    tables[0] = tables[1] = dequant::nibble_tables<typename Config::Element>(quant_type);
  }
  if constexpr (Config::kLutParts > 0) {
    fill_byte_table<typename Config::Element, Geometry::kThreads, Geometry::kTableStride>(
        shared.byte_table(), kBlock16 ? QuantType::kE2m1 : params.quant_type);
  }
  if (params.source.kind == dequant::ScaleKind::kNestedAbsmax) {
    float* table = reinterpret_cast<float*>(dynamic_smem + (shared.nested_code() - window));
    for (int i = static_cast<int>(threadIdx.x); i < dequant::kNestedCodeSize; i += Geometry::kThreads) {
      table[i] = __ldg(params.source.nested_code + i);
    }
  }
  __syncthreads();
  if constexpr (Config::kClusterN > 1) ptx::cluster_sync();  // peers arrive at these barriers

  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Geometry::kProducerRegisters>();
    if (threadIdx.x == 0) {
      ptx::wait_for_dependencies();
      WgmmaWork work;
      while (schedule.take(work)) {
        const WgmmaTile tile = tile_at(params, work.tile);
        producer.load_tile(tile.m, weight_tile(tile), work.first_turn, work.end_turn);
      }
    }
    __syncwarp();
    if (schedule.shares()) ptx::cluster_sync();
  } else {
    ptx::setmaxnreg_inc<Geometry::kConsumerRegisters>();
    const int consumer = warpgroup - 1;
    const float offset = dequant::load_offset(params.source);
    WgmmaConsumer<Config, kBlock16, kPrepacked> multiplier(params, shared, place, consumer, offset);
    RingPosition<Config::kStages> ring;
    WgmmaWork work;
    while (schedule.take(work)) {
      const WgmmaTile tile = tile_at(params, work.tile);
      const int first_n = (tile.n * Config::kClusterN + place.peer) * Config::kNt;
      float acc[Config::kMt / 2];
#pragma unroll
      for (float& value : acc) value = 0.0f;
      multiplier.multiply(acc, ring, first_n, work);
      ptx::wait_for_dependencies();  // of the output and the bias; A has been waited for, the weights are nobody's result
      const WgmmaEpilogue<Config> epilogue(params, shared, consumer, tile.m * Config::kMt, first_n + consumer * 64,
                                           kBlock16 ? offset : 1.0f);
      if (Config::kSplitK == 1 || !work.split) {
        epilogue.store(acc);
        continue;
      }
      if constexpr (Config::kSplitK > 1) {
        const WgmmaExchange<Config> exchange(schedule.whole_tiles(), (params.steps + 1) / 2);
        ptx::cluster_wait();  // multiply() arrived
        epilogue.send_shares(exchange, shared, place, acc);
        epilogue.store_share(exchange, shared, place, acc);
      }
    }
  }
  // No block leaves while another may still arrive at its barriers. (What split_k sends it, it has waited for.)
  if constexpr (Config::kClusterN > 1) ptx::cluster_sync();
#else
  __trap();  // the launcher refuses devices other than sm_90
#endif
}

// The launch shape of one kernel on one device, found once.
template <class Config>
struct WgmmaLaunchShape {
  static host::ClusterLaunch at(int64_t blocks) {
    using Geometry = WgmmaGeometry<Config>;
    return {dim3(static_cast<unsigned>(blocks)), dim3(Geometry::kThreads), Geometry::kBytes, Geometry::kCluster, true};
  }
};

}  // namespace kernels

// Takes f16 and bf16, both layouts, K % 64 == 0, every M and N (prepacked: N % 16 == 0), nf4 and fp4 with blocksizes of 64 and
// more, e2m1. Rows of A start on 16 bytes (pointer, and lda % 8 == 0), and so does B, scales that are not nested on 4;
// otherwise cudaErrorMisalignedAddress.
template <>
struct EngineLauncher<Engine::kWgmma> {
  template <class Config>
  static cudaError_t launch(const Gemm4bitArgs& args, cudaStream_t stream) {
    using Element = typename Config::Element;
    static_assert(std::is_same_v<Element, __half> || std::is_same_v<Element, __nv_bfloat16>, "16-bit elements only");
    static_assert(Config::kNt % 64 == 0 && Config::kNt <= 256, "one to four consumer warpgroups");
    static_assert(Config::kMt % 16 == 0 && Config::kMt / Config::kClusterN % 8 == 0, "panels of whole swizzle groups");
    static_assert(Config::kKc == 64 || Config::kKc == 128, "a stage is one or two steps");
    static_assert(WgmmaGeometry<Config>::kCluster <= 8, "larger clusters are not portable");
    static_assert(WgmmaGeometry<Config>::kBytes * Config::kOccupancy <= 227 * 1024, "the tile does not fit");
    const cudaError_t checked = host::check_gemm_4bit(args, ElementTraits<Element>::kDType);
    if (checked != cudaSuccess || args.m == 0 || args.n == 0) return checked;
    if (args.k % 64 != 0 || args.k == 0 || args.k > INT32_MAX || args.m > INT32_MAX || args.n > INT32_MAX) {
      return cudaErrorNotSupported;
    }
    if (args.layout == WeightLayout::kPrepacked && args.n % kPrepackedRows != 0) return cudaErrorNotSupported;
    if (args.quant_type == QuantType::kE2m1) return launch_layout<Config, true>(args, stream);
    if (args.blocksize < 64 || args.k % args.blocksize != 0) return cudaErrorNotSupported;
    return launch_layout<Config, false>(args, stream);
  }

 private:
  template <class Config>
  static host::TensorMapKey weight_key(const Gemm4bitArgs& args) {
    if (args.layout == WeightLayout::kPrepacked) {
      return {args.b, args.n / kPrepackedRows, args.k, args.k * 8, Config::kNt / kPrepackedRows, Config::kKc,
              CU_TENSOR_MAP_DATA_TYPE_INT64, CU_TENSOR_MAP_SWIZZLE_NONE};
    }
    return {args.b, args.n, args.k / 2, args.k / 2, Config::kNt, Config::kKc / 2, CU_TENSOR_MAP_DATA_TYPE_UINT8,
            Config::kKc == 64 ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_64B};
  }

  // Rows of A that are copied for the last tile: those there are, rounded up to the eight of a swizzle group.
  template <class Config>
  static uint32_t last_rows(const Gemm4bitArgs& args) {
    if (!WgmmaGeometry<Config>::kOwnLastBox) return Config::kMt;
    return static_cast<uint32_t>((args.m - 1) % Config::kMt / 8 * 8 + 8);
  }

  template <class Config>
  static cudaError_t make_maps(const Gemm4bitArgs& args, CUtensorMap& map_a, CUtensorMap& map_last, CUtensorMap& map_w) {
    const bool scales_aligned = args.nested_absmax != nullptr || host::is_aligned(args.scales, 4);
    if (!host::is_aligned(args.a, 16) || args.lda % 8 != 0 || !host::is_aligned(args.b, 16) || !scales_aligned) {
      return cudaErrorMisalignedAddress;
    }
    const auto type = std::is_same_v<typename Config::Element, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                       : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    host::TensorMapKey key_a{args.a, args.m, args.k, args.lda * 2, Config::kMt / Config::kClusterN, 64,
                             type, CU_TENSOR_MAP_SWIZZLE_128B};
    if (const cudaError_t made = host::make_tensor_map(key_a, map_a); made != cudaSuccess) return made;
    map_last = map_a;
    if (const uint32_t rows = last_rows<Config>(args); rows != Config::kMt) {
      key_a.box_rows = rows;
      if (const cudaError_t made = host::make_tensor_map(key_a, map_last); made != cudaSuccess) return made;
    }
    return host::make_tensor_map(weight_key<Config>(args), map_w);
  }

  template <class Config>
  static kernels::WgmmaParams make_params(const Gemm4bitArgs& args) {
    constexpr int kGroupM = 8;
    const int64_t tiles_m = host::ceil_div(args.m, Config::kMt);
    return {args.out,
            args.bias,
            dequant::make_scale_source(args.scales, args.nested_absmax, args.nested_code, args.offset, args.blocksize,
                                       args.quant_type),
            args.quant_type,
            static_cast<int>(args.m),
            static_cast<int>(args.n),
            static_cast<int>(args.k / 64),
            static_cast<int>(tiles_m),
            static_cast<int>(host::ceil_div(args.n, int64_t{Config::kNt} * Config::kClusterN)),
            static_cast<int>(tiles_m < kGroupM ? tiles_m : kGroupM),
            static_cast<int>(last_rows<Config>(args))};
  }

  // Clusters to launch: one per tile, but no more than the device holds at once.
  template <class Config>
  static cudaError_t count_clusters(const void* kernel, int64_t tiles, int64_t& clusters) {
    clusters = tiles;
    static std::atomic<int> fitting[kMaxDevices]{};
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
    int fit = device < kMaxDevices ? fitting[device].load(std::memory_order_relaxed) : 0;
    if (fit == 0) {
      const auto launch = kernels::WgmmaLaunchShape<Config>::at(WgmmaGeometry<Config>::kCluster);
      if (const cudaError_t error = host::max_active_clusters(kernel, launch, device, fit); error != cudaSuccess) return error;
      if (fit < 1) return cudaErrorLaunchOutOfResources;
      if (device < kMaxDevices) fitting[device].store(fit, std::memory_order_relaxed);
    }
    if (fit < clusters) clusters = fit;
    return cudaSuccess;
  }

  template <class Config, bool kBlock16>
  static cudaError_t launch_layout(const Gemm4bitArgs& args, cudaStream_t stream) {
    return args.layout == WeightLayout::kPrepacked ? launch_kind<Config, kBlock16, true>(args, stream)
                                                   : launch_kind<Config, kBlock16, false>(args, stream);
  }

  template <class Config, bool kBlock16, bool kPrepacked>
  static cudaError_t launch_kind(const Gemm4bitArgs& args, cudaStream_t stream) {
    using Geometry = WgmmaGeometry<Config>;
    CUtensorMap map_a, map_last, map_w;
    if (const cudaError_t made = make_maps<Config>(args, map_a, map_last, map_w); made != cudaSuccess) return made;
    static host::SmemOptIn opt_in;
    const auto kernel = &kernels::gemm_4bit_wgmma_kernel<Config, kBlock16, kPrepacked>;
    const void* function = reinterpret_cast<const void*>(kernel);
    if (const cudaError_t raised = opt_in.ensure(function, Geometry::kBytes); raised != cudaSuccess) return raised;
    const kernels::WgmmaParams params = make_params<Config>(args);
    const int64_t tiles = int64_t{params.tiles_m} * params.clusters_n;
    int64_t clusters = 0;
    if (const cudaError_t error = count_clusters<Config>(function, tiles, clusters); error != cudaSuccess) return error;
    if (tiles > INT32_MAX || clusters * Geometry::kCluster > host::kMaxGridX) return cudaErrorInvalidConfiguration;
    auto launch = kernels::WgmmaLaunchShape<Config>::at(clusters * Geometry::kCluster);
    launch.dependent = !args.fresh_weights;
    return host::launch_cluster_kernel(kernel, launch, stream, map_a, map_last, map_w, params);
  }

  static constexpr int kMaxDevices = 64;
};

}  // namespace tilewright
