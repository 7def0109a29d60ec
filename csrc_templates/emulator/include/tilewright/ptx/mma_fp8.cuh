// Warp multiplication with 8-bit floating-point operands, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::ptx {

template <Fp8Type kA, Fp8Type kB>
inline void mma_m16n8k32(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Place place = Place::here()) {
  constexpr auto format = [](Fp8Type type) { return type == Fp8Type::kE4m3 ? emulator::Format::kE4m3 : emulator::Format::kE5m2; };
  emulator::warp_mma(acc, a, b0, b1, format(kA), format(kB), place);
}

}  // namespace tilewright::ptx
