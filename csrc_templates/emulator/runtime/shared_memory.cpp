// Shared memory through 32-bit addresses, dynamic and static arrays, clusters' windows, dependent launches.
#include <cstring>

#include "primitives.h"
#include "world.h"

namespace tilewright::emulator {

uint32_t shared_address(const void* pointer, Place place) {
  Block& own = block();
  const auto offset = static_cast<size_t>(static_cast<const uint8_t*>(pointer) - own.shared);
  if (offset >= kSharedStride)
    fail(Detector::kBounds, "the address of something that is not in the block's shared memory", place);
  return static_cast<uint32_t>(offset);
}

// Static arrays lie below the dynamic window, in the order in which they are met.
void* static_shared(const void* key, uint32_t bytes, uint32_t alignment) {
  Block& own = block();
  const auto found = own.statics.find(key);
  if (found != own.statics.end()) return own.shared + found->second;
  const uint32_t at = (own.static_end + alignment - 1) / alignment * alignment;
  if (at + bytes > 1024 + 4096) fail(Detector::kUnsupported, "more than 4096 bytes of static shared memory", {});
  own.static_end = at + bytes;
  own.statics[key] = at;
  return own.shared + at;
}

// The dynamic window starts no better aligned than it is declared.
void* dynamic_shared(uint32_t alignment) {
  Block& own = block();
  if (own.dynamic_offset == 0) {
    if (alignment < 16) alignment = 16;
    uint32_t at = (1024 + 4096 + alignment - 1) / alignment * alignment;
    if (alignment < 1024) at += alignment * static_cast<uint32_t>(world().seed % (1024 / alignment));
    own.dynamic_offset = at;
    own.shared_bytes = at + world().launch().shared_bytes;
    // Clusters see their peers' windows at the same offsets.
    for (auto& peer : own.cluster->blocks) {
      peer->dynamic_offset = at;
      peer->shared_bytes = own.shared_bytes;
    }
  }
  return own.shared + own.dynamic_offset;
}

void shared_load(uint32_t address, void* value, uint32_t bytes, uint32_t alignment, Place place) {
  const SharedPlace at = locate(block(), address, bytes, alignment, place);
  at.block->shadow.read(at.offset, bytes, ordinary(place));
  std::memcpy(value, at.block->shared + at.offset, bytes);
}

void shared_store(uint32_t address, const void* value, uint32_t bytes, uint32_t alignment, Place place) {
  const SharedPlace at = locate(block(), address, bytes, alignment, place);
  at.block->shadow.write(at.offset, bytes, ordinary(place));
  std::memcpy(at.block->shared + at.offset, value, bytes);
}

uint32_t map_shared(uint32_t address, uint32_t rank, Place place) {
  if (rank >= block().cluster->blocks.size())
    fail(Detector::kBounds, format("mapa to rank %u of a cluster of %zu", rank, block().cluster->blocks.size()), place);
  return (address & 0xffffffu) | (rank + 1) << 24;
}

void wait_for_dependencies(Place) { world().lane().dependencies_met = true; }
void release_dependents() {}

void trap(const char* what, Place place) { fail(Detector::kTrap, what, place); }

}  // namespace tilewright::emulator
