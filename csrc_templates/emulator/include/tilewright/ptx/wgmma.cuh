// Warpgroup multiplication with the A operand in registers, emulated.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline void wgmma_fence(Place place = Place::here()) { emulator::wgmma_fence(place); }
inline void wgmma_commit(Place place = Place::here()) { emulator::wgmma_commit(place); }
template <int kPending>
inline void wgmma_wait(Place place = Place::here()) {
  emulator::wgmma_wait(kPending, place);
}
template <class T, int kCount>
inline void wgmma_pin(T (&)[kCount]) {}

inline uint64_t wgmma_descriptor_k_major_128b(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kStrideOffset = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kLeadingOffset = uint64_t{1} << 16;
  return kSwizzle128 | kStrideOffset | kLeadingOffset | ((address & 0x3ffffu) >> 4);
}

template <class Element, int kN>
struct Wgmma {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256, "an N of wgmma");
  static void run(float (&acc)[kN / 2], const uint32_t* a, uint64_t b, Place place = Place::here()) {
    constexpr auto kFormat = std::is_same_v<Element, __half> ? emulator::Format::kF16 : emulator::Format::kBf16;
    emulator::wgmma_registers(acc, kN, a, b, kFormat, place);
  }
};

}  // namespace tilewright::ptx
