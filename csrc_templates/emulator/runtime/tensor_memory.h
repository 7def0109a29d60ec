// Tensor memory of a block, and the engine that a pair of blocks shares.
#pragma once

#include <array>

#include "world.h"

namespace tilewright::emulator {

constexpr int kTensorLanes = 128;
constexpr int kTensorColumns = 576;

struct TensorMemory {
  struct Allocation {
    uint32_t base;
    int columns;
    bool exclusive;
  };
  struct PendingRead {
    uint32_t* target;
    std::vector<uint32_t> values;
    uint32_t column;
  };

  std::vector<uint32_t> data = std::vector<uint32_t>(kTensorLanes * kTensorColumns);  // [column][lane]
  Shadow shadow;  // a word for each column of 32 lanes
  std::vector<Allocation> allocations;
  bool relinquished = false;
  std::unordered_map<Lane*, std::vector<PendingRead>> reads;

  uint32_t& at(int lane, int column) { return data[static_cast<size_t>(column) * kTensorLanes + lane]; }
  static uint32_t place_of(int quarter, int column) {
    return static_cast<uint32_t>(quarter * kTensorColumns + column) * 4;
  }
  // Ends the launch unless an allocation holds the columns.
  void check(uint32_t column, int columns, Place place) const;
};

// Matrix instructions and copies that the leader of a pair has issued.
struct TensorEngine {
  Queue copies, reads, products;
  bool filled = false;
  uint64_t filled_descriptor = 0;
  uint32_t filled_instruction = 0;
  std::shared_ptr<std::array<std::vector<float>, 2>> kept_b;
  // The pair's warps that meet to allocate or free.
  std::vector<Lane*> waiting;
  const char* meeting = nullptr;
  Warp* first = nullptr;
};

struct TensorState {
  TensorMemory memory;
  TensorEngine engine;  // of the pair, used in its even block
};

void begin_tensor_memory(Block& block);
// Ends the launch when columns are still allocated.
void end_tensor_memory(Block& block);
TensorMemory& tensor_memory(Block& block);
TensorEngine& tensor_engine(Block& block);
// The two blocks of `block`'s pair.
std::array<Block*, 2> pair_of(Block& block, Place place);

}  // namespace tilewright::emulator
