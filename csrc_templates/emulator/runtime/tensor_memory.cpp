// Tensor memory: allocation and its permits, reads, fences.
#include "tensor_memory.h"

#include "meeting.h"
#include "primitives.h"

namespace tilewright::emulator {

TensorMemory& tensor_memory(Block& block) { return block.tensor->memory; }

TensorEngine& tensor_engine(Block& block) {
  return block.cluster->blocks[static_cast<size_t>(block.rank) & ~size_t{1}]->tensor->engine;
}

std::array<Block*, 2> pair_of(Block& block, Place place) {
  auto& blocks = block.cluster->blocks;
  if (world().device.major != 10 && world().device.major != 11)
    fail(Detector::kUnsupported, "this arch has no tcgen05", place);
  if (blocks.size() % 2 != 0)
    fail(Detector::kTensorMemory, "cta_group::2 in a cluster of an odd number of blocks", place);
  const size_t even = static_cast<size_t>(block.rank) & ~size_t{1};
  return {blocks[even].get(), blocks[even + 1].get()};
}

void begin_tensor_memory(Block& block) {
  if (world().device.major != 10 && world().device.major != 11) return;
  block.tensor = std::make_shared<TensorState>();
  block.tensor->memory.shadow.reset(kTensorColumns * 4 * 4);
  block.tensor->memory.shadow.set_columns(kTensorColumns);
  // What nobody wrote is a NaN to whoever reads it.
  std::fill(block.tensor->memory.data.begin(), block.tensor->memory.data.end(), 0x7fc0dead);
  TensorEngine& engine = block.tensor->engine;
  Cluster& cluster = *block.cluster;
  engine.products.agent = cluster.new_agent(format("matrix instruction of rank %d", block.rank));
  engine.reads.agent = cluster.new_agent(format("matrix instruction of rank %d reading A", block.rank));
  engine.copies.agent = cluster.new_agent(format("tcgen05.cp of rank %d", block.rank));
}

void end_tensor_memory(Block& block) {
  if (!block.tensor || block.tensor->memory.allocations.empty()) return;
  fail(Detector::kTensorMemory, format("block %u ends with %d columns of tensor memory allocated", block.index.x,
                                       block.tensor->memory.allocations[0].columns));
}

void TensorMemory::check(uint32_t column, int columns, Place place) const {
  for (const Allocation& allocation : allocations) {
    if (column >= allocation.base &&
        column + static_cast<uint32_t>(columns) <= allocation.base + static_cast<uint32_t>(allocation.columns)) {
      return;
    }
  }
  fail(Detector::kTensorMemory, format("columns %u..%u of tensor memory are not allocated", column,
                                       column + static_cast<uint32_t>(columns) - 1), place);
}

namespace {

// The warp meets the warp of the pair's other block; true in the one that came last, which then acts for both.
bool meet_pair(const char* name, Place place) {
  bool last = false;
  meet(name, kFullMask, nullptr, place, [](void**) {});
  Lane& lane = world().lane();
  TensorEngine& engine = tensor_engine(block());
  const size_t lanes = lane.warp->lanes.size();
  if (engine.waiting.empty()) {
    engine.meeting = name;
    engine.first = lane.warp;
  } else if (engine.meeting != name || (engine.first->block == lane.warp->block && engine.first != lane.warp)) {
    fail(Detector::kTensorMemory, format("%s meets %s of the pair", name, engine.meeting), place);
  }
  last = engine.waiting.size() + 1 == 2 * lanes;
  if (!last) {
    engine.waiting.push_back(&lane);
    world().wait({name, place, nullptr, 0, 0, 0});
  }
  return last;
}

void leave_pair() {
  TensorEngine& engine = tensor_engine(block());
  std::vector<Lane*> waiting;
  waiting.swap(engine.waiting);
  for (Lane* lane : waiting) world().wake(*lane);
}

void check_columns(int columns, bool exclusive, Place place) {
  const bool power = columns >= 32 && (columns & (columns - 1)) == 0;
  if (!exclusive && (!power || columns > 512)) {
    fail(Detector::kTensorMemory, format("%d columns: an allocation is a power of two from 32 to 512", columns), place);
  }
  if (exclusive && world().device.minor != 7)
    fail(Detector::kTensorMemory, "exclusive tensor memory is of sm_107", place);
  if (exclusive && (columns > kTensorColumns || columns % 32 != 0)) {
    fail(Detector::kTensorMemory, format("%d columns: an exclusive allocation has at most %d", columns, kTensorColumns),
         place);
  }
}

}  // namespace

void tensor_allocate(uint32_t destination, int columns, bool exclusive, Place place) {
  const auto pair = pair_of(block(), place);
  check_columns(columns, exclusive, place);
  TensorMemory& own = tensor_memory(block());
  if (own.relinquished) fail(Detector::kTensorMemory, "an allocation after the permit was given up", place);
  if (meet_pair("tcgen05.alloc", place)) {
    int taken = 0;
    for (const auto& allocation : own.allocations) taken += allocation.columns;
    if (taken + columns > (exclusive ? kTensorColumns : 512) || (exclusive && taken != 0)) {
      fail(Detector::kTensorMemory, format("%d columns while %d are taken: this waits for ever", columns, taken),
           place);
    }
    // Nothing says where an allocation starts.
    uint32_t base = static_cast<uint32_t>(taken);
    if (!exclusive && taken == 0 && columns < 512)
      base = world().random().below(static_cast<uint32_t>(512 / columns)) * static_cast<uint32_t>(columns);
    for (Block* each : pair) tensor_memory(*each).allocations.push_back({base, columns, exclusive});
    leave_pair();
  }
  if (world().lane().index == 0) {
    const uint32_t base = own.allocations.back().base;
    shared_store(destination, &base, 4, 4, place);
  }
  meet("tcgen05.alloc", kFullMask, nullptr, place, [](void**) {});
}

void tensor_relinquish(Place place) {
  pair_of(block(), place);
  if (tensor_memory(block()).allocations.empty())
    fail(Detector::kTensorMemory, "the permit is given up before anything is allocated", place);
  meet("tcgen05.relinquish_alloc_permit", kFullMask, nullptr, place,
       [](void**) { tensor_memory(block()).relinquished = true; });
}

void tensor_free(uint32_t address, int columns, bool exclusive, Place place) {
  const auto pair = pair_of(block(), place);
  if (!meet_pair("tcgen05.dealloc", place)) return;
  const TensorEngine& engine = tensor_engine(block());
  if (!engine.products.waiting.empty() || !engine.copies.waiting.empty()) {
    fail(Detector::kTensorMemory, "tensor memory is freed while matrix instructions are under way", place);
  }
  for (Block* each : pair) {
    TensorMemory& memory = tensor_memory(*each);
    for (const auto& [lane, reads] : memory.reads) {
      if (!reads.empty()) fail(Detector::kTensorMemory, "tensor memory is freed while it is being read", place);
    }
    bool found = false;
    for (size_t i = 0; i < memory.allocations.size(); ++i) {
      const auto& held = memory.allocations[i];
      if (held.base != address || held.columns != columns || held.exclusive != exclusive) continue;
      memory.allocations.erase(memory.allocations.begin() + static_cast<long>(i));
      found = true;
      break;
    }
    if (!found)
      fail(Detector::kTensorMemory, format("%d columns at 0x%x were not allocated so", columns, address), place);
  }
  leave_pair();
}

void tensor_read(uint32_t* values, int columns, uint32_t address, Place place) {
  pair_of(block(), place);
  meet("tcgen05.ld", kFullMask, nullptr, place, [](void**) {});
  Lane& lane = world().lane();
  Warp& warp = *lane.warp;
  TensorMemory& memory = tensor_memory(block());
  const uint32_t first_lane = address >> 16, column = address & 0xffffu;
  if (first_lane != static_cast<uint32_t>(warp.index % 4 * 32)) {
    fail(Detector::kTensorMemory,
         format("warp %d reaches the lanes from %d, not from %u", warp.index, warp.index % 4 * 32, first_lane), place);
  }
  memory.check(column, columns, place);
  const Access access{warp.tensor_agent, warp.tensor_tick, &warp.tensor_known, false, place};
  const int quarter = warp.index % 4;
  if (lane.index == 0)
    memory.shadow.read(TensorMemory::place_of(quarter, static_cast<int>(column)), static_cast<uint32_t>(columns) * 4,
                       access);
  TensorMemory::PendingRead pending{values, {}, column};
  for (int i = 0; i < columns; ++i) {
    pending.values.push_back(memory.at(quarter * 32 + lane.index, static_cast<int>(column) + i));
    values[i] = 0x7fc0beef;  // until the wait
  }
  memory.reads[&lane].push_back(std::move(pending));
  world().point();
}

void tensor_read_wait(Place place) {
  meet("tcgen05.wait::ld", kFullMask, nullptr, place, [](void**) {});
  Lane& lane = world().lane();
  Warp& warp = *lane.warp;
  TensorMemory& memory = tensor_memory(block());
  auto& reads = memory.reads[&lane];
  for (auto& read : reads) {
    for (size_t i = 0; i < read.values.size(); ++i) read.target[i] = read.values[i];
    // The columns are in use until now.
    const Access access{warp.tensor_agent, warp.tensor_tick, &warp.tensor_known, false, place};
    if (lane.index == 0) {
      memory.shadow.read(TensorMemory::place_of(warp.index % 4, static_cast<int>(read.column)),
                         static_cast<uint32_t>(read.values.size()) * 4, access);
    }
  }
  reads.clear();
}

void tensor_fence_before(Place) {
  Warp& warp = *world().lane().warp;
  warp.known.order.set(warp.tensor_agent, warp.tensor_tick);
  ++warp.tensor_tick;
  warp.snapshot.reset();
}

void tensor_fence_after(Place) {
  Warp& warp = *world().lane().warp;
  warp.tensor_known.join(warp.known);
}

}  // namespace tilewright::emulator
