// The shadow of a block's shared memory: which bytes hold data, who wrote and who read them last.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "clock.h"
#include "report.h"

namespace tilewright::emulator {

// One access as the shadow sees it.
struct Access {
  Agent agent;             // who: a warp, or an engine that works on its own
  Tick tick;               // of that agent
  const Knowledge* known;  // what is ordered before the access
  bool async_proxy;        // through the asynchronous proxy
  Place place;
  void* address = nullptr;
};

class Shadow {
 public:
  void reset(size_t bytes);
  // For tensor memory: words are columns, `columns` for each quarter of the lanes.
  void set_columns(uint32_t columns) { columns_ = columns; }
  size_t size() const { return states_.size(); }

  // Ends the launch unless the bytes hold data that `access` may see.
  void read(uint32_t offset, uint32_t bytes, const Access& access);
  // Ends the launch unless every earlier access to the bytes is ordered before. Marks them written by `access`.
  void write(uint32_t offset, uint32_t bytes, const Access& access);

  // An asynchronous write: checks as `write` and marks the bytes as on their way; `land` makes them data of `access`.
  void launch(uint32_t offset, uint32_t bytes, const Access& access);
  void land(uint32_t offset, uint32_t bytes, Agent agent, Tick tick, bool async_proxy, Place place);

  // Barrier objects may be used by barrier instructions only.
  void set_barrier(uint32_t offset, bool is_barrier);
  bool is_barrier(uint32_t offset) const;

 private:
  enum State : uint8_t { kEmpty, kData, kOnItsWay, kBarrierObject };
  struct Epoch {
    Tick tick = 0;
    uint16_t agent = 0;
    uint8_t mask = 0;  // bytes of the word
    bool async_proxy = false;
  };
  static constexpr int kReaders = 3;
  struct Cell {
    Epoch write;
    std::array<Epoch, kReaders> reads;
    uint32_t write_line = 0;
    uint32_t read_line = 0;
  };

  static bool ordered(const Epoch& epoch, uint8_t mask, const Access& access) {
    return epoch.tick == 0 || (epoch.mask & mask) == 0 || epoch.agent == access.agent ||
           access.known->order.at(epoch.agent) >= epoch.tick;
  }
  void check_states(uint32_t offset, uint32_t bytes, const Access& access, bool reads) const;
  void check_write(uint32_t offset, uint32_t bytes, const Access& access);
  void note_read(Cell& cell, uint8_t mask, const Access& access);
  [[noreturn]] void report(Detector detector, const char* what, uint32_t offset, const Access& access,
                           const Epoch& other, uint32_t line, bool other_wrote) const;
  uint32_t remember(Place place);
  std::string where(uint32_t offset) const;

  uint32_t columns_ = 0;
  std::vector<uint8_t> states_;  // State, a byte each
  std::vector<Cell> cells_;      // a word each
  std::vector<Place> places_;
};

}  // namespace tilewright::emulator
