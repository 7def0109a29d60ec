// One warp's part of an mma_m16n8k16 block tile: fragments, dequantisation in registers, multiply-accumulate, store.
#pragma once

#include <cstdint>

#include "tilewright/dequant/words.cuh"
#include "tilewright/epilogue/store.cuh"
#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/mma_stages.cuh"
#include "tilewright/ptx/lds.cuh"
#include "tilewright/ptx/mma.cuh"

namespace tilewright::kernels {

// A product does not depend on the order of k as long as A and B agree on it. Within each 64 elements of k, thread t of a
// quad owns k 16t .. 16t + 15: eight bytes of codes, in one load and under one scale, and two 16-byte loads of each row of
// A. Multiplication step s then takes k 16t + 4s .. 16t + 4s + 3 of every t as its sixteen.
template <class Config>
class WarpTile {
 public:
  using Element = typename Config::Element;
  using Smem = MmaM16n8k16Smem<Config>;
  static constexpr int kWarpM = Config::kMt / Config::kWarpsM;
  static constexpr int kWarpN = Config::kNt / Config::kWarpsN;
  static constexpr int kMmaM = kWarpM / 16;
  static constexpr int kMmaN = kWarpN / 8;
  static_assert(kWarpM % 16 == 0 && kWarpM * Config::kWarpsM == Config::kMt, "mt is a multiple of 16 * warps_m");
  static_assert(kWarpN % 8 == 0 && kWarpN * Config::kWarpsN == Config::kNt, "nt is a multiple of 8 * warps_n");

  __device__ __forceinline__ WarpTile(QuantType quant_type, int granule_shift, const unsigned char* smem)
      : smem_(ptx::shared_address(smem)), rotation_(dequant::even_rotation(quant_type)), granule_shift_(granule_shift) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    quad_row_ = lane / 4;
    quad_lane_ = lane % 4;
    warp_m_ = warp % Config::kWarpsM * kWarpM;
    warp_n_ = warp / Config::kWarpsM * kWarpN;
  }

  // Adds the product of the chunk in `slot`.
  __device__ __forceinline__ void multiply(int slot) {
#pragma unroll
    for (int group = 0; group < Config::kKc / 64; ++group) {
      load_b(slot, group);
      multiply_half<0>(slot, group);
      multiply_half<1>(slot, group);
    }
  }

  // Writes the accumulators, with the bias added, to the block's place in the output.
  __device__ __forceinline__ void store(const Gemm4bitArgs& args, int64_t row_m, int64_t row_n) const {
    const bool paired = args.n % 2 == 0 && (reinterpret_cast<uintptr_t>(args.out) & 3) == 0;
#pragma unroll
    for (int j = 0; j < kMmaN; ++j) {
      const int64_t column = row_n + warp_n_ + j * 8 + quad_lane_ * 2;
      if (column >= args.n) continue;
      const float bias0 = epilogue::bias_at<Element>(args.bias, column);
      const float bias1 = column + 1 < args.n ? epilogue::bias_at<Element>(args.bias, column + 1) : 0.0f;
#pragma unroll
      for (int i = 0; i < kMmaM; ++i) {
        const int64_t row = row_m + warp_m_ + i * 16 + quad_row_;
        const float(&acc)[4] = acc_[i][j];
        if (row < args.m) {
          epilogue::store_pair<Element>(args.out, row, column, args.n, paired, {acc[0] + bias0, acc[1] + bias1});
        }
        if (row + 8 < args.m) {
          epilogue::store_pair<Element>(args.out, row + 8, column, args.n, paired, {acc[2] + bias0, acc[3] + bias1});
        }
      }
    }
  }

 private:
  __device__ __forceinline__ void load_b(int slot, int group) {
    const uint32_t stage = smem_ + Smem::kBOffset + slot * Smem::kBStageBytes;
    const int granule = (group * 64 + quad_lane_ * 16) >> granule_shift_;
    const uint32_t scales =
        smem_ + Smem::kScaleOffset + slot * Smem::kScaleStageBytes + granule * (Smem::kScaleRowFloats * 4);
#pragma unroll
    for (int j = 0; j < kMmaN; ++j) {
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
    uint4 upper[kMmaM];
    uint4 lower[kMmaM];
#pragma unroll
    for (int i = 0; i < kMmaM; ++i) {
      const int row = warp_m_ + i * 16 + quad_row_;
      upper[i] = ptx::lds_128(stage + a_offset<Config>(row, chunk));
      lower[i] = ptx::lds_128(stage + a_offset<Config>(row + 8, chunk));
    }
#pragma unroll
    for (int j = 0; j < kMmaN; ++j) {
      const dequant::WordOffsets offsets = dequant::split_word(words_[j][kHalf], rotation_);
      const uint32_t b0 = fragment<0>(offsets, scales_[j]);
      const uint32_t b1 = fragment<1>(offsets, scales_[j]);
      const uint32_t b2 = fragment<2>(offsets, scales_[j]);
      const uint32_t b3 = fragment<3>(offsets, scales_[j]);
#pragma unroll
      for (int i = 0; i < kMmaM; ++i) {
        ptx::mma_m16n8k16<Element>(acc_[i][j], upper[i].x, lower[i].x, upper[i].y, lower[i].y, b0, b1);
      }
#pragma unroll
      for (int i = 0; i < kMmaM; ++i) {
        ptx::mma_m16n8k16<Element>(acc_[i][j], upper[i].z, lower[i].z, upper[i].w, lower[i].w, b2, b3);
      }
    }
  }

  // The two weights of a byte, computed in fp32 and rounded once to the element type.
  template <int kByte>
  __device__ __forceinline__ uint32_t fragment(dequant::WordOffsets offsets, float scale) const {
    const float2 weights = dequant::byte_weights<kByte>(offsets, scale, smem_ + Smem::kCodebookOffset);
    return ElementTraits<Element>::pack(weights.x, weights.y);
  }

  uint32_t smem_;
  uint32_t rotation_;
  int granule_shift_;
  int quad_row_;
  int quad_lane_;
  int warp_m_;
  int warp_n_;
  uint32_t words_[kMmaN][2];
  float scales_[kMmaN];
  float acc_[kMmaM][kMmaN][4] = {};
};

}  // namespace tilewright::kernels
