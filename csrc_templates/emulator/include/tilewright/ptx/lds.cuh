// Shared-memory loads and stores through 32-bit addresses, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

template <class T>
inline T emulated_load(uint32_t address, Place place) {
  T value;
  emulator::shared_load(address, &value, sizeof(T), sizeof(T), place);
  return value;
}

inline float lds_float(uint32_t address, Place place = Place::here()) { return emulated_load<float>(address, place); }
inline float lds_constant_float(uint32_t address, Place place = Place::here()) {
  return emulated_load<float>(address, place);
}
inline uint32_t lds_8(uint32_t address, Place place = Place::here()) { return emulated_load<uint8_t>(address, place); }
inline uint32_t lds_32(uint32_t address, Place place = Place::here()) {
  return emulated_load<uint32_t>(address, place);
}
inline uint32_t lds_constant_32(uint32_t address, Place place = Place::here()) {
  return emulated_load<uint32_t>(address, place);
}
inline uint32_t lds_constant_word(uint32_t address, Place place = Place::here()) {
  return emulated_load<uint32_t>(address, place);
}
inline uint2 lds_64(uint32_t address, Place place = Place::here()) { return emulated_load<uint2>(address, place); }
inline uint4 lds_128(uint32_t address, Place place = Place::here()) { return emulated_load<uint4>(address, place); }
inline float2 lds_float2(uint32_t address, Place place = Place::here()) {
  return emulated_load<float2>(address, place);
}

inline void sts_float(uint32_t address, float value, Place place = Place::here()) {
  emulator::shared_store(address, &value, 4, 4, place);
}
inline void sts_float2(uint32_t address, float2 value, Place place = Place::here()) {
  emulator::shared_store(address, &value, 8, 8, place);
}

}  // namespace tilewright::ptx
