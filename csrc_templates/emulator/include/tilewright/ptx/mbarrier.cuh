// Shared-memory barriers, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline void mbarrier_init(uint32_t barrier, uint32_t arrivals, Place place = Place::here()) {
  emulator::mbarrier_init(barrier, arrivals, place);
}
inline void mbarrier_init_fence(Place place = Place::here()) { emulator::fence_barrier_init(place); }
inline void mbarrier_arrive(uint32_t barrier, Place place = Place::here()) {
  emulator::mbarrier_arrive(barrier, 1, place);
}
inline void mbarrier_arrive_cluster(uint32_t barrier, Place place = Place::here()) {
  emulator::mbarrier_arrive(barrier, 1, place);
}
inline void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes, Place place = Place::here()) {
  emulator::mbarrier_arrive_expect(barrier, bytes, place);
}
inline void mbarrier_arrive_copies(uint32_t barrier, Place place = Place::here()) {
  emulator::copy_arrive(barrier, true, place);
}
inline bool mbarrier_try_wait(uint32_t barrier, uint32_t parity, Place place = Place::here()) {
  return emulator::mbarrier_try_wait(barrier, parity, place);
}
inline void mbarrier_wait(uint32_t barrier, uint32_t parity, Place place = Place::here()) {
  emulator::mbarrier_wait(barrier, parity, place);
}

}  // namespace tilewright::ptx
