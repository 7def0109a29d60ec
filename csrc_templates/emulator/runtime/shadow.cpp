#include "shadow.h"

#include <algorithm>
#include <cstring>

#include "world.h"

namespace tilewright::emulator {

void Shadow::reset(size_t bytes) {
  bytes = (bytes + 3) & ~size_t{3};
  states_.assign(bytes, kEmpty);
  cells_.assign(bytes / 4, Cell{});
  places_.assign(1, Place{});
}

uint32_t Shadow::remember(Place place) {
  if (places_.back().line == place.line && places_.back().file == place.file) {
    return static_cast<uint32_t>(places_.size() - 1);
  }
  for (size_t i = places_.size(); i-- > 0;) {
    if (places_[i].line == place.line && places_[i].file == place.file) return static_cast<uint32_t>(i);
  }
  places_.push_back(place);
  return static_cast<uint32_t>(places_.size() - 1);
}

std::string Shadow::where(uint32_t offset) const {
  if (columns_ == 0) return format("shared offset 0x%x", offset);
  return format("column %u of tensor memory, lanes from %u", offset / 4 % columns_, offset / 4 / columns_ * 32);
}

void Shadow::report(Detector detector, const char* what, uint32_t offset, const Access& access, const Epoch& other,
                    uint32_t line, bool other_wrote) const {
  std::string message = format("%s at %s", what, where(offset).c_str());
  if (other.tick != 0) {
    message += format("; %s by %s", other_wrote ? "written" : "read", world().name_of_agent(other.agent).c_str());
    if (line != 0 && places_[line].line != 0) message += " at " + describe(places_[line]);
  }
  fail(detector, message, access.place, access.address);
}

namespace {

bool may_read_anything(const Place& place) {
  for (const std::string& file : world().may_read_anything) {
    if (std::strstr(place.file, file.c_str()) != nullptr) return true;
  }
  return false;
}

}  // namespace

void Shadow::check_states(uint32_t offset, uint32_t bytes, const Access& access, bool reads) const {
  for (uint32_t i = offset; i < offset + bytes; ++i) {
    const uint8_t state = states_[i];
    if (state == kData || (!reads && state == kEmpty)) continue;
    const Cell& cell = cells_[i / 4];
    if (state == kEmpty && may_read_anything(access.place)) continue;
    if (state == kEmpty) report(Detector::kUninitialised, "read of what nobody wrote", i, access, {}, 0, true);
    if (state == kBarrierObject) {
      report(Detector::kBarrier, reads ? "ordinary read of a barrier" : "write over a barrier in use", i, access,
             cell.write, cell.write_line, true);
    }
    report(Detector::kInFlight,
           reads ? "read of bytes that are still on their way" : "write over bytes that are still on their way", i,
           access, cell.write, cell.write_line, true);
  }
}

namespace {

// The bytes of word `word` that [offset, offset + bytes) covers.
inline uint8_t mask_of(uint32_t word, uint32_t offset, uint32_t bytes) {
  const uint32_t begin = std::max(word * 4, offset) - word * 4;
  const uint32_t end = std::min(word * 4 + 4, offset + bytes) - word * 4;
  return static_cast<uint8_t>(((1u << end) - 1u) & ~((1u << begin) - 1u));
}

}  // namespace

void Shadow::note_read(Cell& cell, uint8_t mask, const Access& access) {
  Epoch* place = nullptr;
  for (Epoch& epoch : cell.reads) {
    if (epoch.tick != 0 && epoch.agent == access.agent) {
      place = &epoch;
      mask |= epoch.mask;
      break;
    }
    if (place == nullptr && (epoch.tick == 0 || access.known->order.at(epoch.agent) >= epoch.tick)) place = &epoch;
  }
  if (place == nullptr) place = &cell.reads[access.tick % kReaders];
  *place = {access.tick, static_cast<uint16_t>(access.agent), mask, access.async_proxy};
}

void Shadow::read(uint32_t offset, uint32_t bytes, const Access& access) {
  check_states(offset, bytes, access, true);
  const uint32_t line = remember(access.place);
  for (uint32_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    Cell& cell = cells_[word];
    const uint8_t mask = mask_of(word, offset, bytes);
    if (!ordered(cell.write, mask, access)) {
      report(Detector::kRace, "read that is not ordered after a write", word * 4, access, cell.write, cell.write_line,
             true);
    }
    if (access.async_proxy && !cell.write.async_proxy && cell.write.tick != 0 && (cell.write.mask & mask) != 0 &&
        access.known->proxy.at(cell.write.agent) < cell.write.tick) {
      report(Detector::kProxyFence, "the asynchronous proxy reads an ordinary write without fence.proxy.async between",
             word * 4, access, cell.write, cell.write_line, true);
    }
    note_read(cell, mask, access);
    cell.read_line = line;
  }
}

void Shadow::check_write(uint32_t offset, uint32_t bytes, const Access& access) {
  check_states(offset, bytes, access, false);
  for (uint32_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    const Cell& cell = cells_[word];
    const uint8_t mask = mask_of(word, offset, bytes);
    for (const Epoch& epoch : cell.reads) {
      if (!ordered(epoch, mask, access)) {
        report(Detector::kRace, "overwritten before it was read", word * 4, access, epoch, cell.read_line, false);
      }
    }
    if (!ordered(cell.write, mask, access)) {
      report(Detector::kRace, "write that is not ordered after another write", word * 4, access, cell.write,
             cell.write_line, true);
    }
    if (access.async_proxy && !cell.write.async_proxy && cell.write.tick != 0 && (cell.write.mask & mask) != 0 &&
        access.known->proxy.at(cell.write.agent) < cell.write.tick) {
      report(Detector::kProxyFence,
             "the asynchronous proxy overwrites an ordinary write without fence.proxy.async between", word * 4, access,
             cell.write, cell.write_line, true);
    }
  }
}

void Shadow::write(uint32_t offset, uint32_t bytes, const Access& access) {
  check_write(offset, bytes, access);
  land(offset, bytes, access.agent, access.tick, access.async_proxy, access.place);
}

void Shadow::launch(uint32_t offset, uint32_t bytes, const Access& access) {
  check_write(offset, bytes, access);
  std::fill(states_.begin() + offset, states_.begin() + offset + bytes, kOnItsWay);
  const uint32_t line = remember(access.place);
  for (uint32_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    cells_[word].write = {access.tick, static_cast<uint16_t>(access.agent), 15, access.async_proxy};
    cells_[word].write_line = line;
    cells_[word].reads = {};
  }
}

void Shadow::land(uint32_t offset, uint32_t bytes, Agent agent, Tick tick, bool async_proxy, Place place) {
  std::fill(states_.begin() + offset, states_.begin() + offset + bytes, kData);
  const uint32_t line = remember(place);
  for (uint32_t word = offset / 4; word * 4 < offset + bytes; ++word) {
    Cell& cell = cells_[word];
    uint8_t mask = mask_of(word, offset, bytes);
    if (cell.write.agent == agent && cell.write.tick == tick) mask |= cell.write.mask;
    cell.write = {tick, static_cast<uint16_t>(agent), mask, async_proxy};
    cell.write_line = line;
    if (mask == 15) cell.reads = {};
  }
}

void Shadow::set_barrier(uint32_t offset, bool is_barrier) {
  std::fill(states_.begin() + offset, states_.begin() + offset + 8, is_barrier ? kBarrierObject : kEmpty);
  for (uint32_t word = offset / 4; word < offset / 4 + 2; ++word) cells_[word] = Cell{};
}

bool Shadow::is_barrier(uint32_t offset) const { return states_[offset] == kBarrierObject; }

}  // namespace tilewright::emulator
