// Read-only global loads, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline uint32_t ldg_near_word(const uint32_t* source, Place place = Place::here()) { return __ldg(source, place); }
inline uint32_t ldg_near_byte(const uint8_t* source, Place place = Place::here()) { return __ldg(source, place); }
inline uint32_t ldg_near_half(const uint8_t* source, Place place = Place::here()) {
  return __ldg(reinterpret_cast<const uint16_t*>(source), place);
}
inline uint64_t ldg_near_64(const uint32_t* source, Place place = Place::here()) {
  return __ldg(reinterpret_cast<const uint64_t*>(source), place);
}

}  // namespace tilewright::ptx
