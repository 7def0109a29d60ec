// Asynchronous global-to-shared copies of a thread, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline uint32_t shared_address(const void* pointer, Place place = Place::here()) {
  return emulator::shared_address(pointer, place);
}

inline void cp_async_16(uint32_t destination, const void* source, int valid_bytes, Place place = Place::here()) {
  emulator::copy_async(destination, source, 16, static_cast<uint32_t>(valid_bytes), place);
}

inline void cp_async_4(uint32_t destination, const void* source, int valid_bytes, Place place = Place::here()) {
  emulator::copy_async(destination, source, 4, static_cast<uint32_t>(valid_bytes), place);
}

inline void cp_async_commit() { emulator::copy_commit(); }

template <int kPending>
inline void cp_async_wait() {
  emulator::copy_wait(kPending);
}

}  // namespace tilewright::ptx
