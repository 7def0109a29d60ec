// How a driver receives the arguments of a launch: names of the argument struct's members, with their values.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tilewright::emulator {

struct Assignments {
  const char* const* names;
  const int64_t* values;
  int count;
};

// Integers, enumerators and pointers come as 64-bit integers.
template <class T>
void assign(T& member, int64_t value) {
  if constexpr (std::is_pointer_v<T>) {
    member = reinterpret_cast<T>(value);
  } else {
    member = static_cast<T>(value);
  }
}

}  // namespace tilewright::emulator

#define TILEWRIGHT_ASSIGN(member)                      \
  if (std::strcmp(assignments.names[i], #member) == 0) \
  ::tilewright::emulator::assign(arguments.member, assignments.values[i])
