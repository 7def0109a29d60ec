// mbarriers, seen from primitives and from operations in flight.
#pragma once

#include "world.h"

namespace tilewright::emulator {

// The barrier at a shared address of the running lane; ends the launch when there is none.
Barrier& barrier_at(uint32_t address, Place place);
Barrier& barrier_in(Block& block, uint32_t offset, Place place);

// Arrivals and bytes. `known` is what the arrival releases.
void arrive(Barrier& barrier, uint32_t count, const Knowledge& known, Place place);
void expect_bytes(Barrier& barrier, int64_t bytes);
// Bytes that an operation has written become known at the barrier; returns the tick to mark them with.
Tick land_at(Barrier& barrier);
void complete_bytes(Barrier& barrier, int64_t bytes, Place place);

// An operation in flight will count at this barrier: it must be there, shown to the asynchronous proxy, and stay.
void expect_operation(Barrier& barrier, Place place);

}  // namespace tilewright::emulator
