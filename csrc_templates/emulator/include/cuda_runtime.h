// Kernels as host code: qualifiers, built-in variables, launches and the intrinsics that kernels use.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <type_traits>

#include "cuda_runtime_api.h"
#include "primitives.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
#define __cluster_dims__(...)

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace tilewright::emulator {

cudaError_t launch(const cudaLaunchConfig_t& config, const void* function, std::function<void()> body);

// Keeps a compiler from joining a rounded result with what follows.
inline float rounded(float value) {
#if defined(__x86_64__)
  asm("" : "+x"(value));
#else
  asm("" : "+w"(value));
#endif
  return value;
}

}  // namespace tilewright::emulator

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return tilewright::emulator::launch(*config, reinterpret_cast<const void*>(kernel),
                                      [=]() { kernel(static_cast<Parameters>(arguments)...); });
}

using tilewright::emulator::Place;

// The whole warp and the whole block.
inline void __syncthreads(Place place = Place::here()) { tilewright::emulator::block_barrier(0, 0, true, place); }
inline void __syncwarp(unsigned mask = 0xffffffffu, Place place = Place::here()) {
  tilewright::emulator::warp_sync(mask, place);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline unsigned __activemask() { return 0xffffffffu; }
[[noreturn]] inline void __trap(Place place = Place::here()) { tilewright::emulator::trap("__trap", place); }
inline size_t __cvta_generic_to_shared(const void* pointer, Place place = Place::here()) {
  return tilewright::emulator::shared_address(pointer, place);
}

namespace tilewright::emulator {

template <class T>
T shuffle(unsigned mask, T value, int source, Place place) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "words and pairs of words");
  uint32_t words[sizeof(T) / 4];
  std::memcpy(words, &value, sizeof(T));
  for (uint32_t& word : words) word = warp_shuffle(mask, word, source, place);
  std::memcpy(&value, words, sizeof(T));
  return value;
}

inline int lane_index() {
  return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u);
}

}  // namespace tilewright::emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, Place place = Place::here()) {
  const int base = tilewright::emulator::lane_index() & ~(width - 1);
  return tilewright::emulator::shuffle(mask, value, base + (source & (width - 1)), place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32, Place place = Place::here()) {
  const int lane = tilewright::emulator::lane_index();
  const int other = lane ^ distance;
  return tilewright::emulator::shuffle(mask, value, (other & ~(width - 1)) == (lane & ~(width - 1)) ? other : lane,
                                       place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, Place place = Place::here()) {
  const int lane = tilewright::emulator::lane_index();
  const int within = (lane & (width - 1)) + static_cast<int>(distance);
  return tilewright::emulator::shuffle(mask, value, within < width ? lane + static_cast<int>(distance) : lane, place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, Place place = Place::here()) {
  const int lane = tilewright::emulator::lane_index();
  const int within = (lane & (width - 1)) - static_cast<int>(distance);
  return tilewright::emulator::shuffle(mask, value, within >= 0 ? lane - static_cast<int>(distance) : lane, place);
}
inline unsigned __ballot_sync(unsigned mask, int value, Place place = Place::here()) {
  return tilewright::emulator::warp_vote(mask, value != 0, place);
}
inline int __any_sync(unsigned mask, int value, Place place = Place::here()) {
  return __ballot_sync(mask, value, place) != 0;
}
inline int __all_sync(unsigned mask, int value, Place place = Place::here()) {
  return __ballot_sync(mask, value == 0, place) == 0;
}

// Loads. The compiler's calls check ordinary accesses, so these only name them.
template <class T>
T __ldg(const T* source, Place place = Place::here()) {
  T value;
  tilewright::emulator::global_load(source, &value, sizeof(T), place);
  return value;
}
template <class T>
T __ldcs(const T* source, Place place = Place::here()) { return __ldg(source, place); }
template <class T>
T __ldcg(const T* source, Place place = Place::here()) { return __ldg(source, place); }
template <class T>
void __stcs(T* target, T value, Place place = Place::here()) {
  tilewright::emulator::global_store(target, &value, sizeof(T), place);
}
template <class T>
void __stcg(T* target, T value, Place place = Place::here()) { __stcs(target, value, place); }

// One emulated thread runs at a time, so these are atomic as they stand.
template <class T>
T atomicAdd(T* target, T value) {
  const T before = *target;
  *target = before + value;
  return before;
}
template <class T>
T atomicMax(T* target, T value) {
  const T before = *target;
  if (before < value) *target = value;
  return before;
}
template <class T>
T atomicExch(T* target, T value) {
  const T before = *target;
  *target = value;
  return before;
}
template <class T>
T atomicCAS(T* target, T compare, T value) {
  const T before = *target;
  if (before == compare) *target = value;
  return before;
}

#include "device_math.h"
