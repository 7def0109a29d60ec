// Bounds-checked stores of results.
#pragma once

#include <cstdint>

#include "tilewright/epilogue/element.cuh"

namespace tilewright::epilogue {

// The bias of `column` in fp32; 0 past the end and where there is none.
template <class Element>
__device__ __forceinline__ float bias_at(const void* bias, int64_t column, int64_t n) {
  if (bias == nullptr || column >= n) return 0.0f;
  return ElementTraits<Element>::to_float(static_cast<const Element*>(bias)[column]);
}

// An odd n puts every other row of a contiguous [m, n] output at an odd element, where a 4-byte store is illegal.
__device__ __forceinline__ bool rows_take_pairs(const void* out, int64_t n) {
  return n % 2 == 0 && (reinterpret_cast<uintptr_t>(out) & 3) == 0;
}

// Writes two 16-bit elements, `column` (even) in the lower half-word and `column + 1`, as far as they lie within n.
__device__ __forceinline__ void store_pair(void* out, int64_t row, int64_t column, int64_t n, bool paired,
                                           uint32_t pair) {
  uint16_t* target = static_cast<uint16_t*>(out) + row * n + column;
  if (paired && column < n) {
    *reinterpret_cast<uint32_t*>(target) = pair;
    return;
  }
  if (column < n) target[0] = static_cast<uint16_t>(pair);
  if (column + 1 < n) target[1] = static_cast<uint16_t>(pair >> 16);
}

}  // namespace tilewright::epilogue
