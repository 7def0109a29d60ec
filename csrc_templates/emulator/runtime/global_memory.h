// Device memory: one arena, a state for each byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report.h"

namespace tilewright::emulator {

struct Region {
  uint8_t* begin;
  size_t bytes;
  std::string name;
};

class GlobalMemory {
 public:
  // What a byte may be used for. 0: not allocated.
  enum Bits : uint8_t {
    kAllocated = 1,
    kWritten = 2,
    kWritable = 4,
    kPadding = 8,     // present, but no data
    kDependent = 16,  // belongs to an earlier kernel until its results are waited for
  };

  static constexpr size_t kBytes = size_t{1} << 30;
  static constexpr size_t kRedzone = 512;

  uint8_t* allocate(size_t bytes, const std::string& name, size_t alignment);
  void release_all();
  void unmap();
  void mark(const void* begin, size_t bytes, uint8_t set, uint8_t clear);

  bool holds(const void* pointer) const {
    return static_cast<size_t>(static_cast<const uint8_t*>(pointer) - base_) < kBytes;
  }
  void check_read(const void* source, size_t bytes, Place place, void* address = nullptr);
  void check_write(void* target, size_t bytes, Place place, void* address = nullptr);

 private:
  std::string name(const void* pointer) const;
  [[noreturn]] void report(const void* pointer, size_t bytes, bool write, Place place, void* address);
  void map();

  uint8_t* base_ = nullptr;
  uint8_t* states_ = nullptr;
  size_t used_ = 0;
  std::vector<Region> regions_;
};

GlobalMemory& global_memory();

}  // namespace tilewright::emulator
