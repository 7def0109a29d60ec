// Tensor memory and matrix instructions of a pair of CTAs, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

template <int kColumns, bool kExclusive>
inline void tmem_allocate(uint32_t destination, Place place = Place::here()) {
  emulator::tensor_allocate(destination, kColumns, kExclusive, place);
}
inline void tmem_relinquish(Place place = Place::here()) { emulator::tensor_relinquish(place); }
template <int kColumns, bool kExclusive>
inline void tmem_free(uint32_t address, Place place = Place::here()) {
  emulator::tensor_free(address, kColumns, kExclusive, place);
}
inline void tmem_load_32(uint32_t (&value)[32], uint32_t address, Place place = Place::here()) {
  emulator::tensor_read(value, 32, address, place);
}
inline void tmem_load_wait(uint32_t (&)[32], Place place = Place::here()) { emulator::tensor_read_wait(place); }
inline void tcgen05_fence_before(Place place = Place::here()) { emulator::tensor_fence_before(place); }
inline void tcgen05_fence_after(Place place = Place::here()) { emulator::tensor_fence_after(place); }
inline void tcgen05_copy_scales(uint32_t address, uint64_t descriptor, Place place = Place::here()) {
  emulator::tensor_copy_scales(address, descriptor, place);
}

enum class Collector { kNone, kFillB, kLastUseB };

template <Collector kCollector>
inline void tcgen05_mma_fp8(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, bool accumulate,
                            Place place = Place::here()) {
  emulator::tensor_multiply(d, a, b, instruction, {false, 0, 0}, accumulate,
                            static_cast<emulator::CollectorUse>(kCollector), place);
}
template <Collector kCollector>
inline void tcgen05_mma_nvfp4(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, uint32_t scale_a,
                              uint32_t scale_b, bool accumulate, Place place = Place::here()) {
  emulator::tensor_multiply(d, a, b, instruction, {true, scale_a, scale_b}, accumulate,
                            static_cast<emulator::CollectorUse>(kCollector), place);
}

enum class MaskBits { k16, k32 };

inline void tcgen05_commit(uint32_t barrier, Place place = Place::here()) {
  emulator::tensor_commit(barrier, 0, false, false, place);
}
template <MaskBits kBits>
inline void tcgen05_commit_multicast(uint32_t barrier, uint32_t mask, Place place = Place::here()) {
  emulator::tensor_commit(barrier, mask, kBits == MaskBits::k32, false, place);
}
template <MaskBits kBits>
inline void tcgen05_commit_a_read_multicast(uint32_t barrier, uint32_t mask, Place place = Place::here()) {
  emulator::tensor_commit(barrier, mask, kBits == MaskBits::k32, true, place);
}

inline void mbarrier_arrive_pair(uint32_t barrier, Place place = Place::here()) {
  emulator::mbarrier_arrive(barrier, 1, place);
}
inline bool mbarrier_try_wait_pair(uint32_t barrier, uint32_t parity, Place place = Place::here()) {
  return emulator::mbarrier_try_wait(barrier, parity, place);
}
inline void mbarrier_wait_pair(uint32_t barrier, uint32_t parity, Place place = Place::here()) {
  emulator::mbarrier_wait(barrier, parity, place);
}

}  // namespace tilewright::ptx
