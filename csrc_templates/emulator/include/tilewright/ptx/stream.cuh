// Copies of a stream, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline void cp_async_stream_16(uint32_t destination, const void* source, int valid_bytes, Place place = Place::here()) {
  emulator::copy_async(destination, source, 16, static_cast<uint32_t>(valid_bytes), place);
}

}  // namespace tilewright::ptx
