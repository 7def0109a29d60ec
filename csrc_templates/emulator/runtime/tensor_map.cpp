// cuTensorMapEncodeTiled: the checks of the driver, and a map that the emulated copy engine reads.
#include "tensor_map.h"

#include <cstring>

namespace tilewright::emulator {

namespace {

int bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B:
    case CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 4;
  }
}

int pattern_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE: return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
    default: return -1;
  }
}

}  // namespace

const TensorMap& tensor_map_at(const void* pointer, int rank, Place place) {
  if (reinterpret_cast<uintptr_t>(pointer) % 64 != 0)
    fail(Detector::kAlignment, "a tensor map is not on 64 bytes", place);
  const auto& map = *static_cast<const TensorMap*>(pointer);
  if (map.mark != kTensorMapMark) fail(Detector::kDescriptor, "this is no tensor map", place);
  if (map.rank != rank)
    fail(Detector::kDescriptor, format("a map of %d dimensions is used with %d", map.rank, rank), place);
  return map;
}

}  // namespace tilewright::emulator

using namespace tilewright::emulator;

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  const int pattern = pattern_of(swizzle);
  const bool packed = type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B || type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
  const cuuint64_t element = static_cast<cuuint64_t>(bytes_of(type));
  const cuuint64_t row = packed ? box[0] / 2 : box[0] * element;
  if (map == nullptr || rank < 1 || rank > 5 || pattern < 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<uintptr_t>(base) % 16 != 0 || base == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (row % 16 != 0 || (pattern != 0 && row > static_cast<cuuint64_t>(pattern))) return CUDA_ERROR_INVALID_VALUE;
  TensorMap result{};
  result.mark = kTensorMapMark;
  result.base = static_cast<uint8_t*>(base);
  result.rank = static_cast<uint8_t>(rank);
  result.element_bytes = static_cast<uint8_t>(element);
  result.swizzle = static_cast<uint8_t>(pattern);
  result.packed = packed;
  for (cuuint32_t d = 0; d < rank; ++d) {
    if (box[d] < 1 || box[d] > 256 || steps[d] != 1 || sizes[d] < 1 || sizes[d] > cuuint64_t{1} << 32)
      return CUDA_ERROR_INVALID_VALUE;
    result.box[d] = box[d];
    result.sizes[d] = static_cast<uint32_t>(sizes[d]);
    if (d == 0) continue;
    if (strides[d - 1] % 16 != 0 || strides[d - 1] >= cuuint64_t{1} << 40) return CUDA_ERROR_INVALID_VALUE;
    result.strides[d - 1] = strides[d - 1];
  }
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &result, sizeof(result));
  return CUDA_SUCCESS;
}
