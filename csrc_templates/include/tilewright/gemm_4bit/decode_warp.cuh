// The arithmetic of one decode warp: 16 rows of packed weights times up to kMb rows of A, over its part of k.
//
// The weight is the 16-row operand of mma.m16n8k16, A the 8-column one. Both sides agree on an order of k in which the
// codes that a lane needs lie side by side: of each 64 in k, lane t of a quad owns 16 t .. 16 t + 15 (blocksize 32: 8 t ..
// 8 t + 7 of each 32), and the j-th mma takes four of them from every lane. Of prepacked weights it owns 2 t and 2 t + 1 of
// each eight, and an mma takes 16 in k as they come.
#pragma once

#include <cstdint>

#include "tilewright/dequant/nibble_tables.cuh"
#include "tilewright/epilogue/element.cuh"
#include "tilewright/gemm_4bit/decode_activations.cuh"
#include "tilewright/gemm_4bit/decode_plan.h"
#include "tilewright/ptx/bits.cuh"
#include "tilewright/ptx/convert.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mma.cuh"

namespace tilewright::kernels {

constexpr int kDecodeStepBytes = 32;  // of packed codes in 64 of k

// Codes to pairs of elements, by table or by permutes.
template <class Shape, bool kHighNibbleFirst>
struct DecodeExpander {
  dequant::NibbleTables tables;
  uint32_t lut;       // the table of all bytes, one copy per bank: entry `byte` of lane l is 128 (wide: 256) byte + 4 l further
  uint32_t lut_lane;  // 4 l

  // `from_lut` is a constant once the caller's loops are unrolled.
  __device__ __forceinline__ void expand(bool from_lut, uint32_t word, uint32_t (&pairs)[4]) const {
    if (from_lut && Shape::kWideLut) {
      pairs[0] = wide_entry<0>(word);
      pairs[1] = wide_entry<1>(word);
      pairs[2] = wide_entry<2>(word);
      pairs[3] = wide_entry<3>(word);
    } else if (from_lut) {
      pairs[0] = entry(word << 7);
      pairs[1] = entry(word >> 1);
      pairs[2] = entry(word >> 9);
      pairs[3] = entry(word >> 17);
    } else {
      dequant::expand_four<kHighNibbleFirst>(tables, word, pairs[0], pairs[1]);
      dequant::expand_four<kHighNibbleFirst>(tables, word >> 16, pairs[2], pairs[3]);
    }
  }

  template <int kByte>
  __device__ __forceinline__ uint32_t wide_entry(uint32_t word) const {
    return ptx::lds_constant_32(lut + ptx::prmt(word, lut_lane, 0x5504u | kByte << 4));
  }

  // The byte is in bits 7 to 14. One three-input operation makes the offset; the base is added by the load.
  __device__ __forceinline__ uint32_t entry(uint32_t shifted) const {
    return ptx::lds_constant_32(lut + ptx::merge_masked<0x7f80u>(shifted, lut_lane));
  }
};

__device__ __forceinline__ float low_half(uint32_t halves) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(halves & 0xffffu)));
}

__device__ __forceinline__ float high_half(uint32_t halves) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(halves >> 16)));
}

// Each of the two e4m3 bytes in the lower half of `bytes` as two equal elements; exact in either type.
template <class Element>
__device__ __forceinline__ void e4m3_pairs(uint32_t bytes, uint32_t (&pairs)[2]) {
  const uint32_t halves = ptx::e4m3x2_to_half2(bytes);
  if constexpr (ElementTraits<Element>::kDType == DType::kF16) {
    pairs[0] = ptx::prmt(halves, 0u, 0x1010u);
    pairs[1] = ptx::prmt(halves, 0u, 0x3232u);
  } else {
    const __nv_bfloat162 low = __float2bfloat162_rn(low_half(halves)), high = __float2bfloat162_rn(high_half(halves));
    pairs[0] = *reinterpret_cast<const uint32_t*>(&low);
    pairs[1] = *reinterpret_cast<const uint32_t*>(&high);
  }
}

__device__ __forceinline__ uint32_t multiply_pairs(__half, uint32_t x, uint32_t y) {
  const __half2 product = __hmul2(*reinterpret_cast<const __half2*>(&x), *reinterpret_cast<const __half2*>(&y));
  return *reinterpret_cast<const uint32_t*>(&product);
}

__device__ __forceinline__ uint32_t multiply_pairs(__nv_bfloat16, uint32_t x, uint32_t y) {
  const __nv_bfloat162 product =
      __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&x), *reinterpret_cast<const __nv_bfloat162*>(&y));
  return *reinterpret_cast<const uint32_t*>(&product);
}

// The scales of a lane's two rows for every block of its part: fp32 values, or e4m3 pairs (prepacked: four e4m3 bytes, those
// of an mma each). Zero past the part, so that
// whatever lies in shared memory there counts for nothing.
template <class Shape, DecodeKind kKind>
struct DecodeScales {
  static constexpr int kParts = kKind == DecodeKind::kBlock32 ? 2 : 1;
  float values[2][Shape::kKb][kParts];

  // `rows`: shared addresses of the first scale of the block's part of k; `row`: weight row of rows[0].
  __device__ __forceinline__ void load(const DecodeParams& params, const uint32_t (&rows)[2], int row, int rank_block,
                                       int first_block, int count, uint32_t nested_code, int lane) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int b = 0; b < Shape::kKb; ++b) {
#pragma unroll
        for (int h = 0; h < kParts; ++h) {
          const bool inside = b < count;
          const int block = first_block + (inside ? b : 0);
          if constexpr (kKind == DecodeKind::kE2m1 && Shape::kPrepacked) {
            // A row's scales start where they do in memory modulo 16, which is a multiple of 4.
            values[r][b][h] = __uint_as_float(inside ? ptx::lds_32(rows[r] + (block - rank_block) * 4) : 0u);
          } else if constexpr (kKind == DecodeKind::kE2m1) {
            if (r == 1) continue;  // both rows at once
            const uint32_t at = (block - rank_block) * 4 + (lane & 3);
            uint32_t pairs[2];
            e4m3_pairs<typename Shape::Element>(ptx::lds_8(rows[0] + at) | ptx::lds_8(rows[1] + at) << 8, pairs);
            values[0][b][h] = __uint_as_float(inside ? pairs[0] : 0u);
            values[1][b][h] = __uint_as_float(inside ? pairs[1] : 0u);
          } else {
            const int first = kKind == DecodeKind::kBlock32 ? rank_block * 2 : rank_block >> params.block_shift;
            const int index = (kKind == DecodeKind::kBlock32 ? block * 2 + h : block >> params.block_shift) - first;
            float value;
            if (kKind == DecodeKind::kBlock64 || (kKind == DecodeKind::kBlock32 && params.nested_absmax == nullptr)) {
              value = ptx::lds_float(rows[r] + index * 4);
            } else {
              const int last = params.n - 1;
              const int64_t flat = static_cast<int64_t>(min(row + 8 * r, last)) * params.scales_per_row + first + index;
              const float outer = __ldg(params.nested_absmax + (flat >> 8));
              const float code = ptx::lds_float(nested_code + ptx::lds_8(rows[r] + index) * 4);
              value = __fadd_rn(__fmul_rn(code, outer), __ldg(params.offset));
            }
            values[r][b][h] = inside ? value : 0.0f;
          }
        }
      }
    }
  }
};

// acc[c] (16 x 8 per column tile, in mma order) = the weight's 16 rows times A over the warp's blocks.
// `rows`: shared addresses of this lane's codes in its two rows, at the warp's first block; prepacked, rows[0] has both.
// Past the warp's `count` blocks whatever is read counts for nothing: prepacked, the first block, since what follows the
// last may lie outside shared memory; otherwise what follows, which is short.
template <class Shape, DecodeKind kKind>
__device__ __forceinline__ void decode_tile(float (&acc)[Shape::kColumnTiles][4], const uint32_t (&rows)[2], int count,
                                            const DecodeActivations<Shape, kKind>& activations,
                                            const DecodeScales<Shape, kKind>& scales,
                                            const DecodeExpander<Shape, kKind != DecodeKind::kE2m1>& expander) {
  using Element = typename Shape::Element;
  constexpr int kColumns = Shape::kColumnTiles;
  // A prepacked e2m1 block is what one mma takes.
  constexpr bool kScaleEachMma = Shape::kPrepacked && kKind == DecodeKind::kE2m1;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) acc[c][0] = acc[c][1] = acc[c][2] = acc[c][3] = 0.0f;
#pragma unroll
  for (int b = 0; b < Shape::kKb; ++b) {
    uint32_t words[2][2];
    if constexpr (Shape::kPrepacked) {
      const uint4 both = ptx::lds_128(rows[0] + (b < count ? b * kPrepackedBlockBytes : 0));
      words[0][0] = both.x;
      words[0][1] = both.y;
      words[1][0] = both.z;
      words[1][1] = both.w;
    }
#pragma unroll
    for (int r = 0; r < (Shape::kPrepacked ? 0 : 2); ++r) {
      if constexpr (kKind == DecodeKind::kBlock32) {
        words[r][0] = ptx::lds_32(rows[r] + b * kDecodeStepBytes);
        words[r][1] = ptx::lds_32(rows[r] + b * kDecodeStepBytes + 16);
      } else {
        const uint2 pair = ptx::lds_64(rows[r] + b * kDecodeStepBytes);
        words[r][0] = pair.x;
        words[r][1] = pair.y;
      }
    }
    float sum[kColumns][4];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      uint32_t upper[4], lower[4];
      expander.expand(h < Shape::kLut, words[0][h], upper);
      expander.expand(h + 2 < Shape::kLut, words[1][h], lower);
      if constexpr (kKind == DecodeKind::kE2m1 && !Shape::kPrepacked) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          upper[i] = multiply_pairs(Element{}, upper[i], __float_as_uint(scales.values[0][b][0]));
          lower[i] = multiply_pairs(Element{}, lower[i], __float_as_uint(scales.values[1][b][0]));
        }
      }
      if (h == 0 || kKind == DecodeKind::kBlock32) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) sum[c][0] = sum[c][1] = sum[c][2] = sum[c][3] = 0.0f;
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if constexpr (kScaleEachMma) {
#pragma unroll
          for (int c = 0; c < kColumns; ++c) sum[c][0] = sum[c][1] = sum[c][2] = sum[c][3] = 0.0f;
        }
        const uint32_t weights[4] = {upper[2 * j], lower[2 * j], upper[2 * j + 1], lower[2 * j + 1]};
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          ptx::mma_m16n8k16<Element>(sum[c], weights, activations.pairs[b][c][4 * h + 2 * j],
                                     activations.pairs[b][c][4 * h + 2 * j + 1]);
        }
        if constexpr (kScaleEachMma) {
          const int byte = 2 * h + j;
          const uint32_t halves = ptx::e4m3x2_to_half2(ptx::prmt(__float_as_uint(scales.values[0][b][0]),
                                                                 __float_as_uint(scales.values[1][b][0]), byte | (4 + byte) << 4));
          const float scale[2] = {low_half(halves), high_half(halves)};
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
#pragma unroll
            for (int i = 0; i < 4; ++i) acc[c][i] = fmaf(sum[c][i], scale[i / 2], acc[c][i]);
          }
        }
      }
      if (!kScaleEachMma && (h == 1 || kKind == DecodeKind::kBlock32)) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if constexpr (kKind == DecodeKind::kE2m1) {
              acc[c][i] += sum[c][i];
            } else {
              constexpr int kLast = DecodeScales<Shape, kKind>::kParts - 1;
              acc[c][i] = fmaf(sum[c][i], scales.values[i / 2][b][h < kLast ? h : kLast], acc[c][i]);
            }
          }
        }
      }
    }
  }
}

}  // namespace tilewright::kernels
