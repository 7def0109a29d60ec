// One lane for a warp (sm_90 and later).
#pragma once

namespace tilewright::ptx {

// True in one lane of a converged warp; the compiler knows that the branch it guards runs once.
__device__ __forceinline__ bool elect_lane() {
  int elected;
  asm volatile(
      "{\n"
      ".reg .pred one;\n"
      "elect.sync _|one, 0xffffffff;\n"
      "selp.b32 %0, 1, 0, one;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

}  // namespace tilewright::ptx
