// Instructions that all lanes of a warp execute together.
#pragma once

#include "world.h"

namespace tilewright::emulator {

constexpr uint32_t kFullMask = 0xffffffffu;

// Every lane of `mask` calls this with the same name; the last to come runs `action(slots)`, where slots[lane] is what
// that lane gave, and all go on.
template <class Action>
void meet(const char* name, uint32_t mask, void* own, Place place, Action action) {
  World& all = world();
  Lane& lane = all.lane();
  Warp& warp = *lane.warp;
  Meeting& meeting = warp.meeting;
  const uint32_t present = warp.lanes.size() == 32 ? kFullMask : (1u << warp.lanes.size()) - 1u;
  if (mask == kFullMask) mask = present;
  if (!(mask >> lane.index & 1u)) fail(Detector::kWarp, format("%s: the lane is not in its own mask", name), place);
  if (meeting.arrived == 0) {
    meeting.name = name;
    meeting.mask = mask;
    meeting.place = place;
    for (const Lane& other : warp.lanes) {
      if ((mask >> other.index & 1u) && other.state == Lane::State::kDone) {
        fail(Detector::kWarp, format("%s: lane %d of the mask has ended", name, other.index), place);
      }
    }
  } else if (meeting.name != name || meeting.mask != mask) {
    fail(Detector::kWarp, format("lanes of a warp meet at different instructions: %s and %s (%s)", name, meeting.name,
                                 describe(meeting.place).c_str()), place);
  }
  meeting.slots[lane.index] = own;
  meeting.arrived |= 1u << lane.index;
  if (meeting.arrived != mask) {
    all.wait({name, place, nullptr, 0, 0, 0});
    return;
  }
  action(meeting.slots);
  meeting.arrived = 0;
  for (Lane& other : warp.lanes) {
    if (&other != &lane && (mask >> other.index & 1u)) all.wake(other);
  }
}

}  // namespace tilewright::emulator
