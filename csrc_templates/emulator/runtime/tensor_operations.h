// Matrix instructions, copies and commits of tcgen05 as operations in flight.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "matrix_descriptor.h"
#include "primitives.h"
#include "world.h"

namespace tilewright::emulator {

using Pair = std::array<Block*, 2>;
using Operand = std::shared_ptr<std::array<std::vector<float>, 2>>;  // of each block: rows of k values

enum class Kind { kE4m3, kE5m2, kE2m1 };

// One matrix instruction of a pair.
struct Work {
  Pair pair;
  TensorInstruction instruction;
  TensorOperand a, b;
  uint32_t d;
  TensorScales scales;
  bool accumulate;
  CollectorUse use;
  Kind a_kind, b_kind;
  Operand a_values = std::make_shared<std::array<std::vector<float>, 2>>();
  Operand b_values = std::make_shared<std::array<std::vector<float>, 2>>();
  Operand kept;  // the collector's B
  Tick reads = 0, copies = 0;
};

// Reads A of both blocks; after that their shared memory may change.
std::unique_ptr<Operation> read_a(std::shared_ptr<Work> work, Place place);
// Multiplies, once A has been read and the copies before have been made.
std::unique_ptr<Operation> multiply(std::shared_ptr<Work> work, Place place);
// 32 rows of 16 bytes to four columns, in both blocks.
std::unique_ptr<Operation> copy_scales(Pair pair, TensorOperand source, uint32_t column, Place place);

// What a commit waits for.
struct Before {
  bool a_read;  // only the reads of A
  Tick copies, reads;
};
// Arrives at barriers when what was issued before has finished.
std::unique_ptr<Operation> commit(Block& leader, std::vector<Barrier*> barriers, Before before, Snapshot known,
                                  Place place);

}  // namespace tilewright::emulator
