// Register reallocation, named barriers, transposing stores, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

template <int kRegisters>
inline void setmaxnreg_inc(Place place = Place::here()) {
  emulator::set_registers(kRegisters, true, place);
}
template <int kRegisters>
inline void setmaxnreg_dec(Place place = Place::here()) {
  emulator::set_registers(kRegisters, false, place);
}
inline void named_barrier_sync(int id, int threads, Place place = Place::here()) {
  emulator::block_barrier(id, threads, true, place);
}
inline void named_barrier_arrive(int id, int threads, Place place = Place::here()) {
  emulator::block_barrier(id, threads, false, place);
}
inline void stmatrix_x2_trans(uint32_t address, uint32_t r0, uint32_t r1, Place place = Place::here()) {
  const uint32_t values[2] = {r0, r1};
  emulator::matrix_store(address, values, 2, true, place);
}
inline void stmatrix_x4_trans(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3,
                              Place place = Place::here()) {
  const uint32_t values[4] = {r0, r1, r2, r3};
  emulator::matrix_store(address, values, 4, true, place);
}
inline void sts_float4(uint32_t address, float x, float y, float z, float w, Place place = Place::here()) {
  const float4 value{x, y, z, w};
  emulator::shared_store(address, &value, 16, 16, place);
}

}  // namespace tilewright::ptx
