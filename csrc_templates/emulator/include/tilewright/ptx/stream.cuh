// Streamed global loads and prefetches, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline uint4 ldg_stream_16(const void* source, Place place = Place::here()) {
  return __ldg(static_cast<const uint4*>(source), place);
}
inline void cp_async_stream_16(uint32_t destination, const void* source, int valid_bytes, Place place = Place::here()) {
  emulator::copy_async(destination, source, 16, static_cast<uint32_t>(valid_bytes), place);
}
inline void bulk_prefetch_l2(const void* source, uint32_t bytes, Place place = Place::here()) {
  emulator::global_prefetch(source, bytes, place);
}

}  // namespace tilewright::ptx
