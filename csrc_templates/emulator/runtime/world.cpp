#include "world.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace tilewright::emulator {

World& world() {
  static World instance;
  return instance;
}

namespace {

uint8_t* arena = nullptr;

}  // namespace

uint8_t* shared_arena() {
  if (arena != nullptr) return arena;
  void* mapped = mmap(nullptr, kSharedStride * kSharedSlots, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) std::abort();
  return arena = static_cast<uint8_t*>(mapped);
}

void release_shared_arena() {
  if (arena != nullptr) munmap(arena, kSharedStride * kSharedSlots);
  arena = nullptr;
}

void World::close() {
  stacks_.release();
  release_shared_arena();
}

std::string World::name_of_agent(Agent agent) const {
  return cluster_ != nullptr && agent < cluster_->agents.size() ? cluster_->agents[agent] : "an unknown agent";
}

std::string World::name_of_lane(const Lane& lane) const {
  const Block& block = *lane.warp->block;
  return format("block %u (rank %d) warp %d lane %d", block.index.x, block.rank, lane.warp->index, lane.index);
}

void fail(Detector detector, std::string message, Place place, void* address) {
  World& all = world();
  Finding finding{detector, std::move(message), "", place, address};
  if (all.operation() != nullptr) {
    finding.agent = all.operation()->name();
    if (place.line == 0) finding.place = all.operation()->place;
  } else if (all.on_lane()) {
    finding.agent = all.name_of_lane(all.lane());
  }
  all.findings.push_back(std::move(finding));
  all.stop();
}

Access ordinary(Place place, void* address) {
  Warp& warp = *world().lane().warp;
  return {warp.agent, warp.tick, &warp.known, false, place, address};
}

Access asynchronous(Agent agent, Tick tick, Place place) {
  return {agent, tick, &world().lane().warp->known, true, place};
}

Snapshot snapshot(Warp& warp) {
  if (!warp.snapshot) warp.snapshot = std::make_shared<Knowledge>(warp.known);
  return warp.snapshot;
}

void advance(Warp& warp) {
  ++warp.tick;
  warp.known.order.set(warp.agent, warp.tick);
  warp.snapshot.reset();
}

void learn(Warp& warp, const Knowledge& knowledge) {
  warp.known.join(knowledge);
  warp.snapshot.reset();
}

SharedPlace locate(Block& from, uint32_t address, uint32_t bytes, uint32_t alignment, Place place) {
  const uint32_t window = address >> 24;
  uint32_t offset = address & 0xffffffu;
  Block* target = &from;
  if (window != 0) {
    if (window > from.cluster->blocks.size())
      fail(Detector::kBounds, format("0x%08x is no shared address of the cluster", address), place);
    target = from.cluster->blocks[window - 1].get();
    if (target != &from && target->live == 0) {
      fail(Detector::kExited, format("shared memory of rank %d is used after that block has ended", target->rank),
           place);
    }
  }
  if (offset % alignment != 0) {
    fail(Detector::kAlignment, format("shared address 0x%x is not on %u bytes", offset, alignment), place);
  }
  if (offset + bytes > target->shared_bytes || offset < 1024) {
    fail(Detector::kBounds,
         format("shared bytes 0x%x..0x%x lie outside of the block's 0x%x..0x%x", offset, offset + bytes - 1, 1024,
                target->shared_bytes - 1),
         place);
  }
  return {target, offset};
}

}  // namespace tilewright::emulator
