// Loads of 8 x 8 matrices of 16-bit elements, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline void ldmatrix_x4(uint32_t (&values)[4], uint32_t address, Place place = Place::here()) {
  emulator::matrix_load(values, 4, address, false, place);
}

}  // namespace tilewright::ptx
