#include "fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

// Callee-saved registers of the platform's calling convention are kept on the stack that is left.
#if defined(__x86_64__)
asm(R"(
.text
.globl tilewright_emulator_switch
.type tilewright_emulator_switch,@function
tilewright_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tilewright_emulator_switch,.-tilewright_emulator_switch
.globl tilewright_emulator_start
.type tilewright_emulator_start,@function
tilewright_emulator_start:
  movq %r12, %rdi
  xorl %ebp, %ebp
  call *%r13
  ud2
.size tilewright_emulator_start,.-tilewright_emulator_start
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl tilewright_emulator_switch
.type tilewright_emulator_switch,%function
tilewright_emulator_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.globl tilewright_emulator_start
.type tilewright_emulator_start,%function
tilewright_emulator_start:
  mov x0, x19
  blr x20
  brk #0
)");
#else
#error "the emulator switches stacks by hand on x86-64 and aarch64 only"
#endif

extern "C" void tilewright_emulator_switch(void** from, void* to);
extern "C" void tilewright_emulator_start();

namespace tilewright::emulator {

FiberPoint make_fiber(void* stack, size_t bytes, void (*entry)(void*), void* argument) {
  auto top = reinterpret_cast<uintptr_t>(stack) + bytes;
  top &= ~uintptr_t{63};
#if defined(__x86_64__)
  auto* slot = reinterpret_cast<uint64_t*>(top) - 9;
  for (int i = 0; i < 9; ++i) slot[i] = 0;
  slot[2] = reinterpret_cast<uint64_t>(entry);     // r13
  slot[3] = reinterpret_cast<uint64_t>(argument);  // r12
  slot[6] = reinterpret_cast<uint64_t>(&tilewright_emulator_start);
#else
  auto* slot = reinterpret_cast<uint64_t*>(top) - 20;
  for (int i = 0; i < 20; ++i) slot[i] = 0;
  slot[0] = reinterpret_cast<uint64_t>(argument);  // x19
  slot[1] = reinterpret_cast<uint64_t>(entry);     // x20
  slot[11] = reinterpret_cast<uint64_t>(&tilewright_emulator_start);
#endif
  return slot;
}

void switch_fiber(FiberPoint* from, FiberPoint to) { tilewright_emulator_switch(from, to); }

void StackPool::release() {
  if (base_ != nullptr) munmap(base_, count_ * kPitch);
  base_ = nullptr;
  count_ = 0;
}

void StackPool::reserve(size_t count) {
  if (count <= count_) return;
  release();
  void* mapped =
      mmap(nullptr, count * kPitch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    std::fprintf(stderr, "emulator: no address space for %zu stacks\n", count);
    std::abort();
  }
  base_ = static_cast<char*>(mapped);
  count_ = count;
  for (size_t i = 0; i < count; ++i) mprotect(base_ + i * kPitch, kGuard, PROT_NONE);
}

bool StackPool::is_guard(const void* address) const {
  const char* at = static_cast<const char*>(address);
  if (base_ == nullptr || at < base_ || at >= base_ + count_ * kPitch) return false;
  return static_cast<size_t>(at - base_) % kPitch < kGuard;
}

}  // namespace tilewright::emulator
