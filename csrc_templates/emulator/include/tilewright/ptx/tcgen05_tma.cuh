// Bulk tensor copies for pairs of CTAs, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/ptx/tcgen05.cuh"

namespace tilewright::ptx {

inline void tma_load_2d_pair(uint32_t destination, const void* map, uint32_t barrier, int x, int y,
                             Place place = Place::here()) {
  emulator::tensor_load(destination, map, barrier, {{x, y}}, 2, 0, true, place);
}
template <MaskBits kBits>
inline void tma_load_2d_pair_multicast(uint32_t destination, const void* map, uint32_t barrier, int x, int y,
                                       uint32_t mask, Place place = Place::here()) {
  emulator::tensor_load(destination, map, barrier, {{x, y}}, 2, mask, true, place);
}
inline void tma_load_3d_pair(uint32_t destination, const void* map, uint32_t barrier, int x, int y, int z,
                             Place place = Place::here()) {
  emulator::tensor_load(destination, map, barrier, {{x, y, z}}, 3, 0, true, place);
}
template <MaskBits kBits>
inline void tma_load_3d_pair_multicast(uint32_t destination, const void* map, uint32_t barrier, int x, int y, int z,
                                       uint32_t mask, Place place = Place::here()) {
  emulator::tensor_load(destination, map, barrier, {{x, y, z}}, 3, mask, true, place);
}

}  // namespace tilewright::ptx
