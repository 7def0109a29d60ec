// Bulk tensor copies, shared to global, and three-dimensional loads, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline void fence_async_shared(Place place = Place::here()) { emulator::fence_proxy_async(place); }
inline void tma_store_2d(const void* map, uint32_t source, int x, int y, Place place = Place::here()) {
  emulator::tensor_store(map, source, {{x, y}}, 2, place);
}
inline void tma_store_2d_once(const void* map, uint32_t source, int x, int y, Place place = Place::here()) {
  tma_store_2d(map, source, x, y, place);
}
inline void bulk_commit() { emulator::bulk_commit(); }
template <int kPending>
inline void bulk_wait_read() {
  emulator::bulk_wait(kPending, true);
}
inline void tma_load_3d(uint32_t destination, const void* map, uint32_t barrier, int x, int y, int z,
                        Place place = Place::here()) {
  emulator::tensor_load(destination, map, barrier, {{x, y, z}}, 3, 0, false, place);
}
inline void tma_load_3d_multicast(uint32_t destination, const void* map, uint32_t barrier, int x, int y, int z,
                                  uint16_t block_mask, Place place = Place::here()) {
  emulator::tensor_load(destination, map, barrier, {{x, y, z}}, 3, block_mask, false, place);
}
inline void tma_prefetch_3d(const void* map, int x, int y, int z, Place place = Place::here()) {
  emulator::tensor_prefetch(map, {{x, y, z}}, 3, place);
}
inline void stmatrix_x4(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3,
                        Place place = Place::here()) {
  const uint32_t values[4] = {r0, r1, r2, r3};
  emulator::matrix_store(address, values, 4, false, place);
}
inline void sts_float2(uint32_t address, float x, float y, Place place = Place::here()) {
  const float2 value{x, y};
  emulator::shared_store(address, &value, 8, 8, place);
}

}  // namespace tilewright::ptx
