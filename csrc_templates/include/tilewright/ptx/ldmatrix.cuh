// Loads of 8 x 8 matrices of 16-bit elements from shared memory into multiplication fragments (sm_75 and later).
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// Lanes 8 p .. 8 p + 7 give the addresses of the 16-byte rows of matrix p; afterwards lane 4 g + t holds bytes 4 t .. 4
// t + 3 of row g of matrix p in values[p]. Rows are 16-byte aligned.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&values)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(values[0]), "=r"(values[1]), "=r"(values[2]), "=r"(values[3])
               : "r"(address)
               : "memory");
}

}  // namespace tilewright::ptx
