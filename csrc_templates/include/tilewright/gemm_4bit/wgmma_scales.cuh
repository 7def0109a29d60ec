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

// Lane 2 r + s of a quad looks after row r (0 or 8 rows further) at step s of every turn.
//
// Blocks of 64 or more: one scale a step. kBlock16: four e4m3 scales a step, their common factor left to the epilogue.
// kAhead turns are loaded before they are needed.
template <class Element, bool kBlock16, int kAhead>
class ScaleStream {
 public:
  static constexpr int kPerStep = kBlock16 ? 4 : 1;

  // `row` is this quad's first weight row, clamped here to `rows`; loads begin at `first_turn`.
  __device__ __forceinline__ void start(const dequant::ScaleSource& source, int row, int rows, int steps, float offset,
                                        uint32_t nested_code, int first_turn) {
    const int lane = threadIdx.x & 3;
    const int own_row = min(row + 8 * (lane >> 1), rows - 1);
    shift_ = source.block_shift - 6;
    first_ = kBlock16 ? int64_t{own_row} * steps * 4 : (int64_t{own_row} * steps) >> shift_;
    last_step_ = steps - 1;
    next_step_ = 2 * first_turn + (lane & 1);
    offset_ = offset;
    nested_code_ = nested_code;
#pragma unroll
    for (int turn = 0; turn < kAhead; ++turn) ahead_[turn] = load(source);
  }

  // Takes the scales of the next turn: pair[step][row][16-block].
  __device__ __forceinline__ void next(const dequant::ScaleSource& source, uint32_t (&pair)[2][2][kPerStep]) {
    const uint32_t own = kBlock16 ? ahead_[0].bits : splat<Element>(finish(source, ahead_[0]));
#pragma unroll
    for (int turn = 1; turn < kAhead; ++turn) ahead_[turn - 1] = ahead_[turn];
    ahead_[kAhead - 1] = load(source);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const uint32_t bits = __shfl_sync(0xffffffffu, own, 2 * row + step, 4);
        if constexpr (kBlock16) {
          spread(bits, pair[step][row]);
        } else {
          pair[step][row][0] = bits;
        }
      }
    }
  }

 private:
  __device__ __forceinline__ dequant::RawScale load(const dequant::ScaleSource& source) {
    // Past the end of k the activations are zeros; any finite scale of the row will do.
    const int step = min(next_step_, last_step_);
    next_step_ += 2;
    const auto* bytes = static_cast<const uint8_t*>(source.scales);
    if constexpr (kBlock16) return {ptx::ldg_near_word(reinterpret_cast<const uint32_t*>(bytes + first_) + step), 0.0f};
    const int64_t block = first_ + (step >> shift_);
    if (source.kind == dequant::ScaleKind::kAbsmax) {
      return {ptx::ldg_near_word(reinterpret_cast<const uint32_t*>(bytes) + block), 0.0f};
    }
    return {ptx::ldg_near_byte(bytes + block), __ldg(source.nested_absmax + (block >> dequant::kNestedBlockShift))};
  }

  __device__ __forceinline__ float finish(const dequant::ScaleSource& source, dequant::RawScale raw) const {
    if (source.kind == dequant::ScaleKind::kAbsmax) return __uint_as_float(raw.bits);
    const float code = ptx::lds_constant_float(nested_code_ + raw.bits * 4);
    return __fadd_rn(__fmul_rn(code, raw.outer), offset_);
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

  dequant::RawScale ahead_[kAhead];
  int64_t first_;
  int shift_, next_step_, last_step_;
  float offset_;
  uint32_t nested_code_;
};

}  // namespace tilewright::kernels
