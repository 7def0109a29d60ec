// Seeded random numbers, the same on every platform.
#pragma once

#include <cstdint>

namespace tilewright::emulator {

class Random {
 public:
  explicit Random(uint64_t seed = 0) : state_(seed) {}
  uint64_t next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>((next() >> 32) * bound >> 32); }
  bool one_in(uint32_t count) { return count != 0 && below(count) == 0; }

 private:
  uint64_t state_;
};

}  // namespace tilewright::emulator
