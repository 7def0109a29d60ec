// Ordinary loads and stores of the kernel. Its translation unit is compiled with -fsanitize=thread, whose calls end
// here:
// accesses to shared and device memory are checked, everything else (stacks, constants) passes.
#include <cstddef>
#include <cstdint>

#include "global_memory.h"
#include "world.h"

namespace tilewright::emulator {
namespace {

void check_registers(const Lane& lane, const char* at, size_t bytes, bool write, void* caller) {
  for (const RegisterUse& use : lane.registers) {
    if (at >= use.end || at + bytes <= use.begin) continue;
    if (write) lane.warp->wgmma_fenced = false;
    if ((write || use.writes) && use.tick > lane.warp->wgmma_known) {
      fail(Detector::kRegisters,
           format("registers of a wgmma are %s before it has been waited for", write ? "written" : "read"), {}, caller);
    }
  }
}

void access(const void* pointer, size_t bytes, bool write, void* caller) {
  World& all = world();
  if (!all.on_lane()) return;
  const Lane& lane = all.lane();
  if (static_cast<size_t>(static_cast<const char*>(pointer) - static_cast<const char*>(lane.stack)) <
      StackPool::kStackBytes) {
    if (!lane.registers.empty()) check_registers(lane, static_cast<const char*>(pointer), bytes, write, caller);
    return;
  }
  const auto* at = static_cast<const uint8_t*>(pointer);
  const auto shared_offset = static_cast<size_t>(at - shared_arena());
  if (shared_offset < kSharedStride * kSharedSlots) {
    Block& own = block();
    const size_t offset = shared_offset % kSharedStride;
    if (shared_offset / kSharedStride != static_cast<size_t>(own.slot)) {
      fail(Detector::kBounds, "ordinary access to another block's shared memory", {}, caller);
    }
    if (offset + bytes > own.shared_bytes || offset < 1024) {
      fail(Detector::kBounds, format("access to shared offset 0x%zx, outside of the block's", offset), {}, caller);
    }
    if (write) {
      own.shadow.write(static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes), ordinary({}, caller));
    } else {
      own.shadow.read(static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes), ordinary({}, caller));
    }
    return;
  }
  if (global_memory().holds(pointer)) {
    if (write) {
      global_memory().check_write(const_cast<void*>(pointer), bytes, {}, caller);
    } else {
      global_memory().check_read(pointer, bytes, {}, caller);
    }
    return;
  }
}

}  // namespace
}  // namespace tilewright::emulator

#define TILEWRIGHT_HOOK(name, bytes, write)                                               \
  extern "C" void name(void* at) {                                                        \
    tilewright::emulator::access(at, bytes, write, __builtin_return_address(0));          \
  }
#define TILEWRIGHT_HOOKS(bytes)                         \
  TILEWRIGHT_HOOK(__tsan_read##bytes, bytes, false)     \
  TILEWRIGHT_HOOK(__tsan_write##bytes, bytes, true)     \
  TILEWRIGHT_HOOK(__tsan_volatile_read##bytes, bytes, false) \
  TILEWRIGHT_HOOK(__tsan_volatile_write##bytes, bytes, true) \
  TILEWRIGHT_HOOK(__tsan_unaligned_read##bytes, bytes, false) \
  TILEWRIGHT_HOOK(__tsan_unaligned_write##bytes, bytes, true)

TILEWRIGHT_HOOKS(1)
TILEWRIGHT_HOOKS(2)
TILEWRIGHT_HOOKS(4)
TILEWRIGHT_HOOKS(8)
TILEWRIGHT_HOOKS(16)

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* at, size_t bytes) {
  tilewright::emulator::access(at, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* at, size_t bytes) {
  tilewright::emulator::access(at, bytes, true, __builtin_return_address(0));
}

// Atomics of launchers (one thread runs at a time).
uint32_t __tsan_atomic32_load(const volatile uint32_t* at, int) { return *at; }
void __tsan_atomic32_store(volatile uint32_t* at, uint32_t value, int) { *at = value; }
uint64_t __tsan_atomic64_load(const volatile uint64_t* at, int) { return *at; }
void __tsan_atomic64_store(volatile uint64_t* at, uint64_t value, int) { *at = value; }
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t* at, uint32_t value, int) {
  const uint32_t before = *at;
  *at = before + value;
  return before;
}
}
