// Shuffles, votes, matrix loads and stores of a warp, and setmaxnreg.
#include "meeting.h"
#include "primitives.h"

namespace tilewright::emulator {

void warp_sync(uint32_t mask, Place place) {
  meet("__syncwarp", mask, nullptr, place, [](void**) {});
  world().point();
}

uint32_t warp_shuffle(uint32_t mask, uint32_t value, int source, Place place) {
  struct Slot {
    uint32_t value;
    int source;
    uint32_t result;
  } own{value, source, 0};
  meet("shfl.sync", mask, &own, place, [mask](void** slots) {
    uint32_t results[32] = {};
    for (int lane = 0; lane < 32; ++lane) {
      if (!(mask >> lane & 1u) || lane >= static_cast<int>(world().lane().warp->lanes.size())) continue;
      auto* slot = static_cast<Slot*>(slots[lane]);
      const bool known = mask >> slot->source & 1u;
      results[lane] = known ? static_cast<Slot*>(slots[slot->source])->value : 0xdeadbeefu;
    }
    for (int lane = 0; lane < static_cast<int>(world().lane().warp->lanes.size()); ++lane) {
      if (mask >> lane & 1u) static_cast<Slot*>(slots[lane])->result = results[lane];
    }
  });
  return own.result;
}

uint32_t warp_vote(uint32_t mask, bool value, Place place) {
  struct Slot {
    bool value;
    uint32_t result;
  } own{value, 0};
  meet("vote.sync", mask, &own, place, [](void** slots) {
    const Meeting& meeting = world().lane().warp->meeting;
    uint32_t yes = 0;
    for (int lane = 0; lane < 32; ++lane) {
      if ((meeting.mask >> lane & 1u) && static_cast<Slot*>(slots[lane])->value) yes |= 1u << lane;
    }
    for (int lane = 0; lane < 32; ++lane) {
      if (meeting.mask >> lane & 1u) static_cast<Slot*>(slots[lane])->result = yes;
    }
  });
  return own.result;
}

bool warp_elect(Place place) {
  bool own = false;
  meet("elect.sync", kFullMask, &own, place, [](void** slots) {
    // Which lane is elected is not specified; hardware takes the lowest, so a kernel must not count on another.
    *static_cast<bool*>(slots[0]) = true;
  });
  return own;
}

uint32_t matrix_transpose(uint32_t pair, Place place) {
  struct Slot {
    uint32_t value, result;
  } own{pair, 0};
  meet("movmatrix", kFullMask, &own, place, [](void** slots) {
    uint16_t matrix[8][8];
    for (int lane = 0; lane < 32; ++lane) {
      const uint32_t value = static_cast<Slot*>(slots[lane])->value;
      matrix[lane / 4][lane % 4 * 2] = static_cast<uint16_t>(value);
      matrix[lane / 4][lane % 4 * 2 + 1] = static_cast<uint16_t>(value >> 16);
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4, column = lane % 4 * 2;
      static_cast<Slot*>(slots[lane])->result = matrix[column][row] | static_cast<uint32_t>(matrix[column + 1][row])
                                                                          << 16;
    }
  });
  return own.result;
}

namespace {

struct MatrixSlot {
  uint32_t values[4];
  uint32_t address;
};

}  // namespace

void matrix_load(uint32_t* values, int count, uint32_t address, bool transposed, Place place) {
  MatrixSlot own{{}, address};
  meet(transposed ? "ldmatrix.trans" : "ldmatrix", kFullMask, &own, place, [&](void** slots) {
    for (int m = 0; m < count; ++m) {
      uint16_t matrix[8][8];
      for (int row = 0; row < 8; ++row) {
        shared_load(static_cast<MatrixSlot*>(slots[8 * m + row])->address, matrix[row], 16, 16, place);
      }
      for (int lane = 0; lane < 32; ++lane) {
        const int row = lane / 4, column = lane % 4 * 2;
        const uint32_t low = transposed ? matrix[column][row] : matrix[row][column];
        const uint32_t high = transposed ? matrix[column + 1][row] : matrix[row][column + 1];
        static_cast<MatrixSlot*>(slots[lane])->values[m] = low | high << 16;
      }
    }
  });
  for (int m = 0; m < count; ++m) values[m] = own.values[m];
}

void matrix_store(uint32_t address, const uint32_t* values, int count, bool transposed, Place place) {
  MatrixSlot own{{}, address};
  for (int m = 0; m < count; ++m) own.values[m] = values[m];
  meet(transposed ? "stmatrix.trans" : "stmatrix", kFullMask, &own, place, [&](void** slots) {
    for (int m = 0; m < count; ++m) {
      uint16_t matrix[8][8];
      for (int lane = 0; lane < 32; ++lane) {
        const int row = lane / 4, column = lane % 4 * 2;
        const uint32_t value = static_cast<MatrixSlot*>(slots[lane])->values[m];
        (transposed ? matrix[column][row] : matrix[row][column]) = static_cast<uint16_t>(value);
        (transposed ? matrix[column + 1][row] : matrix[row][column + 1]) = static_cast<uint16_t>(value >> 16);
      }
      for (int row = 0; row < 8; ++row) {
        shared_store(static_cast<MatrixSlot*>(slots[8 * m + row])->address, matrix[row], 16, 16, place);
      }
    }
  });
}

namespace {

const char* const kWaitsForRegisters = "setmaxnreg.inc waits for registers";

int registers_in_use(const Block& block) {
  int sum = 0;
  for (const Warp& warp : block.warps) {
    if (warp.done < static_cast<int>(warp.lanes.size())) sum += warp.registers * 32;
  }
  return sum;
}

}  // namespace

void set_registers(int count, bool more, Place place) {
  if (count % 8 != 0 || count < 24 || count > 256) {
    fail(Detector::kRegisters, format("setmaxnreg takes multiples of 8 from 24 to 256, not %d", count), place);
  }
  World& all = world();
  Warp& warp = *all.lane().warp;
  Block& own = *warp.block;
  meet("setmaxnreg", kFullMask, nullptr, place, [&](void**) {
    if (!more && count > warp.registers) {
      fail(Detector::kRegisters, format("setmaxnreg.dec to %d from %d registers", count, warp.registers), place);
    }
    if (more) return;
    warp.registers = count;
    for (Warp& other : own.warps) {
      for (Lane& lane : other.lanes) {
        if (lane.state == Lane::State::kWaiting && lane.wait.what == kWaitsForRegisters) all.wake(lane);
      }
    }
  });
  // What a block is launched with is the compiler's choice, the most at least: asking for less than that changes
  // nothing.
  while (more && warp.registers < count) {
    if (registers_in_use(own) + (count - warp.registers) * 32 <= own.register_pool) {
      warp.registers = count;
    } else {
      all.wait({kWaitsForRegisters, place, nullptr, 0, 0, 0});
    }
  }
}

}  // namespace tilewright::emulator
