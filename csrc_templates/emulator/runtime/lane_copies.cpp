// Copies that a lane starts: cp.async, st.async, and the groups they complete by.
#include <algorithm>
#include <cstring>

#include "barriers.h"
#include "global_memory.h"
#include "primitives.h"

namespace tilewright::emulator {

namespace {

// Bytes from device memory, read when the copy runs, then zeros.
class LaneCopy : public Operation {
 public:
  LaneCopy(Lane& lane, uint32_t offset, const void* source, uint32_t bytes, uint32_t valid, Tick tick, Place place)
      : Operation(lane.warp->block->cluster, place),
        lane_(lane),
        offset_(offset),
        source_(source),
        bytes_(bytes),
        valid_(valid),
        tick_(tick) {
    ++cluster->in_flight;
  }
  void run() override {
    Block& home = *lane_.warp->block;
    uint8_t* target = home.shared + offset_;
    std::memset(target, 0, bytes_);
    if (valid_ > 0) std::memcpy(target, source_, valid_);
    home.shadow.land(offset_, bytes_, lane_.warp->copy_agent, tick_, false, place);
  }
  const char* name() const override { return "cp.async"; }

 private:
  Lane& lane_;
  uint32_t offset_;
  const void* source_;
  uint32_t bytes_, valid_;
  Tick tick_;
};

// Arrives at a barrier once the copies before it have landed.
class CopiesArrival : public Operation {
 public:
  CopiesArrival(Lane& lane, Barrier& barrier, Place place)
      : Operation(lane.warp->block->cluster, place), lane_(lane), barrier_(barrier), known_(lane.warp->known) {
    tick_ = lane.copies_gone;
    for (const auto& group : lane.copies) {
      copies_.push_back({group, group->operations.size()});
      tick_ = std::max(tick_, group->tick);
    }
  }
  void run() override {
    for (auto& [group, count] : copies_) group->finish(count);
    known_.order.set(lane_.warp->copy_agent, std::max(known_.order.at(lane_.warp->copy_agent), tick_));
    --barrier_.on_the_way;
    arrive(barrier_, 1, known_, place);
  }
  const char* name() const override { return "arrival of cp.async copies"; }

 private:
  Lane& lane_;
  Barrier& barrier_;
  Knowledge known_;
  Tick tick_;
  std::vector<std::pair<std::shared_ptr<CopyGroup>, size_t>> copies_;
};

// Bytes for another block's shared memory, counted at a barrier beside them.
class RemoteStore : public Operation {
 public:
  RemoteStore(Warp& warp, SharedPlace target, Barrier& barrier, const void* value, uint32_t bytes, Place place)
      : Operation(warp.block->cluster, place),
        target_(target),
        barrier_(barrier),
        bytes_(bytes),
        known_(snapshot(warp)) {
    std::memcpy(value_, value, bytes);
  }
  void run() override {
    std::memcpy(target_.block->shared + target_.offset, value_, bytes_);
    const Tick tick = land_at(barrier_);
    target_.block->shadow.land(target_.offset, bytes_, barrier_.agent, tick, true, place);
    barrier_.gathering.join(*known_);
    complete_bytes(barrier_, bytes_, place);
  }
  const char* name() const override { return "st.async"; }

 private:
  SharedPlace target_;
  Barrier& barrier_;
  uint32_t bytes_;
  uint8_t value_[16];
  Snapshot known_;
};

}  // namespace

void copy_async(uint32_t destination, const void* source, uint32_t bytes, uint32_t valid, Place place) {
  const SharedPlace at = locate(block(), destination, bytes, bytes, place);
  if (valid > bytes)
    fail(Detector::kAlignment, format("cp.async of %u bytes with %u from memory", bytes, valid), place);
  if (valid > 0) {
    if (reinterpret_cast<uintptr_t>(source) % bytes != 0) {
      fail(Detector::kAlignment, format("cp.async of %u bytes from %p", bytes, source), place);
    }
    global_memory().check_read(source, valid, place);
  }
  Lane& lane = world().lane();
  Warp& warp = *lane.warp;
  const Tick tick = ++warp.copy_tick;
  Access access = ordinary(place);
  access.agent = warp.copy_agent;
  access.tick = tick;
  at.block->shadow.launch(at.offset, bytes, access);
  CopyGroup& open = *lane.copies.back();
  open.operations.push_back(std::make_unique<LaneCopy>(lane, at.offset, source, bytes, valid, tick, place));
  open.tick = tick;
  world().list_copies(lane);
  world().point();
}

void copy_commit() { world().lane().copies.push_back(std::make_shared<CopyGroup>()); }

void copy_wait(int pending) {
  Lane& lane = world().lane();
  while (static_cast<int>(lane.copies.size()) - 1 > pending) {
    lane.copies.front()->finish(lane.copies.front()->operations.size());
    lane.copies_gone = std::max(lane.copies_gone, lane.copies.front()->tick);
    lane.copies.pop_front();
  }
  const Tick known = lane.copies_gone;
  Warp& warp = *lane.warp;
  if (known > warp.known.order.at(warp.copy_agent)) {
    warp.known.order.set(warp.copy_agent, known);
    warp.snapshot.reset();
  }
  world().point();
}

void copy_arrive(uint32_t address, bool counted, Place place) {
  Barrier& barrier = barrier_at(address, place);
  Lane& lane = world().lane();
  ++barrier.on_the_way;
  if (!counted) ++barrier.pending;  // taken back by the arrival
  world().start(std::make_unique<CopiesArrival>(lane, barrier, place));
  advance(*lane.warp);
  world().point();
}

void store_async(uint32_t address, uint32_t barrier_address, const void* value, uint32_t bytes, Place place) {
  Warp& warp = *world().lane().warp;
  const SharedPlace target = locate(block(), address, bytes, bytes, place);
  const SharedPlace barrier_place = locate(block(), barrier_address, 8, 8, place);
  if (barrier_place.block != target.block)
    fail(Detector::kBarrier, "st.async counts at a barrier of another block", place);
  Barrier& barrier = barrier_at(barrier_address, place);
  expect_operation(barrier, place);
  target.block->shadow.launch(target.offset, bytes, asynchronous(warp.store_agent, ++warp.store_tick, place));
  world().start(std::make_unique<RemoteStore>(warp, target, barrier, value, bytes, place));
  advance(warp);
  world().point();
}

}  // namespace tilewright::emulator
