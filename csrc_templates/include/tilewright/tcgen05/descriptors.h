// Descriptors of tcgen05: where an operand lies in shared memory, and what a matrix instruction does. Host and device.
//
// Bit ranges below are half-open. Fields that are not named stay zero: dense, K-major operands, nothing negated.
#pragma once

#include <cstdint>

#include "tilewright/host_device.h"

namespace tilewright::tcgen05 {

// Swizzle field of a shared-memory descriptor, bits [61, 64).
enum class Swizzle : uint32_t { kNone = 0, k128B = 2, k64B = 4, k32B = 6 };

// Start addresses have 14 bits in units of 16 bytes, 256 KiB in all; sm_107 takes one bit more. An address past the
// range would wrap without a word.
constexpr int kStartBits = 14;
constexpr int kWideStartBits = 15;

// The part of a shared-memory descriptor that does not move:
//   [0, 14 or 15) start >> 4   [16, 30) leading offset >> 4   [32, 46) stride offset >> 4   [46, 49) version, 1 here
//   [49, 52) base offset   52 the leading offset is an address   [61, 64) swizzle
// Of a K-major operand: `stride_bytes` from 8 rows to the next 8. `leading_bytes` from one 16-byte column to the next
// without a swizzle; a swizzled operand does not use it.
TILEWRIGHT_HOST_DEVICE constexpr uint64_t smem_descriptor_base(Swizzle swizzle, uint32_t leading_bytes,
                                                               uint32_t stride_bytes) {
  return uint64_t{(leading_bytes >> 4) & 0x3fff} << 16 | uint64_t{(stride_bytes >> 4) & 0x3fff} << 32 |
         uint64_t{1} << 46 | static_cast<uint64_t>(swizzle) << 61;
}

// With its start address. `start_bits` is kStartBits, or kWideStartBits on sm_107.
TILEWRIGHT_HOST_DEVICE constexpr uint64_t smem_descriptor(uint64_t base, uint32_t address,
                                                          int start_bits = kStartBits) {
  return base | ((address >> 4) & ((1u << start_bits) - 1));
}

// sm_103: as smem_descriptor, of an operand whose 48 bytes of K may pass the end of a row of 128 swizzled bytes. They
// go on in the tile at `next`, named in place of the leading offset; bit 52 says so.
TILEWRIGHT_HOST_DEVICE constexpr uint64_t smem_descriptor_onward(uint64_t base, uint32_t address, uint32_t next) {
  const uint64_t kept = base & ~(uint64_t{0x3fff} << 16);
  return kept | uint64_t{1} << 52 | uint64_t{(next >> 4) & 0x3fff} << 16 | ((address >> 4) & 0x3fff);
}

// Rows of 128 bytes along K under the 128-byte swizzle, groups of 8 rows 1024 bytes apart; the tile starts on 1024
// bytes. A step along K is a start address 32 or 64 bytes further on.
constexpr uint64_t kOperand128B = smem_descriptor_base(Swizzle::k128B, 16, 1024);

// The 32 rows of 16 bytes of a scale atom, one after another.
constexpr uint64_t kScaleAtom = smem_descriptor_base(Swizzle::kNone, 16, 128);

// Operand formats of kind::f8f6f4.
enum class Fp8Format : uint32_t { kE4m3 = 0, kE5m2 = 1 };

// Elements of K a matrix instruction consumes, as the k_dim field has it: 32 (fp8) or 64 (fp4) elements are 0
// everywhere. sm_103 knows 96 fp4 elements; sm_107 knows 64 fp8 and 128 fp4 elements, 64 bytes.
enum class KStep : uint32_t { k32Bytes = 0, k48Bytes = 1, k64Bytes = 2 };

// kind::f8f6f4 with fp32 accumulators:
//   [4, 6) accumulator format, 1 = f32   [7, 10) format of A   [10, 13) of B   [17, 23) N >> 3   [24, 29) M >> 4
//   29 k_dim, 1 = 64 elements
TILEWRIGHT_HOST_DEVICE constexpr uint32_t fp8_instruction(int m, int n, Fp8Format a, Fp8Format b, KStep step) {
  return 1u << 4 | static_cast<uint32_t>(a) << 7 | static_cast<uint32_t>(b) << 10 |
         static_cast<uint32_t>(n >> 3) << 17 | static_cast<uint32_t>(m >> 4) << 24 |
         (step == KStep::k64Bytes ? 1u << 29 : 0u);
}

// kind::mxf4nvf4 with e2m1 operands and a ue4m3 scale per 16:
//   3 upper bit of k_dim   [4, 6) first scale byte of B   [7, 10) format of A, 1 = e2m1   [10, 12) of B
//   [17, 23) N >> 3   23 scale format, 0 = ue4m3   [27, 29) M >> 7   [29, 31) first scale byte of A   31 lower bit of
//   k_dim
// A first scale byte other than 0 is what a step of 96 elements needs when the one before it ended within a word.
TILEWRIGHT_HOST_DEVICE constexpr uint32_t nvfp4_instruction(int m, int n, KStep step, int scale_byte = 0) {
  const auto k_dim = static_cast<uint32_t>(step);
  return (k_dim >> 1) << 3 | static_cast<uint32_t>(scale_byte) << 4 | 1u << 7 | 1u << 10 |
         static_cast<uint32_t>(n >> 3) << 17 | static_cast<uint32_t>(m >> 7) << 27 |
         static_cast<uint32_t>(scale_byte) << 29 | (k_dim & 1) << 31;
}

// A tensor-memory address: lane in the upper half, column in the lower.
TILEWRIGHT_HOST_DEVICE constexpr uint32_t tmem_address(uint32_t base, int lane, int column) {
  return base + (static_cast<uint32_t>(lane) << 16) + static_cast<uint32_t>(column);
}

}  // namespace tilewright::tcgen05
