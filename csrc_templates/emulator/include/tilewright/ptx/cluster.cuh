// Clusters, distributed shared memory and dependent launches, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline uint32_t cluster_block_rank() { return emulator::cluster_rank(); }

inline uint32_t map_to_block(uint32_t address, uint32_t rank, Place place = Place::here()) {
  return emulator::map_shared(address, rank, place);
}

inline float4 load_cluster_float4(uint32_t address, Place place = Place::here()) {
  float4 value;
  emulator::shared_load(address, &value, 16, 16, place);
  return value;
}

inline void cluster_arrive(Place place = Place::here()) { emulator::cluster_arrive(place); }
inline void cluster_arrive_relaxed(Place place = Place::here()) { emulator::cluster_arrive_relaxed(place); }
inline void cluster_wait(Place place = Place::here()) { emulator::cluster_wait(place); }
inline void cluster_sync(Place place = Place::here()) {
  emulator::cluster_arrive(place);
  emulator::cluster_wait(place);
}

inline void store_async_float4(uint32_t address, uint32_t barrier, float4 value, Place place = Place::here()) {
  emulator::store_async(address, barrier, &value, 16, place);
}

inline void wait_for_dependencies(Place place = Place::here()) { emulator::wait_for_dependencies(place); }
inline void release_dependents() { emulator::release_dependents(); }

}  // namespace tilewright::ptx
