// Findings: what went wrong in an emulated launch, and where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright::emulator {

// A place in the kernel's source: the default argument of every primitive, so the caller's.
struct Place {
  const char* file = "";
  int line = 0;
  const char* function = "";

  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                              const char* function = __builtin_FUNCTION()) {
    return {file, line, function};
  }
};

// Which check speaks. The names are what reports and tests use.
enum class Detector {
  kDeadlock,          // nothing can go on
  kRace,              // two accesses to shared memory that nothing orders
  kInFlight,          // an access to bytes that an asynchronous operation still writes or reads
  kUninitialised,     // a read of memory that nobody wrote
  kProxyFence,        // written by ordinary stores, read by the asynchronous proxy, no fence between
  kBarrier,           // misuse of an mbarrier: counts, bytes, phases, initialisation
  kBounds,            // an access outside of what was allocated
  kAlignment,         // an address or size that the instruction does not take
  kDescriptor,        // a tensor map or matrix descriptor that makes no sense
  kWarp,              // lanes of a warp at different collective instructions
  kExited,            // use of a block that has ended, or work left behind by one
  kRegisters,         // setmaxnreg, or registers of an asynchronous multiplication touched too early
  kTensorMemory,      // allocation, permits, columns, lanes
  kCollector,         // a collector used before it was filled
  kDependency,        // memory of an earlier kernel touched before griddepcontrol.wait
  kPadding,           // padding read as data
  kTrap,              // __trap, a crash, an assertion
  kUnsupported,       // a form of an instruction that the emulator does not model
};

const char* name_of(Detector detector);

struct Finding {
  Detector detector;
  std::string message;
  std::string agent;  // block, warp and lane, or the asynchronous operation
  Place place;
  void* address = nullptr;  // code address for accesses without a Place
};

std::string describe(const Place& place);
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// One line of JSON.
std::string to_json(const Finding& finding);

// Ends the emulated launch with this finding: leaves the running fiber for ever, or unwinds the scheduler.
[[noreturn]] void fail(Detector detector, std::string message, Place place = {}, void* address = nullptr);

}  // namespace tilewright::emulator
