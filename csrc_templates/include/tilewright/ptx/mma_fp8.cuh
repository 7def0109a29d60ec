// Warp matrix multiply-accumulate with 8-bit floating-point operands and fp32 accumulators (sm_89 and later).
//
// sm_89 and sm_120 multiply 8-bit operands; on sm_90 and sm_100 the assembler unpacks them to f16, which is exact, and
// multiplies those, so sums there have the precision of f16 products in fp32.
#pragma once

#include <cstdint>

#include "tilewright/gemm_fp8/args.h"

namespace tilewright::ptx {

// Whether the tensor cores of the architecture multiply 8-bit operands in warp-level instructions.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
constexpr bool kNativeFp8Mma = true;
#else
constexpr bool kNativeFp8Mma = false;
#endif

// Four fp8 values as f16, exactly: the first two in .x, the lower in the lower half-word.
template <Fp8Type kType>
__device__ __forceinline__ uint2 unpack_fp8x4(uint32_t word);

template <>
__device__ __forceinline__ uint2 unpack_fp8x4<Fp8Type::kE4m3>(uint32_t word) {
  uint2 pairs;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "cvt.rn.f16x2.e4m3x2 %1, high;\n"
      "}"
      : "=r"(pairs.x), "=r"(pairs.y)
      : "r"(word));
  return pairs;
}

template <>
__device__ __forceinline__ uint2 unpack_fp8x4<Fp8Type::kE5m2>(uint32_t word) {
  uint2 pairs;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e5m2x2 %0, low;\n"
      "cvt.rn.f16x2.e5m2x2 %1, high;\n"
      "}"
      : "=r"(pairs.x), "=r"(pairs.y)
      : "r"(word));
  return pairs;
}

// acc[16 x 8] += a[16 x 32] * b[32 x 8]. With g = lane / 4 and t = lane % 4, each register holding four neighbours in
//   k:
//   a[0] row g, k 4t   a[1] row g + 8, k 4t   a[2] row g, k 4t + 16   a[3] row g + 8, k 4t + 16
//   b0 k 4t, column g   b1 k 4t + 16, column g
//   acc[0..1] row g, columns 2t, 2t + 1   acc[2..3] row g + 8
template <Fp8Type kA, Fp8Type kB>
__device__ __forceinline__ void mma_m16n8k32(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void mma_m16n8k32<Fp8Type::kE4m3, Fp8Type::kE4m3>(float (&acc)[4], const uint32_t (&a)[4],
                                                                             uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_m16n8k32<Fp8Type::kE5m2, Fp8Type::kE4m3>(float (&acc)[4], const uint32_t (&a)[4],
                                                                             uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_m16n8k32<Fp8Type::kE4m3, Fp8Type::kE5m2>(float (&acc)[4], const uint32_t (&a)[4],
                                                                             uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace tilewright::ptx
