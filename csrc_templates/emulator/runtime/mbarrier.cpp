// mbarriers: arrivals, bytes, phases, and their misuse.
#include "barriers.h"
#include "primitives.h"

namespace tilewright::emulator {

Barrier& barrier_in(Block& block, uint32_t offset, Place place) {
  const auto found = block.barriers.find(offset);
  if (found == block.barriers.end()) {
    fail(Detector::kBarrier,
         format("no barrier has been initialised at shared offset 0x%x of rank %d", offset, block.rank), place);
  }
  return *found->second;
}

Barrier& barrier_at(uint32_t address, Place place) {
  const SharedPlace at = locate(block(), address, 8, 8, place);
  Barrier& barrier = barrier_in(*at.block, at.offset, place);
  Warp& warp = *world().lane().warp;
  if (barrier.maker != &warp && warp.known.order.at(barrier.maker->agent) < barrier.tick) {
    fail(Detector::kBarrier,
         format("barrier 0x%x of rank %d is used without being ordered after its initialisation by warp %d", at.offset,
                at.block->rank, barrier.maker->index),
         place);
  }
  return barrier;
}

namespace {

void finish_phase(Barrier& barrier, Place place) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  if (barrier.on_the_way != 0) {
    fail(Detector::kBarrier,
         format("phase %lu of barrier 0x%x of rank %d ends while %d copies that count at it are on their way: "
                "it was told of too few bytes",
                barrier.phase, barrier.offset, barrier.block->rank, barrier.on_the_way),
         place);
  }
  if (barrier.unseen != 0) {
    fail(Detector::kBarrier,
         format("phase %lu of barrier 0x%x of rank %d ends before %d threads have seen the end of the phase "
                "before: they may miss it",
                barrier.phase, barrier.offset, barrier.block->rank, barrier.unseen),
         place);
  }
  ++barrier.phase;
  barrier.pending = barrier.expected;
  barrier.complete = barrier.gathering;
  for (Lane* lane : barrier.waiters) {
    lane->resumed_by_barrier = true;
    ++barrier.unseen;
    world().wake(*lane);
  }
  barrier.waiters.clear();
}

bool passed(const Barrier& barrier, uint32_t parity) { return (barrier.phase & 1) != (parity & 1); }

}  // namespace

void arrive(Barrier& barrier, uint32_t count, const Knowledge& known, Place place) {
  if (barrier.pending < count) {
    fail(Detector::kBarrier,
         format("barrier 0x%x of rank %d counts %u arrivals a phase; this is one more", barrier.offset,
                barrier.block->rank, barrier.expected),
         place);
  }
  barrier.pending -= count;
  barrier.gathering.join(known);
  finish_phase(barrier, place);
}

void expect_bytes(Barrier& barrier, int64_t bytes) { barrier.bytes += bytes; }

Tick land_at(Barrier& barrier) {
  const Tick tick = barrier.gathering.order.at(barrier.agent) + 1;
  barrier.gathering.order.set(barrier.agent, tick);
  return tick;
}

void complete_bytes(Barrier& barrier, int64_t bytes, Place place) {
  --barrier.on_the_way;
  barrier.bytes -= bytes;
  if (barrier.bytes < 0 && barrier.pending == 0) {
    fail(Detector::kBarrier,
         format("%ld more bytes arrive at barrier 0x%x of rank %d than its phase %lu was told of",
                static_cast<long>(-barrier.bytes), barrier.offset, barrier.block->rank, barrier.phase),
         place);
  }
  finish_phase(barrier, place);
}

void expect_operation(Barrier& barrier, Place place) {
  if (!barrier.fenced) {
    fail(Detector::kProxyFence,
         format("barrier 0x%x of rank %d is used by the asynchronous proxy, but no fence followed its "
                "initialisation",
                barrier.offset, barrier.block->rank),
         place);
  }
  ++barrier.on_the_way;
}

void mbarrier_init(uint32_t address, uint32_t count, Place place) {
  const SharedPlace at = locate(block(), address, 8, 8, place);
  if (at.block != &block()) fail(Detector::kBarrier, "a barrier of another block cannot be initialised", place);
  if (count == 0 || count >= 1u << 20)
    fail(Detector::kBarrier, format("a barrier cannot count %u arrivals", count), place);
  if (at.block->barriers.count(at.offset) != 0) {
    fail(Detector::kBarrier, format("the barrier at 0x%x is initialised a second time", at.offset), place);
  }
  Warp& warp = *world().lane().warp;
  at.block->shadow.write(at.offset, 8, ordinary(place));
  at.block->shadow.set_barrier(at.offset, true);
  auto barrier = std::make_unique<Barrier>();
  barrier->block = at.block;
  barrier->offset = at.offset;
  barrier->expected = count;
  barrier->pending = count;
  barrier->maker = &warp;
  barrier->agent =
      at.block->cluster->new_agent(format("a copy that arrived at barrier 0x%x of rank %d", at.offset, at.block->rank));
  barrier->tick = warp.tick;
  at.block->barriers[at.offset] = std::move(barrier);
  world().point();
}

void mbarrier_invalidate(uint32_t address, Place place) {
  Barrier& barrier = barrier_at(address, place);
  if (!barrier.waiters.empty() || barrier.on_the_way != 0) {
    fail(Detector::kBarrier, format("barrier 0x%x is invalidated while in use", barrier.offset), place);
  }
  Block& home = *barrier.block;
  const uint32_t offset = barrier.offset;
  home.shadow.set_barrier(offset, false);
  home.barriers.erase(offset);
}

void fence_barrier_init(Place) {
  Warp& warp = *world().lane().warp;
  for (auto& [offset, barrier] : block().barriers) {
    if (barrier->maker == &warp) barrier->fenced = true;
  }
  warp.shown = warp.known;
}

void mbarrier_arrive(uint32_t address, uint32_t count, Place place) {
  Barrier& barrier = barrier_at(address, place);
  Warp& warp = *world().lane().warp;
  arrive(barrier, count, warp.known, place);
  advance(warp);
  world().point();
}

void mbarrier_expect(uint32_t address, uint32_t bytes, Place place) {
  Barrier& barrier = barrier_at(address, place);
  if (barrier.pending == 0)
    fail(Detector::kBarrier, "bytes are announced to a phase that no longer waits for arrivals", place);
  expect_bytes(barrier, bytes);
  world().point();
}

void mbarrier_arrive_expect(uint32_t address, uint32_t bytes, Place place) {
  Barrier& barrier = barrier_at(address, place);
  if (bytes >= 1u << 20) fail(Detector::kBarrier, format("%u bytes are more than a barrier counts", bytes), place);
  Warp& warp = *world().lane().warp;
  if (barrier.pending == 0) fail(Detector::kBarrier, "one more arrival than the barrier counts", place);
  expect_bytes(barrier, bytes);
  arrive(barrier, 1, warp.known, place);
  advance(warp);
  world().point();
}

void mbarrier_wait(uint32_t address, uint32_t parity, Place place) {
  world().point();
  Barrier& barrier = barrier_at(address, place);
  if (barrier.block != &block()) fail(Detector::kBarrier, "a thread can wait at barriers of its own block only", place);
  Lane& lane = world().lane();
  if (!passed(barrier, parity)) {
    barrier.waiters.push_back(&lane);
    world().wait({"waits", place, &barrier, parity, 0, 0});
  }
  learn(*lane.warp, barrier.complete);
}

bool mbarrier_try_wait(uint32_t address, uint32_t parity, Place place) {
  Barrier& barrier = barrier_at(address, place);
  // A try may give up early; the caller tries again.
  if (!passed(barrier, parity) && world().random().below(4) == 0) {
    world().point();
    return false;
  }
  mbarrier_wait(address, parity, place);
  return true;
}

}  // namespace tilewright::emulator
