// The copy engine: bulk and tensor copies between device memory and shared memory.
#include <algorithm>
#include <cstring>

#include "barriers.h"
#include "global_memory.h"
#include "primitives.h"
#include "tensor_map.h"

namespace tilewright::emulator {

namespace {

struct Target {
  Block* block;
  uint32_t offset;
  Barrier* barrier;
};

// Bytes on their way into the shared memory of one or more blocks; each block's copy lands at its own time.
class Arrival : public Operation {
 public:
  Arrival(Warp& warp, Target target, std::shared_ptr<std::vector<uint8_t>> data, int pattern, bool tensor, Place place)
      : Operation(warp.block->cluster, place),
        target_(target),
        data_(std::move(data)),
        pattern_(pattern),
        tensor_(tensor) {}
  void run() override {
    Block& home = *target_.block;
    const auto bytes = static_cast<uint32_t>(data_->size());
    if (pattern_ == 0) {
      std::memcpy(home.shared + target_.offset, data_->data(), bytes);
    } else {
      for (uint32_t i = 0; i < bytes; i += 16) {
        std::memcpy(home.shared + swizzled(target_.offset + i, pattern_), data_->data() + i, 16);
      }
    }
    const Tick tick = land_at(*target_.barrier);
    home.shadow.land(target_.offset, bytes, target_.barrier->agent, tick, true, place);
    complete_bytes(*target_.barrier, bytes, place);
  }
  const char* name() const override { return tensor_ ? "tensor copy" : "bulk copy"; }

 private:
  Target target_;
  std::shared_ptr<std::vector<uint8_t>> data_;
  int pattern_;
  bool tensor_;
};

uint64_t box_bytes(const TensorMap& map) {
  uint64_t bytes = map.packed ? map.box[0] / 2 : static_cast<uint64_t>(map.box[0]) * map.element_bytes;
  for (int d = 1; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

// Calls visit(box byte, global address or null, bytes) for each row of the box; null where the row lies outside.
template <class Visit>
void for_each_row(const TensorMap& map, const TensorCoordinates& at, Visit visit) {
  const uint32_t row_elements = map.box[0];
  const int64_t row_bytes = map.packed ? row_elements / 2 : int64_t{row_elements} * map.element_bytes;
  const auto in_bytes = [&](int64_t elements) { return map.packed ? elements / 2 : elements * map.element_bytes; };
  uint64_t rows = 1;
  for (int d = 1; d < map.rank; ++d) rows *= map.box[d];
  for (uint64_t r = 0; r < rows; ++r) {
    uint64_t rest = r;
    bool inside = true;
    int64_t offset = 0;
    for (int d = 1; d < map.rank; ++d) {
      const int64_t place = at.at[d] + static_cast<int64_t>(rest % map.box[d]);
      rest /= map.box[d];
      inside = inside && place >= 0 && place < static_cast<int64_t>(map.sizes[d]);
      offset += place * static_cast<int64_t>(map.strides[d - 1]);
    }
    int64_t first = at.at[0], last = at.at[0] + static_cast<int64_t>(row_elements);
    const int64_t begin = std::max<int64_t>(first, 0), end = std::min<int64_t>(last, map.sizes[0]);
    const auto box_byte = static_cast<uint32_t>(r * static_cast<uint64_t>(row_bytes));
    if (!inside || begin >= end) {
      visit(box_byte, static_cast<uint8_t*>(nullptr), static_cast<uint32_t>(row_bytes));
      continue;
    }
    visit(static_cast<uint32_t>(box_byte + in_bytes(begin - first)), map.base + offset + in_bytes(begin),
          static_cast<uint32_t>(in_bytes(end - begin)));
  }
}

void launch_arrival(Target target, std::shared_ptr<std::vector<uint8_t>> data, int pattern, bool tensor, Place place) {
  Warp& warp = *world().lane().warp;
  expect_operation(*target.barrier, place);
  const auto bytes = static_cast<uint32_t>(data->size());
  if (target.offset + bytes > target.block->shared_bytes) {
    fail(Detector::kBounds,
         format("the copy's %u bytes at shared offset 0x%x run over the block's end", bytes, target.offset), place);
  }
  target.block->shadow.launch(target.offset, bytes, asynchronous(warp.store_agent, ++warp.store_tick, place));
  world().start(std::make_unique<Arrival>(warp, target, std::move(data), pattern, tensor, place));
}

// Stores from shared memory in a lane's bulk group.
class BulkStore : public Operation {
 public:
  BulkStore(Lane& lane, uint32_t source, uint8_t* target, uint32_t bytes, const TensorMap* map, TensorCoordinates at,
            Place place)
      : Operation(lane.warp->block->cluster, place),
        lane_(lane),
        source_(source),
        target_(target),
        bytes_(bytes),
        at_(at) {
    ++cluster->in_flight;
    if (map != nullptr) map_ = *map;
  }
  void run() override {
    const uint8_t* shared = lane_.warp->block->shared;
    if (target_ != nullptr) {
      global_memory().check_write(target_, bytes_, place);
      std::memcpy(target_, shared + source_, bytes_);
      return;
    }
    for_each_row(map_, at_, [&](uint32_t box_byte, uint8_t* row, uint32_t bytes) {
      if (row == nullptr) return;
      global_memory().check_write(row, bytes, place);
      for (uint32_t i = 0; i < bytes; ++i) row[i] = shared[swizzled(source_ + box_byte + i, map_.swizzle)];
    });
  }
  const char* name() const override { return "bulk store"; }

 private:
  Lane& lane_;
  uint32_t source_;
  uint8_t* target_;
  uint32_t bytes_;
  TensorCoordinates at_;
  TensorMap map_{};
};

void start_store(uint32_t source, uint8_t* target, uint32_t bytes, const TensorMap* map, TensorCoordinates at,
                 Place place) {
  Lane& lane = world().lane();
  Warp& warp = *lane.warp;
  const SharedPlace from = locate(block(), source, bytes, map != nullptr ? 128 : 16, place);
  if (from.block != &block()) fail(Detector::kBounds, "a bulk store reads the block's own shared memory only", place);
  const Tick tick = ++warp.store_tick;
  from.block->shadow.read(from.offset, bytes, asynchronous(warp.store_agent, tick, place));
  CopyGroup& open = *lane.stores.back();
  open.operations.push_back(std::make_unique<BulkStore>(lane, from.offset, target, bytes, map, at, place));
  open.tick = tick;
  world().list_copies(lane);
  world().point();
}

}  // namespace

void fence_proxy_async(Place) {
  Warp& warp = *world().lane().warp;
  warp.known.proxy.join(warp.known.order);
  advance(warp);
  for (auto& [offset, barrier] : block().barriers) {
    if (warp.known.order.at(barrier->maker->agent) >= barrier->tick) barrier->fenced = true;
  }
}

void bulk_load(uint32_t destination, const void* source, uint32_t bytes, uint32_t barrier_address, Place place) {
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(source) % 16 != 0) {
    fail(Detector::kAlignment, format("bulk copy of %u bytes from %p", bytes, source), place);
  }
  if (bytes == 0) return;
  const SharedPlace at = locate(block(), destination, bytes, 16, place);
  Barrier& barrier = barrier_at(barrier_address, place);
  if (barrier.block != at.block) fail(Detector::kBarrier, "a bulk copy counts at a barrier of another block", place);
  global_memory().check_read(source, bytes, place);
  const auto* from = static_cast<const uint8_t*>(source);
  launch_arrival({at.block, at.offset, &barrier}, std::make_shared<std::vector<uint8_t>>(from, from + bytes), 0, false,
                 place);
  world().point();
}

void tensor_load(uint32_t destination, const void* pointer, uint32_t barrier_address, TensorCoordinates at, int rank,
                 uint32_t mask, bool pair, Place place) {
  const TensorMap& map = tensor_map_at(pointer, rank, place);
  const auto bytes = static_cast<uint32_t>(box_bytes(map));
  const SharedPlace target = locate(block(), destination, bytes, 128, place);
  const SharedPlace counted = locate(block(), barrier_address, 8, 8, place);
  if (map.swizzle != 0 &&
      box_bytes(map) / (map.rank > 1 ? bytes / (map.packed ? map.box[0] / 2 : map.box[0] * map.element_bytes) : 1) !=
          map.swizzle) {
    fail(Detector::kUnsupported, "rows of a box shorter than its swizzle are not modelled", place);
  }
  auto data = std::make_shared<std::vector<uint8_t>>(bytes, uint8_t{0});
  for_each_row(map, at, [&](uint32_t box_byte, uint8_t* row, uint32_t count) {
    if (row == nullptr) return;
    global_memory().check_read(row, count, place);
    std::memcpy(data->data() + box_byte, row, count);
  });
  Cluster& cluster = *block().cluster;
  const uint32_t all = mask == 0 ? 1u << target.block->rank : mask;
  if (all >> cluster.blocks.size() != 0)
    fail(Detector::kDescriptor, format("multicast mask 0x%x names blocks outside of the cluster", mask), place);
  for (size_t rank_of = 0; rank_of < cluster.blocks.size(); ++rank_of) {
    if (!(all >> rank_of & 1u)) continue;
    Block& home = *cluster.blocks[rank_of];
    if (home.live == 0) fail(Detector::kExited, format("a copy into rank %zu, which has ended", rank_of), place);
    Block& counter = pair ? *cluster.blocks[(rank_of & ~size_t{1}) | (static_cast<size_t>(counted.block->rank) & 1u)]
                     : mask == 0 ? *counted.block
                                 : home;
    if (!pair && &counter != &home)
      fail(Detector::kBarrier, "a tensor copy counts at a barrier of another block", place);
    if (pair && mask == 0 && &counter != counted.block) {
      fail(Detector::kBarrier, "a tensor copy counts at a barrier outside of its pair", place);
    }
    launch_arrival({&home, target.offset, &barrier_in(counter, counted.offset, place)}, data, map.swizzle, true, place);
  }
  world().point();
}

void tensor_store(const void* pointer, uint32_t source, TensorCoordinates at, int rank, Place place) {
  const TensorMap& map = tensor_map_at(pointer, rank, place);
  start_store(source, nullptr, static_cast<uint32_t>(box_bytes(map)), &map, at, place);
}

void bulk_store(void* target, uint32_t source, uint32_t bytes, Place place) {
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(target) % 16 != 0) {
    fail(Detector::kAlignment, format("bulk store of %u bytes to %p", bytes, target), place);
  }
  start_store(source, static_cast<uint8_t*>(target), bytes, nullptr, {}, place);
}

void bulk_commit() { world().lane().stores.push_back(std::make_shared<CopyGroup>()); }

void bulk_wait(int pending, bool) {
  Lane& lane = world().lane();
  Tick known = 0;
  while (static_cast<int>(lane.stores.size()) - 1 > pending) {
    CopyGroup& group = *lane.stores.front();
    group.finish(group.operations.size());
    known = std::max(known, group.tick);
    lane.stores.pop_front();
  }
  Warp& warp = *lane.warp;
  if (known > warp.known.order.at(warp.store_agent)) {
    warp.known.order.set(warp.store_agent, known);
    warp.snapshot.reset();
  }
  world().point();
}

void tensor_prefetch(const void* pointer, TensorCoordinates at, int rank, Place place) {
  const TensorMap& map = tensor_map_at(pointer, rank, place);
  (void)map;
  (void)at;
}

void map_prefetch(const void* pointer, Place place) {
  if (reinterpret_cast<uintptr_t>(pointer) % 64 != 0)
    fail(Detector::kAlignment, "a tensor map is not on 64 bytes", place);
}

}  // namespace tilewright::emulator
