// Warp multiplication with 16-bit operands, emulated.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

template <class Element>
inline void mma_m16n8k16(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                         Place place = Place::here()) {
  constexpr auto kFormat = std::is_same_v<Element, __half> ? emulator::Format::kF16 : emulator::Format::kBf16;
  emulator::warp_mma(acc, a, b0, b1, kFormat, kFormat, place);
}

}  // namespace tilewright::ptx
