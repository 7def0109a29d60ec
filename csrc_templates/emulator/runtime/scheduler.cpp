// Which fiber or operation goes next: every choice comes from the seed.
#include <algorithm>
#include <map>

#include "global_memory.h"
#include "tensor_memory.h"
#include "world.h"

namespace tilewright::emulator {

namespace {

struct Stopped {};  // unwinds the scheduler after a finding

void lane_entry(void* argument) {
  (void)argument;
  world().launch().body();
  world().finish_lane();
}

}  // namespace

void World::stop() {
  failed_ = true;
  if (current_ != nullptr) {
    FiberPoint unused;
    current_ = nullptr;
    switch_fiber(&unused, scheduler_);
  }
  throw Stopped{};
}

void World::choose_policy() {
  random_ = Random(seed * 0x9e3779b97f4a7c15u + 1);
  constexpr uint32_t kPercents[] = {95, 60, 25, 5, 0};
  constexpr uint32_t kPreempt[] = {0, 0, 64, 8};
  policy_.async_percent = kPercents[random_.below(5)];
  policy_.async_order = static_cast<int>(random_.below(3));
  policy_.warp_order = static_cast<int>(random_.below(3));
  policy_.preempt_one_in = kPreempt[random_.below(4)];
  policy_.lane_order = static_cast<int>(random_.below(3));
}

bool World::run(const Launch& launch) {
  launch_ = &launch;
  failed_ = false;
  steps = 0;
  choose_policy();
  const int threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  const int64_t blocks = int64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  total_clusters_ = blocks / launch.cluster;
  next_cluster_ = 0;
  const int resident =
      std::max(1, std::min<int>(device.resident_clusters, kSharedSlots / static_cast<int>(launch.cluster)));
  free_slots_.clear();
  for (int slot = resident; slot-- > 0;) free_slots_.push_back(slot);
  stacks_.reserve(static_cast<size_t>(resident) * launch.cluster * threads);
  try {
    start_clusters();
    while (step()) {
      if (failed_) break;
    }
  } catch (const Stopped&) {
  }
  current_ = nullptr;
  operation_ = nullptr;
  operations_.clear();
  queues_.clear();
  copying_.clear();
  ready_.clear();
  clusters_.clear();
  cluster_ = nullptr;
  launch_ = nullptr;
  return !failed_;
}

void World::start_clusters() {
  while (!free_slots_.empty() && next_cluster_ < total_clusters_) {
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    start_cluster(next_cluster_++, slot);
  }
}

void World::start_cluster(int64_t index, int slot) {
  const Launch& launch = *launch_;
  auto cluster = std::make_unique<Cluster>();
  cluster->index = index;
  cluster->new_agent("nobody");
  const int threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  const int warps = (threads + 31) / 32;
  for (unsigned rank = 0; rank < launch.cluster; ++rank) {
    auto block = std::make_unique<Block>();
    block->cluster = cluster.get();
    block->rank = static_cast<int>(rank);
    block->slot = slot * static_cast<int>(launch.cluster) + static_cast<int>(rank);
    const int64_t linear = index * launch.cluster + rank;
    block->index = {static_cast<unsigned>(linear % launch.grid.x),
                    static_cast<unsigned>(linear / launch.grid.x % launch.grid.y),
                    static_cast<unsigned>(linear / launch.grid.x / launch.grid.y)};
    block->shared = shared_arena() + block->slot * kSharedStride;
    block->static_end = 1024;  // the system keeps the first KiB
    block->dynamic_offset = 0;
    block->shared_bytes = 1024 + 4096 + launch.shared_bytes + 1024;
    block->shadow.reset(block->shared_bytes);
    auto* words = reinterpret_cast<uint64_t*>(block->shared);
    for (uint32_t i = 0; i < block->shared_bytes / 8; ++i) words[i] = random_.next();
    block->live = threads;
    block->register_pool = 65536 / std::max(1, device.occupancy);
    block->warps = std::vector<Warp>(warps);
    const int entry_registers = std::min(255, block->register_pool / (warps * 32)) / 8 * 8;
    for (int w = 0; w < warps; ++w) {
      Warp& warp = block->warps[w];
      warp.block = block.get();
      warp.index = w;
      const std::string name = format("block %u (rank %u) warp %d", block->index.x, rank, w);
      warp.agent = cluster->new_agent(name);
      warp.copy_agent = cluster->new_agent("cp.async of " + name);
      warp.store_agent = cluster->new_agent("copy engine for " + name);
      warp.tensor_agent = cluster->new_agent("tcgen05.ld of " + name);
      warp.wgmma.agent = cluster->new_agent("wgmma of " + name);
      warp.known.order.set(warp.agent, warp.tick);
      warp.priority = random_.below(1000);
      warp.registers = entry_registers;
      warp.lanes = std::vector<Lane>(std::min(32, threads - 32 * w));
      for (size_t l = 0; l < warp.lanes.size(); ++l) {
        Lane& lane = warp.lanes[l];
        lane.warp = &warp;
        lane.index = static_cast<int>(l);
        lane.thread = 32 * w + lane.index;
        const auto t = static_cast<unsigned>(lane.thread);
        lane.thread_index = {t % launch.block.x, t / launch.block.x % launch.block.y,
                             t / launch.block.x / launch.block.y};
        void* stack = stacks_.stack(static_cast<size_t>(block->slot) * threads + lane.thread);
        lane.stack = stack;
        lane.point = make_fiber(stack, StackPool::kStackBytes, &lane_entry, nullptr);
        lane.copies.push_back(std::make_shared<CopyGroup>());
        lane.stores.push_back(std::make_shared<CopyGroup>());
      }
      warp.ready = static_cast<int>(warp.lanes.size());
      warp.listed = true;
      ready_.push_back(&warp);
    }
    cluster->live += threads;
    cluster->blocks.push_back(std::move(block));
  }
  for (auto& block : cluster->blocks) begin_tensor_memory(*block);
  clusters_.push_back(std::move(cluster));
}

bool World::step() {
  if (++steps > step_limit) {
    cluster_ = clusters_.empty() ? nullptr : clusters_[0].get();
    fail(Detector::kDeadlock, "the launch does not come to an end");
  }
  const bool flying = !operations_.empty() || !queues_.empty() || !copying_.empty();
  if (ready_.empty() && !flying) {
    if (clusters_.empty()) return false;
    report_deadlock();
  }
  if (flying && (ready_.empty() || random_.below(100) < policy_.async_percent)) {
    run_operation();
  } else {
    run_warp(*choose_warp());
  }
  if (failed_) return false;
  for (size_t i = 0; i < clusters_.size(); ++i) {
    if (clusters_[i]->live == 0 && clusters_[i]->in_flight == 0) {
      retire_cluster(i);
      break;
    }
  }
  return true;
}

void World::retire_cluster(size_t place) {
  std::unique_ptr<Cluster> cluster = std::move(clusters_[place]);
  clusters_.erase(clusters_.begin() + static_cast<long>(place));
  cluster_ = cluster.get();
  for (auto& block : cluster->blocks) end_tensor_memory(*block);
  free_slots_.push_back(cluster->blocks[0]->slot / static_cast<int>(launch_->cluster));
  const auto belongs = [&](const Warp* warp) { return warp->block->cluster == cluster.get(); };
  ready_.erase(std::remove_if(ready_.begin(), ready_.end(), belongs), ready_.end());
  copying_.erase(
      std::remove_if(copying_.begin(), copying_.end(), [&](const Lane* lane) { return belongs(lane->warp); }),
      copying_.end());
  start_clusters();
}

Warp* World::choose_warp() {
  if (policy_.warp_order == 0) return ready_[random_.below(static_cast<uint32_t>(ready_.size()))];
  if (policy_.warp_order == 2) return ready_[steps % ready_.size()];
  if (random_.one_in(50)) ready_[random_.below(static_cast<uint32_t>(ready_.size()))]->priority = random_.below(1000);
  return *std::max_element(ready_.begin(), ready_.end(), [](Warp* a, Warp* b) { return a->priority < b->priority; });
}

void World::run_warp(Warp& warp) {
  slice_over_ = false;
  const int count = static_cast<int>(warp.lanes.size());
  int at = policy_.lane_order == 2 ? static_cast<int>(random_.below(static_cast<uint32_t>(count))) : 0;
  int idle = 0;
  while (warp.ready > 0 && idle < count && !slice_over_ && !failed_) {
    Lane& lane = warp.lanes[policy_.lane_order == 1 ? count - 1 - at : at];
    at = at + 1 == count ? 0 : at + 1;
    if (lane.state != Lane::State::kReady) {
      ++idle;
      continue;
    }
    idle = 0;
    resume(lane);
  }
  if (warp.ready == 0) {
    warp.listed = false;
    for (size_t i = 0; i < ready_.size(); ++i) {
      if (ready_[i] == &warp) {
        ready_[i] = ready_.back();
        ready_.pop_back();
        break;
      }
    }
  }
}

void World::resume(Lane& lane) {
  current_ = &lane;
  cluster_ = lane.warp->block->cluster;
  threadIdx = lane.thread_index;
  blockIdx = lane.warp->block->index;
  blockDim = launch_->block;
  gridDim = launch_->grid;
  if (lane.resumed_by_barrier) {
    lane.resumed_by_barrier = false;
    --lane.wait.barrier->unseen;
  }
  switch_fiber(&scheduler_, lane.point);
  current_ = nullptr;
}

void World::wait(const Wait& wait) {
  Lane& lane = *current_;
  lane.wait = wait;
  lane.state = Lane::State::kWaiting;
  --lane.warp->ready;
  switch_fiber(&lane.point, scheduler_);
}

void World::wake(Lane& lane) {
  if (lane.state != Lane::State::kWaiting) return;
  lane.state = Lane::State::kReady;
  ++lane.warp->ready;
  if (!lane.warp->listed) {
    lane.warp->listed = true;
    ready_.push_back(lane.warp);
  }
}

void World::point() {
  if (!random_.one_in(policy_.preempt_one_in)) return;
  slice_over_ = true;
  switch_fiber(&current_->point, scheduler_);
}

std::string describe_wait(const Lane& lane) {
  const Wait& wait = lane.wait;
  std::string text = wait.what;
  if (wait.barrier != nullptr) {
    const Barrier& barrier = *wait.barrier;
    text +=
        format(" on barrier 0x%x of rank %d, parity %u: in phase %lu, %ld of %u arrivals missing", barrier.offset,
               barrier.block->rank, wait.parity, barrier.phase, static_cast<long>(barrier.pending), barrier.expected);
    if (barrier.bytes != 0)
      text += format(", %ld bytes %s", static_cast<long>(std::abs(barrier.bytes)),
                     barrier.bytes > 0 ? "missing" : "too many");
  } else if (wait.count != 0) {
    text += format(" %d: %d of %d threads there", wait.id, lane.warp->block->named[wait.id & 15].arrived, wait.count);
  }
  if (wait.place.line != 0) text += " at " + describe(wait.place);
  return text;
}

void World::report_deadlock() {
  std::string text = "every thread waits and nothing is in flight:";
  for (auto& cluster : clusters_) {
    cluster_ = cluster.get();
    for (auto& block : cluster->blocks) {
      for (Warp& warp : block->warps) {
        std::map<std::string, int> waits;
        for (const Lane& lane : warp.lanes) {
          if (lane.state == Lane::State::kWaiting) ++waits[describe_wait(lane)];
        }
        for (const auto& [what, lanes] : waits) {
          text += format("\n  block %u (rank %d) warp %d, %d lanes: %s", block->index.x, block->rank, warp.index, lanes,
                         what.c_str());
        }
      }
    }
  }
  fail(Detector::kDeadlock, text);
}

}  // namespace tilewright::emulator
