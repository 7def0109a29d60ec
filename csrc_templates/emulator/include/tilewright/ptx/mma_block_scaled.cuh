// Warp multiplication with 4-bit operands under block scales, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline void mma_m16n8k64_nvfp4(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, uint32_t scale_a,
                               uint32_t scale_b, Place place = Place::here()) {
  emulator::warp_mma_scaled(acc, a, b0, b1, emulator::Format::kE2m1, scale_a, 0, 0, scale_b, 0, 0, place);
}

}  // namespace tilewright::ptx
