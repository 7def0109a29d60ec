// Bulk tensor copies, global to shared, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline void tma_prefetch_map(const void* map, Place place = Place::here()) { emulator::map_prefetch(map, place); }
inline void tma_load_2d(uint32_t destination, const void* map, uint32_t barrier, int x, int y,
                        Place place = Place::here()) {
  emulator::tensor_load(destination, map, barrier, {{x, y}}, 2, 0, false, place);
}
inline void tma_load_2d_multicast(uint32_t destination, const void* map, uint32_t barrier, int x, int y,
                                  uint16_t block_mask, Place place = Place::here()) {
  emulator::tensor_load(destination, map, barrier, {{x, y}}, 2, block_mask, false, place);
}
inline void tma_prefetch_2d(const void* map, int x, int y, Place place = Place::here()) {
  emulator::tensor_prefetch(map, {{x, y}}, 2, place);
}
inline void bulk_load(uint32_t destination, const void* source, uint32_t bytes, uint32_t barrier,
                      Place place = Place::here()) {
  emulator::bulk_load(destination, source, bytes, barrier, place);
}

}  // namespace tilewright::ptx
