// Operations in flight: kept, chosen at random, run.
#include <algorithm>

#include "world.h"

namespace tilewright::emulator {

void World::start(std::unique_ptr<Operation> operation) {
  ++operation->cluster->in_flight;
  operations_.push_back(std::move(operation));
}

void World::start(Queue& queue, std::unique_ptr<Operation> operation) {
  ++operation->cluster->in_flight;
  ++queue.issued;
  queue.waiting.push_back(std::move(operation));
  if (!queue.listed) {
    queue.listed = true;
    queues_.push_back(&queue);
  }
}

void World::list_copies(Lane& lane) {
  if (lane.copies_listed) return;
  lane.copies_listed = true;
  copying_.push_back(&lane);
}

void World::perform(std::unique_ptr<Operation> operation) {
  Cluster* const before = cluster_;
  cluster_ = operation->cluster;
  operation_ = operation.get();
  operation->run();
  --operation->cluster->in_flight;
  operation_ = nullptr;
  if (before != nullptr) cluster_ = before;
}

void World::drain(Queue& queue, Tick until) {
  while (queue.done < until && !queue.waiting.empty()) {
    std::unique_ptr<Operation> operation = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.done;
    perform(std::move(operation));
  }
  if (queue.waiting.empty() && queue.listed) {
    queue.listed = false;
    queues_.erase(std::find(queues_.begin(), queues_.end(), &queue));
  }
}

void CopyGroup::run_one(size_t index) {
  if (std::unique_ptr<Operation> operation = std::move(operations[index])) world().perform(std::move(operation));
  while (first < operations.size() && !operations[first]) ++first;
}

void CopyGroup::finish(size_t count) {
  for (size_t i = first; i < count; ++i) run_one(i);
}

namespace {

// A few of the lane's copies: mostly the oldest group whole, sometimes a single copy of any group.
bool run_some(std::deque<std::shared_ptr<CopyGroup>>& groups, World& all) {
  for (auto& pointer : groups) {
    CopyGroup& group = *pointer;
    if (group.done()) continue;
    if (all.random().below(3) == 0) {
      group.run_one(group.first + all.random().below(static_cast<uint32_t>(group.operations.size() - group.first)));
    } else {
      group.finish(group.operations.size());
    }
    return true;
  }
  return false;
}

}  // namespace

void World::run_copies(Lane& lane) {
  if (!run_some(lane.copies, *this)) run_some(lane.stores, *this);
  while (lane.copies.size() > 1 && lane.copies.front()->done()) {
    lane.copies_gone = std::max(lane.copies_gone, lane.copies.front()->tick);
    lane.copies.pop_front();
  }
  for (const auto* groups : {&lane.copies, &lane.stores}) {
    for (const auto& group : *groups) {
      if (!group->done()) return;
    }
  }
  lane.copies_listed = false;
  copying_.erase(std::find(copying_.begin(), copying_.end(), &lane));
}

bool World::run_operation() {
  const uint32_t single = static_cast<uint32_t>(operations_.size());
  const uint32_t queued = static_cast<uint32_t>(queues_.size());
  const uint32_t copying = static_cast<uint32_t>(copying_.size());
  uint32_t pick = random_.below(single + queued + copying);
  if (pick < single) {
    if (policy_.async_order == 1) pick = 0;
    if (policy_.async_order == 2) pick = single - 1;
    std::unique_ptr<Operation> operation = std::move(operations_[pick]);
    operations_.erase(operations_.begin() + pick);
    perform(std::move(operation));
    return true;
  }
  pick -= single;
  if (pick < queued) {
    Queue& queue = *queues_[pick];
    drain(queue, queue.done + 1);
    return true;
  }
  run_copies(*copying_[pick - queued]);
  return true;
}

}  // namespace tilewright::emulator
