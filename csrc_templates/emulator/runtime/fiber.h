// Stackful fibers: one runs per emulated thread, the scheduler runs on the caller's stack.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::emulator {

// Where a suspended fiber stands: its stack pointer; everything else lies on its stack.
using FiberPoint = void*;

// Prepares `stack` (its lowest byte, `bytes` long) so that switching to the returned point calls entry(argument).
// `entry` never returns.
FiberPoint make_fiber(void* stack, size_t bytes, void (*entry)(void*), void* argument);

// Saves the running context in `from` and continues at `to`.
void switch_fiber(FiberPoint* from, FiberPoint to);

// Equal stacks in one mapping, each above a page that must not be touched. Memory is committed as it is used.
class StackPool {
 public:
  static constexpr size_t kStackBytes = 128 * 1024;
  ~StackPool() { release(); }
  void release();
  // The lowest byte of stack `index`; the mapping grows as needed, which moves no stack in use when called before a
  // run.
  void reserve(size_t count);
  void* stack(size_t index) const { return base_ + index * kPitch + kGuard; }
  // Whether `address` lies in a guard page: a stack that ran over.
  bool is_guard(const void* address) const;

 private:
  static constexpr size_t kGuard = 4096;
  static constexpr size_t kPitch = kStackBytes + kGuard;
  char* base_ = nullptr;
  size_t count_ = 0;
};

}  // namespace tilewright::emulator
