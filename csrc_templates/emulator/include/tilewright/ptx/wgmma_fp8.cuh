// Warpgroup multiplication of fp8 operands in shared memory, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

template <bool kXE5m2, bool kYE5m2, int kN>
struct WgmmaFp8 {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256, "an N of wgmma");
  static void run(float (&acc)[kN / 2], uint64_t x, uint64_t y, int keep, Place place = Place::here()) {
    constexpr auto kX = kXE5m2 ? emulator::Format::kE5m2 : emulator::Format::kE4m3;
    constexpr auto kY = kYE5m2 ? emulator::Format::kE5m2 : emulator::Format::kE4m3;
    emulator::wgmma_shared(acc, kN, x, y, kX, kY, keep != 0, place);
  }
};

}  // namespace tilewright::ptx
