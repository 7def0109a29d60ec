// Barriers of all or some threads of a block, barriers of a cluster, and the end of a thread.
#include "primitives.h"
#include "tensor_memory.h"
#include "world.h"

namespace tilewright::emulator {

namespace {

void release(NamedBarrier& barrier, World& all) {
  const Knowledge gathered = barrier.gathering;
  std::vector<Lane*> waiters;
  waiters.swap(barrier.waiters);
  barrier.arrived = barrier.expected = 0;
  barrier.gathering.clear();
  Warp* last = nullptr;
  for (Lane* lane : waiters) {
    if (lane->warp != last) learn(*(last = lane->warp), gathered);
    all.wake(*lane);
  }
}

void finish_cluster_phase(Cluster& cluster) {
  if (cluster.live == 0 || cluster.arrived < cluster.live) return;
  cluster.arrived = 0;
  ++cluster.phase;
  cluster.complete = cluster.gathering;
  for (Lane* lane : cluster.waiters) world().wake(*lane);
  cluster.waiters.clear();
}

}  // namespace

void block_barrier(int id, int threads, bool waits, Place place) {
  Block& own = block();
  Lane& lane = world().lane();
  if (id < 0 || id > 15) fail(Detector::kBarrier, format("there is no barrier %d", id), place);
  NamedBarrier& barrier = own.named[id];
  const int expected = threads == 0 ? own.live : threads;
  if (threads % 32 != 0 || (threads == 0 && !waits))
    fail(Detector::kBarrier, format("a barrier of %d threads", threads), place);
  if (barrier.arrived == 0) barrier.expected = expected;
  if (barrier.expected != expected) {
    fail(Detector::kBarrier, format("barrier %d is used by %d threads and by %d", id, barrier.expected, expected),
         place);
  }
  Warp& warp = *lane.warp;
  barrier.gathering.join(warp.known);
  advance(warp);
  ++barrier.arrived;
  if (barrier.arrived < barrier.expected) {
    if (waits) {
      barrier.waiters.push_back(&lane);
      world().wait({"waits at barrier", place, nullptr, 0, id, barrier.expected});
    }
    return;
  }
  if (waits) learn(warp, barrier.gathering);
  release(barrier, world());
  world().point();
}

namespace {

void arrive_at_cluster(const Knowledge& told, Place place) {
  Lane& lane = world().lane();
  Cluster& cluster = *block().cluster;
  if (lane.cluster_arrived)
    fail(Detector::kBarrier, "a thread arrives at the cluster's barrier twice without waiting", place);
  lane.cluster_arrived = true;
  lane.cluster_phase = cluster.phase;
  cluster.gathering.join(told);
  advance(*lane.warp);
  ++cluster.arrived;
  finish_cluster_phase(cluster);
  world().point();
}

}  // namespace

void cluster_arrive(Place place) { arrive_at_cluster(world().lane().warp->known, place); }
void cluster_arrive_relaxed(Place place) { arrive_at_cluster(world().lane().warp->shown, place); }

void cluster_wait(Place place) {
  Lane& lane = world().lane();
  Cluster& cluster = *block().cluster;
  if (!lane.cluster_arrived)
    fail(Detector::kBarrier, "a thread waits at the cluster's barrier without having arrived", place);
  if (cluster.phase == lane.cluster_phase) {
    cluster.waiters.push_back(&lane);
    world().wait({"waits for the cluster", place, nullptr, 0, 0, 0});
  }
  lane.cluster_arrived = false;
  learn(*lane.warp, cluster.complete);
  // Barriers whose makers are known by now count as shown to the cluster.
}

uint32_t cluster_rank() { return static_cast<uint32_t>(block().rank); }
uint32_t cluster_size() { return static_cast<uint32_t>(block().cluster->blocks.size()); }

void World::finish_lane() {
  Lane& lane = *current_;
  Warp& warp = *lane.warp;
  Block& own = *warp.block;
  if (warp.meeting.arrived != 0) {
    fail(Detector::kWarp, format("a lane ends while others of its warp wait at %s", warp.meeting.name),
         warp.meeting.place);
  }
  if (!lane.registers.empty() && !warp.wgmma.waiting.empty()) {
    fail(Detector::kRegisters, "a thread ends while its wgmma runs", {});
  }
  for (const auto& group : lane.stores) {
    // Bulk stores that have been issued finish by themselves, but read shared memory of the block while they do.
    if (!group->done()) {
      fail(Detector::kExited, "a thread ends while bulk stores read its block's shared memory",
           group->operations[group->first]->place);
    }
  }
  lane.state = Lane::State::kDone;
  --warp.ready;
  ++warp.done;
  --own.live;
  Cluster& cluster = *own.cluster;
  if (lane.cluster_arrived && cluster.phase == lane.cluster_phase) --cluster.arrived;
  --cluster.live;
  if (own.live == 0) {
    for (const Warp& other : own.warps) {
      for (const Lane& copier : other.lanes) {
        for (const auto& group : copier.copies) {
          if (!group->done()) {
            fail(Detector::kExited, "the block ends while cp.async copies to it are on their way",
                 group->operations[group->first]->place);
          }
        }
      }
    }
    for (auto& [offset, barrier] : own.barriers) {
      if (barrier->on_the_way != 0 || barrier->arrivals_on_the_way != 0) {
        fail(Detector::kExited,
             format("the block ends while copies or arrivals to it are on their way (barrier 0x%x)", offset), {});
      }
    }
  }
  for (NamedBarrier& barrier : own.named) {
    if (&barrier == &own.named[0] && barrier.arrived > 0 && barrier.expected == own.live + 1) {
      barrier.expected = own.live;
      if (barrier.arrived >= barrier.expected) release(barrier, *this);
    }
  }
  finish_cluster_phase(cluster);
  FiberPoint unused;
  switch_fiber(&unused, scheduler_);
}

}  // namespace tilewright::emulator
