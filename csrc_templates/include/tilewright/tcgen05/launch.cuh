// Host side of the tcgen05 engine: tensor maps, oversized shared memory, the number of clusters, the launch.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/host/kernel_launch.cuh"
#include "tilewright/host/tensor_map.h"
#include "tilewright/tcgen05/kernel.cuh"
#include "tilewright/tcgen05/plan.h"

namespace tilewright::tcgen05 {

// What one call multiplies, whatever the family. `a` and `b` are rows of K, `lda` and `ldb` bytes apart; the scale
// arrays are those of block-scaled operands, null otherwise.
struct PairProblem {
  const void* a;
  const void* b;
  const void* scale_a;
  const void* scale_b;
  const void* bias;
  void* out;
  int64_t m, n, k, lda, ldb, ldo;
  EpilogueScales scales;
  uint32_t a_format;
  PairGroups groups;
};

// Rows of A and of the output, over all groups, and of B.
inline int64_t rows_of_a(const PairProblem& problem) {
  return problem.groups.count > 0 && problem.groups.ends == nullptr ? problem.m * problem.groups.count : problem.m;
}
inline int64_t rows_of_b(const PairProblem& problem) {
  return problem.groups.count > 0 ? int64_t{problem.groups.count - 1} * problem.groups.b_rows + problem.n : problem.n;
}

constexpr int64_t kMaxRows = int64_t{1} << 30;  // coordinates are 32-bit, and a tile may pass the end

inline bool on_bytes(const void* pointer, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }
inline int64_t tiles_of(int64_t length, int64_t tile) { return (length + tile - 1) / tile; }

template <class Element>
constexpr CUtensorMapDataType tensor_map_type() {
  if constexpr (std::is_same_v<Element, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if constexpr (std::is_same_v<Element, __half>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

// Keep one static instance per kernel instantiation; constant-initialised.
//
// Allows a kernel `bytes` of dynamic shared memory on the current device: by the opt-in limit, or past it in the
// oversized mode, which one driver, toolkit and chip in a row must know. cudaErrorNotSupported where one does not.
class SmemMode {
 public:
  cudaError_t ensure(const void* kernel, int bytes, bool oversized) {
    if (!oversized) return opt_in_.ensure(kernel, bytes);
#if CUDART_VERSION >= 13050
    int device = 0, most = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
    if (device < kMaxDevices && granted_[device].load(std::memory_order_acquire) != 0) return cudaSuccess;
    cudaError_t error = cudaDeviceGetAttribute(&most, cudaDevAttrOversizedSharedMemoryPerBlock, device);
    if (error != cudaSuccess || most < bytes) {
      (void)cudaGetLastError();
      return cudaErrorNotSupported;
    }
    error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeSharedMemoryMode, cudaSharedMemoryModeAllowOversizedSharedMemory);
    if (error != cudaSuccess) {
      (void)cudaGetLastError();
      return error;
    }
    if (device < kMaxDevices) granted_[device].store(1, std::memory_order_release);
    return cudaSuccess;
#else
    (void)kernel, (void)bytes;
    return cudaErrorNotSupported;
#endif
  }

 private:
  static constexpr int kMaxDevices = 64;  // devices past this ask every time
  host::SmemOptIn opt_in_;
  std::atomic<int> granted_[kMaxDevices]{};
};

template <class Config, class Operands, bool kApart>
class PairLauncher {
 public:
  // The family has checked types, pointers and sizes; this adds what the copy engine and the grid ask for.
  static cudaError_t launch(const PairProblem& problem, cudaStream_t stream) {
    if (problem.m > kMaxRows || problem.n > kMaxRows || problem.k > kMaxRows || rows_of_a(problem) > kMaxRows ||
        rows_of_b(problem) > kMaxRows) {
      return cudaErrorNotSupported;
    }
    if (!on_bytes(problem.out, sizeof(Element)) || !on_bytes(problem.bias, sizeof(Element)))
      return cudaErrorMisalignedAddress;
    const PairParams params = make_params(problem);
    const int64_t tiles = most_tiles(problem, params);
    if (tiles > INT32_MAX / 2) return cudaErrorInvalidConfiguration;
    Maps maps{};
    if (const cudaError_t error = make_maps(problem, params.bulk_store, maps); error != cudaSuccess) return error;
    const auto kernel = &gemm_pair_kernel<Config, Operands, kApart>;
    const void* function = reinterpret_cast<const void*>(kernel);
    static SmemMode smem;
    if (const cudaError_t error = smem.ensure(function, Layout::kBytes, Layout::kOversized); error != cudaSuccess) {
      return error;
    }
    int64_t clusters = 0;
    if (const cudaError_t error = count_clusters(function, tiles, clusters); error != cudaSuccess) return error;
    return host::launch_cluster_kernel(kernel, shape(clusters), stream, maps.a, maps.b, maps.scale_a, maps.scale_b,
                                       maps.out, params);
  }

  static PairParams make_params(const PairProblem& problem) {
    constexpr int64_t kSize = sizeof(Element);
    const int64_t stages = tiles_of(problem.k, Layout::kStageK);
    return {problem.out,
            problem.bias,
            problem.scales,
            problem.groups,
            problem.ldo,
            static_cast<int>(problem.m),
            static_cast<int>(problem.n),
            static_cast<int>(Layout::kTurns ? tiles_of(stages, Layout::kTurnStages) * Layout::kTurnStages : stages),
            static_cast<int>(tiles_of(problem.m, Layout::kTileM)),
            static_cast<int>(tiles_of(problem.n, Layout::kClusterN)),
            Config::kSupergroup,
            on_bytes(problem.out, 16) && problem.ldo * kSize % 16 == 0,
            problem.a_format};
  }

 private:
  using Element = typename Config::Element;
  using Layout = Plan<Config, Operands>;
  struct Maps {
    CUtensorMap a, b, scale_a, scale_b, out;
  };

  // No fewer tiles than there are: every group may end in a ragged one.
  static int64_t most_tiles(const PairProblem& problem, const PairParams& params) {
    const int64_t groups = problem.groups.count;
    if (groups == 0) return int64_t{params.tiles_m} * params.tiles_n;
    const int64_t tiles_m = problem.groups.ends != nullptr ? params.tiles_m + groups : params.tiles_m * groups;
    return tiles_m * params.tiles_n;
  }

  static cudaError_t make_maps(const PairProblem& problem, bool bulk_store, Maps& maps) {
    if (!on_bytes(problem.a, 16) || !on_bytes(problem.b, 16) || problem.lda % 16 != 0 || problem.ldb % 16 != 0 ||
        !on_bytes(problem.scale_a, 16) || !on_bytes(problem.scale_b, 16)) {
      return cudaErrorMisalignedAddress;
    }
    const int64_t row = problem.k * kRowBytes / Layout::kStageK;
    cudaError_t error =
        make_operand_map(problem.a, rows_of_a(problem), row, problem.lda, kCtaRows / Layout::kPairs, maps.a);
    if (error == cudaSuccess)
      error = make_operand_map(problem.b, rows_of_b(problem), row, problem.ldb, Layout::kBRows, maps.b);
    if (Layout::kScaled && error == cudaSuccess) {
      error = make_scale_map(problem.scale_a, problem.m, problem.k, Layout::kStageAtoms / Layout::kPairs, maps.scale_a);
    }
    if (Layout::kScaled && error == cudaSuccess) {
      const int atoms = Config::kNt == 256 ? Layout::kStageAtoms : Layout::kStageAtoms / 2;
      error = make_scale_map(problem.scale_b, problem.n, problem.k, atoms, maps.scale_b);
    }
    if (!bulk_store || error != cudaSuccess) return error;
    constexpr uint32_t kColumns = kOutputBoxBytes / sizeof(Element);
    return host::make_tensor_map({problem.out, rows_of_a(problem), problem.n, problem.ldo * int64_t{sizeof(Element)},
                                  32, kColumns, tensor_map_type<Element>(), CU_TENSOR_MAP_SWIZZLE_64B},
                                 maps.out);
  }

  static cudaError_t make_operand_map(const void* base, int64_t rows, int64_t bytes, int64_t pitch, uint32_t box_rows,
                                      CUtensorMap& map) {
    return host::make_tensor_map(
        {base, rows, bytes, pitch, box_rows, kRowBytes, CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_SWIZZLE_128B},
        map);
  }

  // A row for every 128 rows of the operand: its atoms along K, in units of 8 bytes.
  static cudaError_t make_scale_map(const void* base, int64_t rows, int64_t k, int box_atoms, CUtensorMap& map) {
    const int64_t atoms = tiles_of(k, 64);
    const auto box = static_cast<uint32_t>(box_atoms * kScaleAtomBytes / 8);
    return host::make_tensor_map({base, tiles_of(rows, 128), atoms * kScaleAtomBytes / 8, atoms * kScaleAtomBytes, 1,
                                  box, CU_TENSOR_MAP_DATA_TYPE_UINT64, CU_TENSOR_MAP_SWIZZLE_NONE},
                                 map);
  }

  static host::ClusterLaunch shape(int64_t clusters) {
    return {dim3(static_cast<unsigned>(clusters * Config::kCluster)), dim3(Layout::kThreads), Layout::kBytes,
            Config::kCluster, true};
  }

  // One cluster per tile, but no more than the device holds at once.
  static cudaError_t count_clusters(const void* kernel, int64_t tiles, int64_t& clusters) {
    static std::atomic<int> fitting[kMaxDevices]{};
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
    int fit = device < kMaxDevices ? fitting[device].load(std::memory_order_relaxed) : 0;
    if (fit == 0) {
      const cudaError_t error = host::max_active_clusters(kernel, shape(1), device, fit);
      if (error != cudaSuccess) return error;
      if (fit < 1) return cudaErrorLaunchOutOfResources;
      if (device < kMaxDevices) fitting[device].store(fit, std::memory_order_relaxed);
    }
    clusters = tiles < fit ? tiles : fit;
    return cudaSuccess;
  }

  static constexpr int kMaxDevices = 64;
};

}  // namespace tilewright::tcgen05
