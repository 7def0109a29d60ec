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
using PairOf = std::conditional_t<std::is_same_v<Element, __half>, __half2, __nv_bfloat162>;

template <class Element>
__device__ __forceinline__ uint32_t multiply_pair(uint32_t left, uint32_t right) {
  using Pair = PairOf<Element>;
  const Pair product = __hmul2(reinterpret_cast<const Pair&>(left), reinterpret_cast<const Pair&>(right));
  return reinterpret_cast<const uint32_t&>(product);
}

template <class Element>
__device__ __forceinline__ uint32_t splat(float value) {
  return ElementTraits<Element>::pack(value, value);
}

// Scales are taken in groups of eight steps, four turns. Lane l of a quad looks after turn l of a group, for both of
// the quad's weight rows: it loads those of the next group while this one lasts, and hands its own to the quad when
// their turn is near, so that every turn asks one lane for the same registers.
//
// Blocks of 64 or more: one scale a step. kBlock16: four e4m3 scales a step, their common factor left to the epilogue.
template <class Element, bool kBlock16>
class ScaleStream {
 public:
  // `row` is this quad's first weight row, the other is 8 further; rows are clamped here to `rows`. `first_turn` is the
  // first that ask() is called for.
  __device__ __forceinline__ void start(const dequant::ScaleSource& source, int row, int rows, int steps, float offset,
                                        uint32_t nested_code, int first_turn) {
    shift_ = kBlock16 ? 0 : source.block_shift - 6;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t first = (int64_t{min(row + 8 * i, rows - 1)} * steps) >> shift_;
      own_[i] = ptx::opaque(static_cast<const uint8_t*>(source.scales) + first * (nested(source) ? 1 : 4));
    }
    const uintptr_t alignment = nested(source) ? 2 : 8;
    const bool aligned = reinterpret_cast<uintptr_t>(source.scales) % alignment == 0;
    side_by_side_ = shift_ == 0 && steps % 2 == 0 && aligned;
    last_step_ = steps - 1;
    next_step_ = first_turn / 4 * 8 + 2 * static_cast<int>(threadIdx.x & 3);
    offset_ = offset;
    nested_code_ = nested_code;
    next_group(source);  // loads the first group; what it holds is nothing yet
    next_group(source);
  }

  // Asks the lane that holds them for the scales of `turn`, which pair() then gives. Turns come in order.
  __device__ __forceinline__ void ask(const dequant::ScaleSource& source, int turn) {
    const int lane = turn & 3;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) asked_[row][i] = __shfl_sync(0xffffffffu, held_[row][i], lane, 4);
    }
    if (lane == 3) next_group(source);
  }

  // The scale of the `part`-th 16 of k of a step of the turn asked for, twice.
  __device__ __forceinline__ uint32_t pair(int row, int step, int part) const {
    if constexpr (kBlock16) {
      const auto two = static_cast<__nv_fp8x2_storage_t>(asked_[row][step] >> (16 * (part / 2)));
      const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3);  // exact
      const __half own{__half_raw{part % 2 == 0 ? halves.x : halves.y}};
      if constexpr (std::is_same_v<Element, __half>) return bits_of(__half2half2(own));
      return splat<Element>(__half2float(own));
    } else {
      const Pair two = reinterpret_cast<const Pair&>(asked_[row][0]);
      if constexpr (std::is_same_v<Element, __half>) return bits_of(step == 0 ? __low2half2(two) : __high2half2(two));
      else return bits_of(step == 0 ? __low2bfloat162(two) : __high2bfloat162(two));
    }
  }

 private:
  using Pair = PairOf<Element>;
  static constexpr int kWords = kBlock16 ? 2 : 1;  // of a row's turn: e4m3 scales of one step, or elements of both

  static __device__ __forceinline__ uint32_t bits_of(Pair pair) { return reinterpret_cast<const uint32_t&>(pair); }

  static __device__ __forceinline__ bool nested(const dequant::ScaleSource& source) {
    return !kBlock16 && source.kind == dequant::ScaleKind::kNestedAbsmax;
  }

  // Makes what was loaded the group in use and loads the one after. The kinds have blocks of their own, too long to be
  // predicated: all of them would be issued.
  __device__ __forceinline__ void next_group(const dequant::ScaleSource& source) {
    if (nested(source)) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        hold(row, nested_value(row, 0), nested_value(row, 1));
        load_nested(source, row);
      }
    } else {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        hold(row, __uint_as_float(word(row, 0)), __uint_as_float(word(row, 1)));
        const auto* own = reinterpret_cast<const uint32_t*>(own_[row]);
        loaded_[row] = side_by_side_ ? ptx::ldg_near_64(own + first_step())
                                     : join(ptx::ldg_near_word(own + block(0)), ptx::ldg_near_word(own + block(1)));
      }
    }
    next_step_ += 8;
  }

  // The `i`-th block of the next group. Past the end of k the activations are zeros; any finite scale of the row will
  // do.
  __device__ __forceinline__ uint32_t block(int i) const {
    return static_cast<uint32_t>(min(next_step_ + i, last_step_)) >> shift_;
  }
  __device__ __forceinline__ uint32_t first_step() const {
    return static_cast<uint32_t>(min(next_step_, last_step_ - 1));
  }

  static __device__ __forceinline__ uint64_t join(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }
  __device__ __forceinline__ uint32_t word(int row, int i) const {
    return static_cast<uint32_t>(loaded_[row] >> (32 * i));
  }

  __device__ __forceinline__ void load_nested(const dequant::ScaleSource& source, int row) {
    const uint8_t* own = own_[row];
    if (side_by_side_) {
      loaded_[row] = ptx::ldg_near_half(own + first_step());
      outer_[row][0] = outer_at(source, own + first_step());
    } else {
      loaded_[row] = join(ptx::ldg_near_byte(own + block(0)), ptx::ldg_near_byte(own + block(1)));
#pragma unroll
      for (int i = 0; i < 2; ++i) outer_[row][i] = outer_at(source, own + block(i));
    }
  }

  // The outer scale of a nested one.
  static __device__ __forceinline__ float outer_at(const dequant::ScaleSource& source, const uint8_t* inner) {
    const int64_t index = inner - static_cast<const uint8_t*>(source.scales);
    return __ldg(source.nested_absmax + (index >> dequant::kNestedBlockShift));
  }

  __device__ __forceinline__ float nested_value(int row, int i) const {
    const uint32_t code = side_by_side_ ? word(row, 0) >> (8 * i) & 0xffu : word(row, i);
    const float outer = side_by_side_ ? outer_[row][0] : outer_[row][i];
    return __fadd_rn(__fmul_rn(ptx::lds_constant_float(nested_code_ + code * 4), outer), offset_);
  }

  __device__ __forceinline__ void hold(int row, float first, float second) {
    if constexpr (kBlock16) {
      held_[row][0] = __float_as_uint(first);
      held_[row][1] = __float_as_uint(second);
    } else {
      held_[row][0] = ElementTraits<Element>::pack(first, second);
    }
  }

  uint32_t held_[2][kWords];  // the group in use
  uint32_t asked_[2][kWords];
  uint64_t loaded_[2] = {};  // two scales each, or nested codes; one register pair, which a load fills
  float outer_[2][2] = {};
  const uint8_t* own_[2];  // the first scale of each row
  int shift_, next_step_, last_step_;
  bool side_by_side_;
  float offset_;
  uint32_t nested_code_;
};

}  // namespace tilewright::kernels
