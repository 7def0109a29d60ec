// Transposition of an 8 x 8 matrix over a warp, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline uint32_t transpose_8x8(uint32_t pair, Place place = Place::here()) {
  return emulator::matrix_transpose(pair, place);
}

}  // namespace tilewright::ptx
