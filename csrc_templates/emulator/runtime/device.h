// What a launch is given: the device, the grid, the way choices are made.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>

namespace tilewright::emulator {

// How a schedule makes its choices, drawn from the seed.
struct Policy {
  uint32_t async_percent = 50;   // chance that an operation in flight goes before a warp
  int async_order = 0;           // 0 random, 1 oldest first, 2 newest first
  int warp_order = 0;            // 0 random, 1 by priorities that change now and then, 2 round robin
  uint32_t preempt_one_in = 0;   // chance that a warp is set aside at a primitive
  int lane_order = 0;            // 0 ascending, 1 descending, 2 random rotation
};

// The device that launchers see.
struct Device {
  int multiprocessors = 2;
  int shared_optin = 227 * 1024;
  int shared_oversized = 0;
  int resident_clusters = 2;
  int occupancy = 1;
  int major = 9, minor = 0;
};

struct Launch {
  dim3 grid, block;
  uint32_t shared_bytes = 0;
  unsigned cluster = 1;
  bool dependent = false;
  std::function<void()> body;
};

}  // namespace tilewright::emulator
