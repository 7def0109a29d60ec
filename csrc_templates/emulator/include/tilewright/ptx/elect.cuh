// One lane for a warp, emulated.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tilewright::ptx {

inline bool elect_lane(Place place = Place::here()) { return emulator::warp_elect(place); }

}  // namespace tilewright::ptx
