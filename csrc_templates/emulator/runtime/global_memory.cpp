#include "global_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "primitives.h"
#include "world.h"

namespace tilewright::emulator {

GlobalMemory& global_memory() {
  static GlobalMemory instance;
  return instance;
}

void GlobalMemory::map() {
  const auto anonymous = [] {
    void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    return static_cast<uint8_t*>(mapped);
  };
  base_ = anonymous();
  states_ = anonymous();
}

uint8_t* GlobalMemory::allocate(size_t bytes, const std::string& name, size_t alignment) {
  if (base_ == nullptr) map();
  // Beyond the alignment asked for, nothing about the address can be counted on.
  size_t at = (used_ + kRedzone + 2 * alignment - 1) / (2 * alignment) * (2 * alignment) + alignment;
  if (at + bytes + kRedzone > kBytes) return nullptr;
  used_ = at + bytes + kRedzone;
  regions_.push_back({base_ + at, bytes, name});
  std::memset(states_ + at, kAllocated | kWritable, bytes);
  std::memset(base_ + at, 0xab, bytes);
  return base_ + at;
}

void GlobalMemory::release_all() {
  if (base_ == nullptr) return;
  std::memset(states_, 0, used_);
  used_ = 0;
  regions_.clear();
}

void GlobalMemory::unmap() {
  if (base_ == nullptr) return;
  munmap(base_, kBytes);
  munmap(states_, kBytes);
  base_ = states_ = nullptr;
  used_ = 0;
  regions_.clear();
}

void GlobalMemory::mark(const void* begin, size_t bytes, uint8_t set, uint8_t clear) {
  uint8_t* state = states_ + (static_cast<const uint8_t*>(begin) - base_);
  for (size_t i = 0; i < bytes; ++i) state[i] = static_cast<uint8_t>((state[i] | set) & ~clear);
}

std::string GlobalMemory::name(const void* pointer) const {
  const auto* at = static_cast<const uint8_t*>(pointer);
  const Region* nearest = nullptr;
  for (const Region& region : regions_) {
    if (at >= region.begin - kRedzone && (nearest == nullptr || region.begin <= at)) nearest = &region;
  }
  if (nearest == nullptr) return "no allocation";
  const long offset = at - nearest->begin;
  return format("%s[byte %ld of %zu]", nearest->name.c_str(), offset, nearest->bytes);
}

void GlobalMemory::report(const void* pointer, size_t bytes, bool write, Place place, void* address) {
  const size_t first = static_cast<size_t>(static_cast<const uint8_t*>(pointer) - base_);
  const bool waited = !world().on_lane() || world().lane().dependencies_met || !world().launch().dependent;
  for (size_t i = 0; i < bytes; ++i) {
    const uint8_t state = first + i < kBytes ? states_[first + i] : 0;
    const uint8_t* at = base_ + first + i;
    if (!(state & kAllocated)) {
      fail(Detector::kBounds,
           format("%s of %zu bytes outside of %s", write ? "write" : "read", bytes, name(at).c_str()), place, address);
    }
    if (state & kPadding) {
      fail(Detector::kPadding, format("padding is %s: %s", write ? "written" : "read as data", name(at).c_str()), place,
           address);
    }
    if (write && !(state & kWritable)) {
      fail(Detector::kBounds, format("write to read-only %s", name(at).c_str()), place, address);
    }
    if (!write && !(state & kWritten)) {
      fail(Detector::kUninitialised, format("read of %s, which nobody wrote", name(at).c_str()), place, address);
    }
    if ((state & kDependent) && !waited) {
      fail(Detector::kDependency, format("%s is touched before griddepcontrol.wait", name(at).c_str()), place, address);
    }
  }
  fail(Detector::kBounds, "unexpected state of device memory", place, address);
}

void GlobalMemory::check_read(const void* source, size_t bytes, Place place, void* address) {
  if (!holds(source))
    fail(Detector::kBounds, format("read of %zu bytes at %p, no device memory", bytes, source), place, address);
  const uint8_t* state = states_ + (static_cast<const uint8_t*>(source) - base_);
  const bool waited = !world().on_lane() || world().lane().dependencies_met || !world().launch().dependent;
  for (size_t i = 0; i < bytes; ++i) {
    const uint8_t bits = state[i];
    if ((bits & (kAllocated | kWritten | kPadding)) != (kAllocated | kWritten) || ((bits & kDependent) && !waited)) {
      report(source, bytes, false, place, address);
    }
  }
}

void GlobalMemory::check_write(void* target, size_t bytes, Place place, void* address) {
  if (!holds(target))
    fail(Detector::kBounds, format("write of %zu bytes at %p, no device memory", bytes, target), place, address);
  uint8_t* state = states_ + (static_cast<const uint8_t*>(target) - base_);
  const bool waited = !world().on_lane() || world().lane().dependencies_met || !world().launch().dependent;
  for (size_t i = 0; i < bytes; ++i) {
    const uint8_t bits = state[i];
    if ((bits & (kAllocated | kWritable | kPadding)) != (kAllocated | kWritable) || ((bits & kDependent) && !waited)) {
      report(target, bytes, true, place, address);
    }
    state[i] = static_cast<uint8_t>(bits | kWritten);
  }
}

void global_load(const void* source, void* value, uint32_t bytes, Place place) {
  if (reinterpret_cast<uintptr_t>(source) % bytes != 0) {
    fail(Detector::kAlignment, format("load of %u bytes at %p", bytes, source), place);
  }
  global_memory().check_read(source, bytes, place);
  std::memcpy(value, source, bytes);
}

void global_store(void* target, const void* value, uint32_t bytes, Place place) {
  if (reinterpret_cast<uintptr_t>(target) % bytes != 0) {
    fail(Detector::kAlignment, format("store of %u bytes at %p", bytes, target), place);
  }
  global_memory().check_write(target, bytes, place);
  std::memcpy(target, value, bytes);
}

void global_prefetch(const void* source, uint32_t bytes, Place place) {
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(source) % 16 != 0) {
    fail(Detector::kAlignment, format("prefetch of %u bytes at %p", bytes, source), place);
  }
  (void)bytes;
}

}  // namespace tilewright::emulator
