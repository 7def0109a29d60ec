// Vector clocks: what an agent knows to have happened before.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tilewright::emulator {

using Tick = uint32_t;
using Agent = uint32_t;  // index into the clocks of a cluster

// A tick for each agent, 0 where nothing is known.
class Clock {
 public:
  Tick at(Agent agent) const { return agent < ticks_.size() ? ticks_[agent] : 0; }
  void set(Agent agent, Tick tick) {
    if (agent >= ticks_.size()) ticks_.resize(agent + 1, 0);
    ticks_[agent] = tick;
  }
  void join(const Clock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size(), 0);
    Tick* own = ticks_.data();
    const Tick* more = other.ticks_.data();
    for (size_t i = 0; i < other.ticks_.size(); ++i) own[i] = own[i] > more[i] ? own[i] : more[i];
  }
  void clear() { ticks_.clear(); }

 private:
  std::vector<Tick> ticks_;
};

// What is ordered before a point: for ordinary accesses, and, of ordinary writes, those the asynchronous proxy may see.
struct Knowledge {
  Clock order;
  Clock proxy;

  void join(const Knowledge& other) {
    order.join(other.order);
    proxy.join(other.proxy);
  }
  void clear() {
    order.clear();
    proxy.clear();
  }
};

using Snapshot = std::shared_ptr<const Knowledge>;

}  // namespace tilewright::emulator
