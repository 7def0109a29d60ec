// Tensor maps for bulk copies, encoded by the driver without linking it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace tilewright::host {

// A row-major matrix of `rows` x `columns` elements, `row_bytes` from one row to the next, read in boxes.
struct TensorMapKey {
  const void* base;
  int64_t rows, columns, row_bytes;
  uint32_t box_rows, box_columns;
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
};

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's encoder, or null when the driver has none. Found once; two threads that look at the same time find the
// same.
inline EncodeTiled encode_tiled() {
  static std::atomic<EncodeTiled> known{nullptr};
  if (const EncodeTiled function = known.load(std::memory_order_acquire)) return function;
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess) (void)cudaGetLastError();
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  const auto function = reinterpret_cast<EncodeTiled>(entry);
  known.store(function, std::memory_order_release);
  return function;
}

// cudaErrorSymbolNotFound without an encoder, cudaErrorInvalidValue when the driver refuses the shape or alignment.
inline cudaError_t make_tensor_map(const TensorMapKey& key, CUtensorMap& map) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorSymbolNotFound;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(key.columns), static_cast<cuuint64_t>(key.rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(key.row_bytes)};
  const cuuint32_t box[2] = {key.box_columns, key.box_rows};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result = encode(&map, key.type, 2, const_cast<void*>(key.base), sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, key.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// A row-major matrix of 16-bit elements, cut along its columns into slices of 64, a multiple of which they are: a box is
// `box_slices` of them, each of `box_rows` rows of 128 bytes, swizzled.
struct SlicedMapKey {
  const void* base;
  int64_t rows, columns, row_bytes;
  uint32_t box_rows, box_slices;
};

// Errors as make_tensor_map.
inline cudaError_t make_sliced_map(const SlicedMapKey& key, CUtensorMap& map) {
  const EncodeTiled encode = encode_tiled();
  if (encode == nullptr) return cudaErrorSymbolNotFound;
  const cuuint64_t sizes[3] = {64, static_cast<cuuint64_t>(key.rows), static_cast<cuuint64_t>(key.columns / 64)};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(key.row_bytes), 128};
  const cuuint32_t box[3] = {64, key.box_rows, key.box_slices};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 3, const_cast<void*>(key.base), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace tilewright::host
