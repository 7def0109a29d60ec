// What an emulated CUtensorMap holds.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "report.h"

namespace tilewright::emulator {

struct TensorMap {
  uint64_t mark;
  uint8_t* base;
  uint8_t rank, element_bytes, swizzle;  // swizzle: bytes of the pattern (0, 32, 64, 128)
  uint8_t packed;                        // elements of 4 bits, `element_bytes` counts two
  uint32_t box[5];
  uint32_t sizes[5];
  uint64_t strides[4];  // bytes, from dimension 1 on; 40 bits in the real map
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap), "a map holds what the emulator keeps");

constexpr uint64_t kTensorMapMark = 0x54696c6557726974u;

// The map at `pointer`, a kernel parameter; ends the launch when there is none.
const TensorMap& tensor_map_at(const void* pointer, int rank, Place place);

// Where byte `linear` of a box at shared offset `start` lies.
inline uint32_t swizzled(uint32_t address, int pattern) {
  switch (pattern) {
    case 32: return address ^ (address >> 3 & 0x10u);
    case 64: return address ^ (address >> 3 & 0x30u);
    case 128: return address ^ (address >> 3 & 0x70u);
    default: return address;
  }
}

}  // namespace tilewright::emulator
