// The emulator as a shared library: memory, seeds, findings. The family's driver adds its launch.
#include <signal.h>

#include <cstring>
#include <string>

#include "global_memory.h"
#include "world.h"

namespace tilewright::emulator {

namespace {

struct sigaction before[3];
constexpr int kSignals[3] = {SIGSEGV, SIGBUS, SIGFPE};

// A crash on a fiber becomes a finding; elsewhere it is the library's own.
void on_crash(int number, siginfo_t* info, void*) {
  if (!world().on_lane()) {
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  fail(Detector::kTrap, number == SIGFPE ? std::string("arithmetic fault")
                                         : format("access to %p, which is no memory of the kernel", info->si_addr));
}

void catch_crashes(bool on) {
  static uint8_t stack[256 * 1024];
  for (int i = 0; i < 3; ++i) {
    if (!on) {
      sigaction(kSignals[i], &before[i], nullptr);
      continue;
    }
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof(stack);
    sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_sigaction = &on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(kSignals[i], &action, &before[i]);
  }
}

std::string findings_text;

}  // namespace
}  // namespace tilewright::emulator

using namespace tilewright::emulator;

extern "C" {

// Launches the driver's kernel with `arguments`; returns the launcher's cudaError_t.
int tilewright_driver_launch(const void* arguments);

void* tilewright_emulator_alloc(int64_t bytes, const char* name, int64_t alignment) {
  return global_memory().allocate(static_cast<size_t>(bytes), name, static_cast<size_t>(alignment));
}
void tilewright_emulator_release() { global_memory().release_all(); }
// Gives everything back; the library can then be closed.
void tilewright_emulator_close() {
  global_memory().unmap();
  world().close();
}
void tilewright_emulator_mark(void* begin, int64_t bytes, int set, int clear) {
  global_memory().mark(begin, static_cast<size_t>(bytes), static_cast<uint8_t>(set), static_cast<uint8_t>(clear));
}

void tilewright_emulator_device(int multiprocessors, int shared_optin, int shared_oversized, int resident_clusters,
                                int occupancy, int major, int minor) {
  world().device = {multiprocessors, shared_optin, shared_oversized, resident_clusters, occupancy, major, minor};
}

void tilewright_emulator_allow(const char* file) { world().may_read_anything.emplace_back(file); }

int tilewright_emulator_run(const void* arguments, uint64_t seed) {
  World& all = world();
  all.findings.clear();
  all.set_seed(seed);
  catch_crashes(true);
  const int error = tilewright_driver_launch(arguments);
  catch_crashes(false);
  return error;
}

// The findings of the last run, one line of JSON each; valid until the next call.
const char* tilewright_emulator_findings() {
  findings_text.clear();
  for (const Finding& finding : world().findings) findings_text += to_json(finding) + "\n";
  return findings_text.c_str();
}

uint64_t tilewright_emulator_steps() { return world().steps; }

}
