// Block scales of the wgmma engine: a quad of lanes loads the scales of its two weight rows a few turns ahead and hands
// them round when the codes are expanded.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "tilewright/dequant/scales.cuh"
#include "tilewright/epilogue/element.cuh"
#include "tilewright/ptx/bits.cuh"
#include "tilewright/ptx/ldg.cuh"
#include "tilewright/ptx/lds.cuh"

namespace tilewright::kernels {

template <class Element>
__device__ __forceinline__ uint32_t multiply_pair(uint32_t left, uint32_t right) {
  using Pair = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;
  const Pair product = __hmul2(reinterpret_cast<const Pair&>(left), reinterpret_cast<const Pair&>(right));
  return reinterpret_cast<const uint32_t&>(product);
}

template <class Element>
__device__ __forceinline__ uint32_t splat(float value) {
  return ElementTraits<Element>::pack(value, value);
}

// Scales are taken in groups of eight steps, four turns. Lane 2 r + h of a quad looks after row r (0 or 8 rows further) at
// the steps 4 h .. 4 h + 3 of a group and loads those of the next group while this one lasts; where they lie side by side
// and aligned, by one load.
//
// Blocks of 64 or more: one scale a step. kBlock16: four e4m3 scales a step, their common factor left to the epilogue.
template <class Element, bool kBlock16>
class ScaleStream {
 public:
  static constexpr int kPerStep = kBlock16 ? 4 : 1;
  static constexpr int kAsked = kBlock16 ? 2 : 1;  // words of a row's two steps: e4m3 scales of one, or elements of both

  // `row` is this quad's first weight row, clamped here to `rows`; `first_turn` is the first that ask() is called for.
  __device__ __forceinline__ void start(const dequant::ScaleSource& source, int row, int rows, int steps, float offset,
                                        uint32_t nested_code, int first_turn) {
    const int lane = threadIdx.x & 3;
    const int own_row = min(row + 8 * (lane >> 1), rows - 1);
    shift_ = kBlock16 ? 0 : source.block_shift - 6;
    first_ = (int64_t{own_row} * steps) >> shift_;
    const uint8_t* own = static_cast<const uint8_t*>(source.scales) + first_ * (nested(source) ? 1 : 4);
    own_ = ptx::opaque(own);
    const uintptr_t alignment = nested(source) ? 4 : 16;
    side_by_side_ = shift_ == 0 && steps % 8 == 0 && reinterpret_cast<uintptr_t>(source.scales) % alignment == 0;
    last_step_ = steps - 1;
    next_step_ = first_turn / 4 * 8 + 4 * (lane & 1);
    offset_ = offset;
    nested_code_ = nested_code;
    load(source);
    hold(source);
    load(source);
  }

  // Asks the lanes that hold them for the scales of `turn`. Turns come in order; what take() has not taken is lost.
  __device__ __forceinline__ void ask(const dequant::ScaleSource& source, int turn) {
    const bool second = turn & 1;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int lane = 2 * row + (turn >> 1 & 1);
#pragma unroll
      for (int i = 0; i < kAsked; ++i) {
        asked_[row][i] = __shfl_sync(0xffffffffu, second ? held_[kAsked + i] : held_[i], lane, 4);
      }
    }
    if ((turn & 3) == 3) {
      hold(source);
      load(source);
    }
  }

  // The scales asked for: pair[step][row][16-block].
  __device__ __forceinline__ void take(uint32_t (&pair)[2][2][kPerStep]) const {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if constexpr (kBlock16) {
#pragma unroll
        for (int step = 0; step < 2; ++step) spread(asked_[row][step], pair[step][row]);
      } else {
        pair[0][row][0] = ptx::prmt(asked_[row][0], asked_[row][0], 0x1010u);
        pair[1][row][0] = ptx::prmt(asked_[row][0], asked_[row][0], 0x3232u);
      }
    }
  }

 private:
  static __device__ __forceinline__ bool nested(const dequant::ScaleSource& source) {
    return !kBlock16 && source.kind == dequant::ScaleKind::kNestedAbsmax;
  }

  // Past the end of k the activations are zeros; any finite scale of the row will do.
  __device__ __forceinline__ int block_of(int step) const { return min(step, last_step_) >> shift_; }

  // This lane's four scales of the next group, as they lie in memory.
  __device__ __forceinline__ void load(const dequant::ScaleSource& source) {
    const int step = next_step_;
    next_step_ += 8;
    if (side_by_side_) {
      const int first = min(step, last_step_ - 3);
      if (nested(source)) {
        loaded_[0] = ptx::ldg_near_word(reinterpret_cast<const uint32_t*>(own_ + first));
        outer_[0] = __ldg(source.nested_absmax + ((first_ + first) >> dequant::kNestedBlockShift));
        return;
      }
      const uint4 four = ptx::ldg_near_128(own_ + int64_t{first} * 4);
      loaded_[0] = four.x;
      loaded_[1] = four.y;
      loaded_[2] = four.z;
      loaded_[3] = four.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int block = block_of(step + i);
      if (nested(source)) {
        loaded_[i] = ptx::ldg_near_byte(own_ + block);
        outer_[i] = __ldg(source.nested_absmax + ((first_ + block) >> dequant::kNestedBlockShift));
      } else {
        loaded_[i] = ptx::ldg_near_word(reinterpret_cast<const uint32_t*>(own_) + block);
      }
    }
  }

  // Makes what was loaded the group in use.
  __device__ __forceinline__ void hold(const dequant::ScaleSource& source) {
    if constexpr (kBlock16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) held_[i] = loaded_[i];
    } else {
      float value[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) value[i] = __uint_as_float(loaded_[i]);
      if (nested(source)) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint32_t code = side_by_side_ ? loaded_[0] >> (8 * i) & 0xffu : loaded_[i];
          const float outer = side_by_side_ ? outer_[0] : outer_[i];
          value[i] = __fadd_rn(__fmul_rn(ptx::lds_constant_float(nested_code_ + code * 4), outer), offset_);
        }
      }
      held_[0] = ElementTraits<Element>::pack(value[0], value[1]);
      held_[1] = ElementTraits<Element>::pack(value[2], value[3]);
    }
  }

  // Four e4m3 bytes to four pairs, exactly.
  static __device__ __forceinline__ void spread(uint32_t bytes, uint32_t (&pairs)[kPerStep]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto two = static_cast<__nv_fp8x2_storage_t>(bytes >> (16 * half));
      const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);
      if constexpr (std::is_same_v<Element, __half>) {
        pairs[2 * half] = halves.x | uint32_t{halves.x} << 16;
        pairs[2 * half + 1] = halves.y | uint32_t{halves.y} << 16;
      } else {
        pairs[2 * half] = splat<Element>(__half2float(__half(__half_raw{halves.x})));
        pairs[2 * half + 1] = splat<Element>(__half2float(__half(__half_raw{halves.y})));
      }
    }
  }

  uint32_t held_[2 * kAsked];  // the group in use: e4m3 words, or elements two steps to a word
  uint32_t asked_[2][kAsked];
  uint32_t loaded_[4];
  float outer_[4] = {};
  const uint8_t* own_;  // the first scale of the row
  int64_t first_;
  int shift_, next_step_, last_step_;
  bool side_by_side_;
  float offset_;
  uint32_t nested_code_;
};

}  // namespace tilewright::kernels
