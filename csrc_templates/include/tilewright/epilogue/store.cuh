// Bounds-checked stores of fp32 accumulators with a bias.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"

namespace tilewright::epilogue {

template <class Element>
__device__ __forceinline__ float bias_at(const void* bias, int64_t column) {
  return bias == nullptr ? 0.0f : ElementTraits<Element>::to_float(static_cast<const Element*>(bias)[column]);
}

// Writes columns `column` (even) and `column + 1` of one row of a contiguous [m, n] output. An odd n puts every other row
// at an odd element, where a 4-byte store is illegal: `paired` says that all rows start on 4 bytes.
template <class Element>
__device__ __forceinline__ void store_pair(void* out, int64_t row, int64_t column, int64_t n, bool paired, float2 value) {
  Element* target = static_cast<Element*>(out) + row * n + column;
  if (paired && column + 1 < n) {
    *reinterpret_cast<uint32_t*>(target) = ElementTraits<Element>::pack(value.x, value.y);
    return;
  }
  if (column < n) target[0] = ElementTraits<Element>::from_float(value.x);
  if (column + 1 < n) target[1] = ElementTraits<Element>::from_float(value.y);
}

}  // namespace tilewright::epilogue
