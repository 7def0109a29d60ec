// The emulated device during a launch: clusters of blocks of warps of lanes, each lane a fiber, and the operations in
// flight.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "clock.h"
#include "device.h"
#include "fiber.h"
#include "random.h"
#include "report.h"
#include "shadow.h"

namespace tilewright::emulator {

struct Block;
struct Cluster;
struct Lane;
struct Warp;

// An mbarrier. Its state is kept here; the bytes in shared memory are only marked.
struct Barrier {
  Block* block;
  uint32_t offset;
  uint32_t expected = 0;  // arrivals per phase
  int64_t pending = 0;    // arrivals the phase still waits for
  int64_t bytes = 0;      // bytes the phase still waits for; negative: arrived before they were announced
  uint64_t phase = 0;
  int on_the_way = 0;     // operations in flight that will count bytes here
  int arrivals_on_the_way = 0;  // of commits
  bool fenced = false;    // shown to the asynchronous proxy and to the cluster
  Agent agent = 0;
  Tick tick = 0;
  Warp* maker = nullptr;
  Knowledge gathering, complete;  // of this phase's arrivals, of the last complete phase's
  std::vector<Lane*> waiters;
  int unseen = 0;  // lanes let through by the last phase that have not run since
};

// What a lane waits for.
struct Wait {
  const char* what = "";
  Place place;
  Barrier* barrier = nullptr;
  uint32_t parity = 0;
  int id = 0, count = 0;
};

// Work that an engine does on its own.
class Operation {
 public:
  explicit Operation(Cluster* cluster, Place place) : cluster(cluster), place(place) {}
  virtual ~Operation() = default;
  virtual void run() = 0;
  virtual const char* name() const = 0;
  Cluster* cluster;
  Place place;
};

// Operations that run in the order they were issued in.
struct Queue {
  std::deque<std::unique_ptr<Operation>> waiting;
  Agent agent = 0;
  Tick issued = 0, done = 0;
  bool listed = false;
};

// Two regions of a lane's registers that an asynchronous multiplication uses.
struct RegisterUse {
  const char *begin, *end;
  bool writes;
  Tick tick;
};

// A group of a lane's asynchronous copies (cp.async) or of bulk stores. What has run is null.
struct CopyGroup {
  std::vector<std::unique_ptr<Operation>> operations;
  size_t first = 0;  // those before it have run
  Tick tick = 0;     // the highest of its operations

  // Runs those of the first `count` that have not run, in order.
  void finish(size_t count);
  void run_one(size_t index);
  bool done() const { return first == operations.size(); }
};

struct Lane {
  enum class State : uint8_t { kReady, kWaiting, kDone };
  FiberPoint point = nullptr;
  const void* stack = nullptr;  // its lowest byte
  Warp* warp = nullptr;
  int index = 0;   // in the warp
  int thread = 0;  // in the block
  uint3 thread_index{};
  State state = State::kReady;
  Wait wait;
  bool dependencies_met = false;
  bool resumed_by_barrier = false;
  uint64_t barrier_phase = 0;
  bool cluster_arrived = false;
  bool copies_listed = false;
  uint64_t cluster_phase = 0;
  std::deque<std::shared_ptr<CopyGroup>> copies;  // committed groups, oldest first; the last is open
  std::deque<std::shared_ptr<CopyGroup>> stores;
  Tick copies_gone = 0;  // the highest tick of groups that are complete and no longer listed
  std::vector<RegisterUse> registers;
};

// Lanes that meet at an instruction of the whole warp.
struct Meeting {
  const char* name = nullptr;
  uint32_t mask = 0, arrived = 0;
  Place place;
  void* slots[32];
  uint64_t generation = 0;
};

struct Warp {
  Block* block = nullptr;
  int index = 0;
  std::vector<Lane> lanes;
  int ready = 0, done = 0;
  bool listed = false;
  uint32_t priority = 0;
  Agent agent = 0, copy_agent = 0, store_agent = 0;
  Tick tick = 1, copy_tick = 0, store_tick = 0;
  Agent tensor_agent = 0;  // its accesses to tensor memory
  Tick tensor_tick = 1;
  Knowledge tensor_known;  // of tcgen05 work: what was known at its last tcgen05.fence::after_thread_sync
  Knowledge known;
  Knowledge shown;  // what was known at its last fence of initialised barriers
  std::shared_ptr<const Knowledge> snapshot;  // of `known`, until that changes
  Meeting meeting;
  Queue wgmma;
  Tick wgmma_known = 0;  // multiplications up to this one have been waited for
  std::vector<Tick> wgmma_groups;  // the last multiplication of each committed group that may still run
  bool wgmma_fenced = false;     // since its registers were last written
  int registers = 0;
};

// bar.sync and its kin.
struct NamedBarrier {
  int arrived = 0, expected = 0;
  std::vector<Lane*> waiters;
  Knowledge gathering;
};

struct TensorState;

struct Block {
  Cluster* cluster = nullptr;
  int rank = 0;
  int slot = 0;  // of the shared memory arena
  uint3 index{};
  uint8_t* shared = nullptr;
  uint32_t shared_bytes = 0, dynamic_offset = 0;
  Shadow shadow;
  std::vector<Warp> warps;
  int live = 0;  // lanes that have not ended
  std::unordered_map<uint32_t, std::unique_ptr<Barrier>> barriers;
  NamedBarrier named[16];
  std::unordered_map<const void*, uint32_t> statics;
  uint32_t static_end = 0;
  int register_pool = 0;
  std::shared_ptr<TensorState> tensor;
};

struct Cluster {
  int64_t index = 0;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::string> agents;  // names
  int live = 0;
  int arrived = 0;
  uint64_t phase = 0;
  Knowledge gathering, complete;
  std::vector<Lane*> waiters;
  int in_flight = 0;  // operations that concern its shared memory

  Agent new_agent(std::string name) {
    agents.push_back(std::move(name));
    return static_cast<Agent>(agents.size() - 1);
  }
};

class World {
 public:
  Device device;
  std::vector<Finding> findings;
  uint64_t seed = 0;
  uint64_t steps = 0;
  // Files of the kernels that may read shared memory which nobody wrote: they get random bytes and must not depend on
  // them.
  std::vector<std::string> may_read_anything;
  uint64_t step_limit = 200'000'000;

  void set_seed(uint64_t value) { seed = value; }
  // Runs a launch to its end; false when there is a finding.
  bool run(const Launch& launch);

  // For primitives, on a lane's fiber.
  Lane& lane() const { return *current_; }
  bool on_lane() const { return current_ != nullptr; }
  Random& random() { return random_; }
  void wait(const Wait& wait);  // returns when another part of the emulator has called wake
  void wake(Lane& lane);
  void point();  // a place where another warp may go first
  void finish_lane();

  void start(std::unique_ptr<Operation> operation);
  void start(Queue& queue, std::unique_ptr<Operation> operation);
  void drain(Queue& queue, Tick until);  // runs its operations up to and including `until`
  void perform(std::unique_ptr<Operation> operation);
  void list_copies(Lane& lane);  // the lane has copies in flight

  std::string name_of_agent(Agent agent) const;
  std::string name_of_lane(const Lane& lane) const;
  Cluster* cluster() const { return cluster_; }
  const Operation* operation() const { return operation_; }
  const Launch& launch() const { return *launch_; }
  [[noreturn]] void stop();  // after a finding
  void close();              // gives stacks and shared memory back

 private:
  void choose_policy();
  void start_clusters();
  void start_cluster(int64_t index, int slot);
  bool step();
  void run_warp(Warp& warp);
  void resume(Lane& lane);
  bool run_operation();
  void run_copies(Lane& lane);
  Warp* choose_warp();
  void retire_cluster(size_t place);
  void report_deadlock();
  void unlist(size_t place);

  const Launch* launch_ = nullptr;
  Policy policy_;
  Random random_;
  Lane* current_ = nullptr;
  Cluster* cluster_ = nullptr;
  const Operation* operation_ = nullptr;
  FiberPoint scheduler_ = nullptr;
  bool slice_over_ = false;
  bool failed_ = false;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<int> free_slots_;
  int64_t next_cluster_ = 0, total_clusters_ = 0;
  std::vector<Warp*> ready_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Queue*> queues_;
  std::vector<Lane*> copying_;
  StackPool stacks_;
};

World& world();

inline Block& block() { return *world().lane().warp->block; }

// An ordinary access of the running lane.
Access ordinary(Place place, void* address = nullptr);
// An access of the running lane's warp through the asynchronous proxy, as `agent` at `tick`.
Access asynchronous(Agent agent, Tick tick, Place place);
// What the running lane's warp knows now.
Snapshot snapshot(Warp& warp);
// The warp has told others what it knew: later accesses are not covered.
void advance(Warp& warp);
void learn(Warp& warp, const Knowledge& knowledge);

// Shared memory arena.
constexpr size_t kSharedStride = 512 * 1024;
uint8_t* shared_arena();
void release_shared_arena();
constexpr int kSharedSlots = 64;

// A shared address seen from `from`: the block it lies in and the offset there; ends the launch unless `bytes` fit.
struct SharedPlace {
  Block* block;
  uint32_t offset;
};
SharedPlace locate(Block& from, uint32_t address, uint32_t bytes, uint32_t alignment, Place place);

}  // namespace tilewright::emulator
