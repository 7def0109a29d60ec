// Warp multiplication with 8-bit floating-point operands, emulated.
#pragma once

#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::ptx {

#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
constexpr bool kNativeFp8Mma = true;
#else
constexpr bool kNativeFp8Mma = false;
#endif

template <Fp8Type kType>
inline uint2 unpack_fp8x4(uint32_t word) {
  constexpr auto kKind = kType == Fp8Type::kE4m3 ? __NV_E4M3 : __NV_E5M2;
  const __half2_raw low = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(word), kKind);
  const __half2_raw high = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(word >> 16), kKind);
  return {low.x | static_cast<uint32_t>(low.y) << 16, high.x | static_cast<uint32_t>(high.y) << 16};
}

template <Fp8Type kA, Fp8Type kB>
inline void mma_m16n8k32(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                         Place place = Place::here()) {
  constexpr auto format = [](Fp8Type type) {
    return type == Fp8Type::kE4m3 ? emulator::Format::kE4m3 : emulator::Format::kE5m2;
  };
  emulator::warp_mma(acc, a, b0, b1, format(kA), format(kB), place);
}

}  // namespace tilewright::ptx
