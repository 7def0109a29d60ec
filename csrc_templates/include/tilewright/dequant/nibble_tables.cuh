// 4-bit codes to 16-bit elements by byte permutes: no memory, four codes at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "tilewright/gemm_4bit/args.h"
#include "tilewright/ptx/bits.cuh"

namespace tilewright::dequant {

// Sixteen 16-bit elements as four 8-entry byte tables, two registers each: entries 0..7 or 8..15, low or high bytes.
struct NibbleTables {
  uint32_t low_bytes[4];   // [0..1] entries 0..7, [2..3] entries 8..15
  uint32_t high_bytes[4];  // the same entries
};

// Four bytes of `values[first .. first + 3]`, `shift` 0 for the low and 8 for the high byte.
__device__ __forceinline__ constexpr uint32_t table_word(const uint16_t (&values)[16], int first, int shift) {
  return (uint32_t{values[first]} >> shift & 0xffu) | (uint32_t{values[first + 1]} >> shift & 0xffu) << 8 |
         (uint32_t{values[first + 2]} >> shift & 0xffu) << 16 | (uint32_t{values[first + 3]} >> shift & 0xffu) << 24;
}

__device__ __forceinline__ constexpr NibbleTables make_tables(const uint16_t (&values)[16]) {
  return {{table_word(values, 0, 0), table_word(values, 4, 0), table_word(values, 8, 0), table_word(values, 12, 0)},
          {table_word(values, 0, 8), table_word(values, 4, 8), table_word(values, 8, 8), table_word(values, 12, 8)}};
}

// The codebooks of codebooks.cuh rounded to nearest even.
template <class Element>
__device__ __forceinline__ NibbleTables nibble_tables(QuantType quant_type) {
  constexpr uint16_t kNf4Bf16[16] = {0xbf80, 0xbf32, 0xbf06, 0xbeca, 0xbe92, 0xbe3d, 0xbdba, 0x0000,
                                     0x3da3, 0x3e25, 0x3e7c, 0x3ead, 0x3ee2, 0x3f10, 0x3f39, 0x3f80};
  constexpr uint16_t kFp4Bf16[16] = {0x0000, 0x3bab, 0x3f2b, 0x3f80, 0x3eab, 0x3f00, 0x3e2b, 0x3e80,
                                     0x8000, 0xbbab, 0xbf2b, 0xbf80, 0xbeab, 0xbf00, 0xbe2b, 0xbe80};
  constexpr uint16_t kE2m1Bf16[16] = {0x0000, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0,
                                      0x8000, 0xbf00, 0xbf80, 0xbfc0, 0xc000, 0xc040, 0xc080, 0xc0c0};
  constexpr uint16_t kNf4Half[16] = {0xbc00, 0xb992, 0xb833, 0xb652, 0xb48d, 0xb1ea, 0xadd4, 0x0000,
                                     0x2d18, 0x3126, 0x33e0, 0x3568, 0x370d, 0x3880, 0x39c9, 0x3c00};
  constexpr uint16_t kFp4Half[16] = {0x0000, 0x1d55, 0x3955, 0x3c00, 0x3555, 0x3800, 0x3155, 0x3400,
                                     0x8000, 0x9d55, 0xb955, 0xbc00, 0xb555, 0xb800, 0xb155, 0xb400};
  constexpr uint16_t kE2m1Half[16] = {0x0000, 0x3800, 0x3c00, 0x3e00, 0x4000, 0x4200, 0x4400, 0x4600,
                                      0x8000, 0xb800, 0xbc00, 0xbe00, 0xc000, 0xc200, 0xc400, 0xc600};
  constexpr bool kBf16 = std::is_same_v<Element, __nv_bfloat16>;
  constexpr NibbleTables kNf4 = make_tables(kBf16 ? kNf4Bf16 : kNf4Half);
  constexpr NibbleTables kFp4 = make_tables(kBf16 ? kFp4Bf16 : kFp4Half);
  constexpr NibbleTables kE2m1 = make_tables(kBf16 ? kE2m1Bf16 : kE2m1Half);
  return quant_type == QuantType::kNf4 ? kNf4 : quant_type == QuantType::kFp4 ? kFp4 : kE2m1;
}

// The four elements of the four nibbles in the low half of `codes`: nibbles 1, 0 into `first` and 3, 2 into `second`
// when the high nibble of a byte is the even element, else 0, 1 and 2, 3. The upper half of `codes` is not looked at.
template <bool kHighNibbleFirst>
__device__ __forceinline__ void expand_four(const NibbleTables& tables, uint32_t codes, uint32_t& first,
                                            uint32_t& second) {
  const uint32_t index = codes & 0x7777u;
  // A permute with selector bit 3 set repeats the sign of a byte: here bit 3 of each nibble becomes a byte of ones.
  const uint32_t upper = ptx::prmt(codes, codes << 4, 0x9d8cu);
  const uint32_t low = (ptx::prmt(tables.low_bytes[2], tables.low_bytes[3], index) & upper) |
                       (ptx::prmt(tables.low_bytes[0], tables.low_bytes[1], index) & ~upper);
  const uint32_t high = (ptx::prmt(tables.high_bytes[2], tables.high_bytes[3], index) & upper) |
                        (ptx::prmt(tables.high_bytes[0], tables.high_bytes[1], index) & ~upper);
  first = ptx::prmt(low, high, kHighNibbleFirst ? 0x4051u : 0x5140u);
  second = ptx::prmt(low, high, kHighNibbleFirst ? 0x6273u : 0x7362u);
}

}  // namespace tilewright::dequant
