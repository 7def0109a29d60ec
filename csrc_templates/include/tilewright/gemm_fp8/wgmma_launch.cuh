// Host side of the wgmma engine of gemm_fp8: tensor maps, parameters, the number of clusters.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_fp8/args.h"
#include "tilewright/gemm_fp8/mma_check.h"
#include "tilewright/gemm_fp8/wgmma_schedule.cuh"
#include "tilewright/host/cluster_launch.cuh"
#include "tilewright/host/tensor_map.h"

namespace tilewright::gemm_fp8 {

struct WgmmaMaps {
  CUtensorMap a, a_tail, b, out;
};

// The weights of all groups as rows of 128-byte pieces, the group outermost.
inline cudaError_t make_weight_map(const GemmFp8Args& args, uint32_t box_rows, CUtensorMap& map) {
  const host::EncodeTiled encode = host::encode_tiled();
  if (encode == nullptr) return cudaErrorSymbolNotFound;
  const bool grouped = args.grouping != Grouping::kNone;
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(args.k), static_cast<cuuint64_t>(args.n),
                               static_cast<cuuint64_t>(grouped ? args.groups : 1)};
  const int64_t group_stride = grouped && args.groups > 1 ? args.b_group_stride : args.ldb;
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(args.ldb), static_cast<cuuint64_t>(group_stride)};
  const cuuint32_t box[3] = {128, box_rows, 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, const_cast<void*>(args.b), sizes, strides, box,
                                 steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Rows of A and out, over all groups.
inline int64_t all_rows(const GemmFp8Args& args) {
  return args.grouping == Grouping::kMasked ? args.m * args.groups : args.m;
}

// Rows of out start on 16 bytes.
inline bool takes_vector_stores(const GemmFp8Args& args) {
  const int64_t element = args.dtype == DType::kF32 ? 4 : 2;
  return lies_on(args.out, 16) && args.ldo * element % 16 == 0;
}

// And end on 16 bytes: the copy engine writes whole pieces of that size.
inline bool takes_bulk_stores(const GemmFp8Args& args) {
  const int64_t element = args.dtype == DType::kF32 ? 4 : 2;
  return takes_vector_stores(args) && args.n * element % 16 == 0;
}

inline CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::kF32:
      break;
  }
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

// Four scales of A along m at a time. In groups one after the other, tiles of rows may start anywhere.
inline bool takes_vector_scales(const GemmFp8Args& args) {
  return args.scale_a_m == 1 && args.scale_a_k % 4 == 0 && args.m % 4 == 0 && lies_on(args.scale_a, 16) &&
         args.grouping != Grouping::kContiguous;
}

// Rows of A that the last tile of rows brings, or 0 if as many as the others: the copy engine is slower over rows past
// the end than over rows of the matrix. Where in the matrix tiles of groups end is not known here.
template <class Config>
int tail_rows(const GemmFp8Args& args) {
  const bool may = args.grouping == Grouping::kNone && Config::kClusterM * Config::kClusterN == 1;
  return may ? static_cast<int>(args.m % Config::kMt) : 0;
}

// `out_rows` x `out_columns` is what one bulk store writes.
template <class Config>
cudaError_t make_maps(const GemmFp8Args& args, uint32_t out_rows, uint32_t out_columns, WgmmaMaps& maps) {
  const host::TensorMapKey key_a{args.a,
                                 all_rows(args),
                                 args.k,
                                 args.lda,
                                 Config::kMt / Config::kClusterN,
                                 128,
                                 CU_TENSOR_MAP_DATA_TYPE_UINT8,
                                 CU_TENSOR_MAP_SWIZZLE_128B};
  cudaError_t error = host::make_tensor_map(key_a, maps.a);
  maps.a_tail = maps.a;
  if (const int rows = tail_rows<Config>(args); error == cudaSuccess && rows > 0) {
    host::TensorMapKey key_tail = key_a;
    key_tail.box_rows = static_cast<uint32_t>(rows);
    error = host::make_tensor_map(key_tail, maps.a_tail);
  }
  if (error == cudaSuccess) error = make_weight_map(args, Config::kNt / Config::kClusterM, maps.b);
  if (error != cudaSuccess || !takes_bulk_stores(args)) {
    maps.out = maps.a;  // not used
    return error;
  }
  const int64_t element = args.dtype == DType::kF32 ? 4 : 2;
  const host::TensorMapKey key_out{args.out, all_rows(args), args.n,               args.ldo * element,
                                   out_rows, out_columns,    map_type(args.dtype), CU_TENSOR_MAP_SWIZZLE_128B};
  return host::make_tensor_map(key_out, maps.out);
}

// Tiles of rows to visit together: as many rows as columns in flight at a time, in bands of equal height.
inline int64_t band_height(int64_t tiles_m, int64_t clusters, int64_t cluster_rows, int64_t cluster_columns) {
  int64_t most = 1;  // the whole part of the square root of clusters * columns / rows; libm is not linked
  while ((most + 1) * (most + 1) * cluster_rows <= clusters * cluster_columns) ++most;
  return tiles_m <= most ? tiles_m : ceil_div(tiles_m, ceil_div(tiles_m, most));
}

template <class Config>
WgmmaParams make_params(const GemmFp8Args& args, int64_t clusters) {
  const bool by_block = args.scaling == Scaling::kBlock;
  constexpr int kRows = Config::kMt * Config::kClusterM, kColumns = Config::kNt * Config::kClusterN;
  const int64_t tiles_m = ceil_div(args.m, kRows);
  WgmmaParams params{};
  params.scale_a = args.scale_a;
  params.scale_b = args.scale_b;
  params.bias = args.bias;
  params.out = args.out;
  params.scale_steps = scale_steps_of(args);
  params.scale_b_group = args.scale_b_group;
  params.bias_group = args.bias_group;
  params.ldo = args.ldo;
  params.group_ends = args.group_ends;
  params.group_rows = args.group_rows;
  params.grouping = args.grouping;
  params.groups = args.groups;
  params.m = static_cast<int>(args.m);
  params.n = static_cast<int>(args.n);
  params.rows = static_cast<int>(all_rows(args));
  params.steps = static_cast<int>(ceil_div(args.k, 128));
  params.tiles_m = static_cast<int>(tiles_m);
  params.tiles_n = static_cast<int>(ceil_div(args.n, kColumns));
  params.group_m = static_cast<int>(band_height(tiles_m, clusters, kRows, kColumns));
  params.tail_rows = tail_rows<Config>(args);
  params.vector_scales = by_block && takes_vector_scales(args);
  params.b_ahead = args.grouping == Grouping::kNone && (Config::kPromote || !args.fresh_weights);
  params.by_block = by_block;
  params.vector_out = takes_vector_stores(args);
  params.bulk_out = takes_bulk_stores(args);
  return params;
}

// No fewer tiles than the problem has: each group may end in a ragged tile.
template <class Config>
int64_t most_tiles(const GemmFp8Args& args) {
  const int64_t rows = ceil_div(args.m, Config::kMt * Config::kClusterM);
  const int64_t columns = ceil_div(args.n, Config::kNt * Config::kClusterN);
  switch (args.grouping) {
    case Grouping::kNone:
      break;
    case Grouping::kContiguous:
      return (rows + args.groups) * columns;
    case Grouping::kMasked:
      return rows * args.groups * columns;
  }
  return rows * columns;
}

// Clusters of `launch` that the current device, a Hopper, holds at once. Found once for each device; a kernel has one.
struct ClusterCount {
  static constexpr int kMaxDevices = 64;
  std::atomic<int> fitting[kMaxDevices]{};

  cudaError_t find(const void* kernel, const host::ClusterLaunch& launch, int& clusters) {
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
    const bool remembered = device < kMaxDevices;
    clusters = remembered ? fitting[device].load(std::memory_order_relaxed) : 0;
    if (clusters > 0) return cudaSuccess;
    int major = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error != cudaSuccess) return error;
    if (major != 9) return cudaErrorNoKernelImageForDevice;
    error = host::max_active_clusters(kernel, launch, device, clusters);
    if (error != cudaSuccess) return error;
    if (clusters < 1) return cudaErrorLaunchOutOfResources;
    if (remembered) fitting[device].store(clusters, std::memory_order_relaxed);
    return cudaSuccess;
  }
};

}  // namespace tilewright::gemm_fp8
