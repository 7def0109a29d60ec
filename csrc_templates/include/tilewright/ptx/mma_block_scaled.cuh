// Warp matrix multiply-accumulate with 4-bit operands under block scales (sm_120a, sm_121a and their family).
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// acc[16 x 8] += (a[16 x 64] * scale_a[16 x 4]) * (b[64 x 8] * scale_b[4 x 8]): e2m1 elements, low nibble first, one
// e4m3 scale for 16 in k. With g = lane / 4 and t = lane % 4, each register holding eight neighbours in k:
//   a[0] row g, k 8t   a[1] row g + 8, k 8t   a[2] row g, k 8t + 32   a[3] row g + 8, k 8t + 32
//   b0 k 8t, column g   b1 k 8t + 32, column g
//   scale_a the four scales of row g in lanes with t = 0, of row g + 8 in those with t = 1; scale_b those of column g
//   in lanes with t = 0; the others are not looked at
//   acc[0..1] row g, columns 2t, 2t + 1   acc[2..3] row g + 8
__device__ __forceinline__ void mma_m16n8k64_nvfp4(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                                   uint32_t scale_a, uint32_t scale_b) {
  asm("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {%12,%12}, {%11}, {%12,%12};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b),
        "h"(static_cast<uint16_t>(0)));
}

}  // namespace tilewright::ptx
