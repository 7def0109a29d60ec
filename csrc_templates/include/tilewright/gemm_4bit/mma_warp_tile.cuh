// One warp's part of an mma_m16n8k16 block tile: fragments, dequantisation in registers, multiply-accumulate, store.
#pragma once

#include <cstdint>

#include "tilewright/dequant/words.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/mma_stages.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mma.cuh"
#include "tilewright/ptx/movmatrix.cuh"

namespace tilewright::kernels {

// The multiplication is out^T = weight * a^T: sixteen columns of the weight are the 16-row operand, whose four
// registers the dequantisation writes in whatever order they are needed, and eight rows of A are the 8-column operand,
// whose two registers then come as neighbours out of one 16-byte load.
//
// A product does not depend on the order of k as long as both operands agree on it. Within each 64 elements of k,
// thread t of a quad owns k 16t .. 16t + 15: eight bytes of codes, in one load and under one scale, and two 16-byte
// loads of each row of A. Multiplication step s then takes k 16t + 4s .. 16t + 4s + 3 of every t as its sixteen.
template <class Config>
class WarpTile {
 public:
  using Element = typename Config::Element;
  using Smem = MmaM16n8k16Smem<Config>;
  static constexpr int kWarpM = Config::kMt / Config::kWarpsM;
  static constexpr int kWarpN = Config::kNt / Config::kWarpsN;
  static constexpr int kTilesM = kWarpM / 8;
  static constexpr int kTilesN = kWarpN / 16;
  static constexpr int kGroups = Config::kKc / 64;
  static_assert(kGroups % Smem::kWarpsK == 0, "kc is a multiple of 64 * warps_k");
  static_assert(kWarpM % 8 == 0 && kWarpM * Config::kWarpsM == Config::kMt, "mt is a multiple of 8 * warps_m");
  static_assert(kWarpN % 16 == 0 && kWarpN * Config::kWarpsN == Config::kNt, "nt is a multiple of 16 * warps_n");

  __device__ __forceinline__ WarpTile(QuantType quant_type, int granule_shift, const unsigned char* smem)
      : smem_(ptx::shared_address(smem)), rotation_(dequant::even_rotation(quant_type)), granule_shift_(granule_shift) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    quad_row_ = lane / 4;
    quad_lane_ = lane % 4;
    warp_m_ = warp % Config::kWarpsM * kWarpM;
    warp_n_ = warp / Config::kWarpsM % Config::kWarpsN * kWarpN;
    warp_k_ = warp / (Config::kWarpsM * Config::kWarpsN);
  }

  // Adds the product of the chunk in `slot`, or of this warp's groups of 64 in k where warps share them out.
  __device__ __forceinline__ void multiply(int slot) {
#pragma unroll
    for (int i = 0; i < kGroups / Smem::kWarpsK; ++i) {
      const int group = Smem::kWarpsK == 1 ? i : i * Smem::kWarpsK + warp_k_;
      load_codes(slot, group);
      multiply_half<0>(slot, group);
      multiply_half<1>(slot, group);
    }
  }

  // Adds up the partial sums of the warps that share k, in the order of the warps. Every warp calls it, after the block
  // has finished with the stages; says whether this warp is the one that holds the result.
  __device__ __forceinline__ bool reduce(unsigned char* smem) {
    if constexpr (Smem::kWarpsK == 1) return true;
    constexpr int kWarpFloat4s = kTilesM * kTilesN * 32;
    constexpr int kLayerFloat4s = Config::kWarpsM * Config::kWarpsN * kWarpFloat4s;
    const int thread = static_cast<int>(threadIdx.x) % (32 * Config::kWarpsM * Config::kWarpsN);
    float4* sums = reinterpret_cast<float4*>(smem) + thread / 32 * kWarpFloat4s + thread % 32;
    __syncthreads();
    if (warp_k_ > 0) {
#pragma unroll
      for (int i = 0; i < kTilesM * kTilesN; ++i) {
        const float(&acc)[4] = acc_[i / kTilesN][i % kTilesN];
        sums[(warp_k_ - 1) * kLayerFloat4s + i * 32] = {acc[0], acc[1], acc[2], acc[3]};
      }
    }
    __syncthreads();
    if (warp_k_ > 0) return false;
#pragma unroll
    for (int layer = 0; layer < Smem::kWarpsK - 1; ++layer) {
#pragma unroll
      for (int i = 0; i < kTilesM * kTilesN; ++i) {
        const float4 part = sums[layer * kLayerFloat4s + i * 32];
        float(&acc)[4] = acc_[i / kTilesN][i % kTilesN];
        acc[0] += part.x;
        acc[1] += part.y;
        acc[2] += part.z;
        acc[3] += part.w;
      }
    }
    return true;
  }

  // Adds the bias, rounds, and writes the block's part of the output.
  __device__ __forceinline__ void store(const Gemm4bitArgs& args, int64_t row_m, int64_t row_n) const {
    const bool paired = epilogue::rows_take_pairs(args.out, args.n);
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
      const int64_t first = row_n + warp_n_ + j * 16;
      const float upper_bias = epilogue::bias_at<Element>(args.bias, first + quad_row_, args.n);
      const float lower_bias = epilogue::bias_at<Element>(args.bias, first + quad_row_ + 8, args.n);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) {
        const float(&acc)[4] = acc_[i][j];
        const uint32_t upper = ElementTraits<Element>::pack(acc[0] + upper_bias, acc[1] + upper_bias);
        const uint32_t lower = ElementTraits<Element>::pack(acc[2] + lower_bias, acc[3] + lower_bias);
        const uint32_t left = ptx::transpose_8x8(upper);
        const uint32_t right = ptx::transpose_8x8(lower);
        const int64_t row = row_m + warp_m_ + i * 8 + quad_row_;
        if (row >= args.m) continue;
        epilogue::store_pair(args.out, row, first + quad_lane_ * 2, args.n, paired, left);
        epilogue::store_pair(args.out, row, first + 8 + quad_lane_ * 2, args.n, paired, right);
      }
    }
  }

 private:
  // The codes and scales of rows g and g + 8 of each 16-column tile.
  __device__ __forceinline__ void load_codes(int slot, int group) {
    const uint32_t stage = smem_ + Smem::kBOffset + slot * Smem::kBStageBytes;
    const int granule = (group * 64 + quad_lane_ * 16) >> granule_shift_;
    const uint32_t scales =
        smem_ + Smem::kScaleOffset + slot * Smem::kScaleStageBytes + granule * (Smem::kScaleRowFloats * 4);
#pragma unroll
    for (int j = 0; j < 2 * kTilesN; ++j) {
      const int row = warp_n_ + j * 8 + quad_row_;
      const uint2 words = ptx::lds_64(stage + b_offset<Config>(row, group) + quad_lane_ * 8);
      words_[j][0] = words.x;
      words_[j][1] = words.y;
      scales_[j] = ptx::lds_float(scales + row * 4);
    }
  }

  // Two multiplication steps: k 16t + 8 * kHalf .. 16t + 8 * kHalf + 7 of every thread of the quad.
  template <int kHalf>
  __device__ __forceinline__ void multiply_half(int slot, int group) {
    const uint32_t stage = smem_ + Smem::kAOffset + slot * Smem::kAStageBytes;
    const int chunk = group * 8 + quad_lane_ * 2 + kHalf;
    uint4 a[kTilesM];
#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
      a[i] = ptx::lds_128(stage + a_offset<Config>(warp_m_ + i * 8 + quad_row_, chunk));
    }
#pragma unroll
    for (int j = 0; j < kTilesN; ++j) {
      const dequant::WordOffsets upper = dequant::split_word(words_[2 * j][kHalf], rotation_);
      const dequant::WordOffsets lower = dequant::split_word(words_[2 * j + 1][kHalf], rotation_);
      const float upper_scale = scales_[2 * j];
      const float lower_scale = scales_[2 * j + 1];
      const uint32_t first[4] = {weights<0>(upper, upper_scale), weights<0>(lower, lower_scale),
                                 weights<1>(upper, upper_scale), weights<1>(lower, lower_scale)};
      const uint32_t second[4] = {weights<2>(upper, upper_scale), weights<2>(lower, lower_scale),
                                  weights<3>(upper, upper_scale), weights<3>(lower, lower_scale)};
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) ptx::mma_m16n8k16<Element>(acc_[i][j], first, a[i].x, a[i].y);
#pragma unroll
      for (int i = 0; i < kTilesM; ++i) ptx::mma_m16n8k16<Element>(acc_[i][j], second, a[i].z, a[i].w);
    }
  }

  // The two weights of a byte, computed in fp32 and rounded once to the element type.
  template <int kByte>
  __device__ __forceinline__ uint32_t weights(dequant::WordOffsets offsets, float scale) const {
    const float2 pair = dequant::byte_weights<kByte>(offsets, scale, smem_ + Smem::kCodebookOffset);
    return ElementTraits<Element>::pack(pair.x, pair.y);
  }

  uint32_t smem_;
  uint32_t rotation_;
  int granule_shift_;
  int quad_row_;
  int quad_lane_;
  int warp_m_;
  int warp_n_;
  int warp_k_;
  uint32_t words_[2 * kTilesN][2];
  float scales_[2 * kTilesN];
  float acc_[kTilesM][kTilesN][4] = {};
};

}  // namespace tilewright::kernels
