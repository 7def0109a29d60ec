// Matrix instructions of tcgen05 with their copies and completions: issued by one thread of the leading block, run later.
#include <algorithm>
#include <cstring>

#include "barriers.h"
#include "formats.h"
#include "matrix_descriptor.h"
#include "primitives.h"
#include "tensor_memory.h"

namespace tilewright::emulator {

namespace {

using Pair = std::array<Block*, 2>;
using Operand = std::shared_ptr<std::array<std::vector<float>, 2>>;  // of each block: rows of k values

enum class Kind { kE4m3, kE5m2, kE2m1 };

// Values of `rows` rows of an operand in a block's shared memory.
std::vector<float> values_of(const Block& home, const TensorOperand& operand, int rows, int k_bytes, Kind kind) {
  const ByteTables& tables = byte_tables();
  const int per_byte = kind == Kind::kE2m1 ? 2 : 1;
  std::vector<float> values(static_cast<size_t>(rows) * k_bytes * per_byte);
  float* next = values.data();
  for (int row = 0; row < rows; ++row) {
    for (int chunk = 0; chunk < k_bytes / 16; ++chunk) {
      const uint8_t* bytes = home.shared + operand.at(row, chunk);
      for (int i = 0; i < 16; ++i) {
        if (kind == Kind::kE2m1) {
          *next++ = tables.e2m1[bytes[i] & 15];
          *next++ = tables.e2m1[bytes[i] >> 4];
        } else {
          *next++ = kind == Kind::kE4m3 ? tables.e4m3[bytes[i]] : tables.e5m2[bytes[i]];
        }
      }
    }
  }
  return values;
}

// Notes that an engine reads the operand; ends the launch when it may not.
void note_read(Block& home, const TensorOperand& operand, int rows, int k_bytes, const Access& access) {
  for (int row = 0; row < rows; ++row) {
    for (int chunk = 0; chunk < k_bytes / 16; ++chunk) {
      const uint32_t offset = operand.at(row, chunk);
      if (offset < 1024 || offset + 16 > home.shared_bytes) {
        fail(Detector::kBounds, format("a matrix instruction reads shared offset 0x%x, outside of the block's", offset), access.place);
      }
      home.shadow.read(offset, 16, access);
    }
  }
}

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

class ReadA : public Operation {
 public:
  ReadA(std::shared_ptr<Work> work, Place place) : Operation(work->pair[0]->cluster, place), work_(std::move(work)) {}
  void run() override {
    for (int v = 0; v < 2; ++v) {
      (*work_->a_values)[v] = values_of(*work_->pair[v], work_->a, 128, work_->instruction.k_bytes, work_->a_kind);
    }
  }
  const char* name() const override { return "matrix instruction reading A"; }

 private:
  std::shared_ptr<Work> work_;
};

// The scale of 16 values: byte `byte` counted from the first word's first scale.
float scale_at(TensorMemory& memory, int lane, uint32_t column, int columns_per_word, int byte) {
  const uint32_t word = memory.at(lane, static_cast<int>(column) + byte / 4 * columns_per_word);
  return byte_tables().e4m3[word >> 8 * (byte % 4) & 0x7f];
}

class Multiply : public Operation {
 public:
  Multiply(std::shared_ptr<Work> work, Place place) : Operation(work->pair[0]->cluster, place), work_(std::move(work)) {}
  void run() override {
    Work& work = *work_;
    TensorEngine& engine = tensor_engine(*work.pair[0]);
    world().drain(engine.copies, work.copies);
    world().drain(engine.reads, work.reads);
    for (int v = 0; v < 2; ++v) {
      (*work.b_values)[v] = values_of(*work.pair[v], work.b, work.instruction.n / 2, work.instruction.k_bytes, work.b_kind);
    }
    if (work.use == CollectorUse::kFillB) *work.kept = *work.b_values;
    // The collector may have lost B; then it is read from shared memory again.
    const Operand& b = work.use == CollectorUse::kLastUseB && world().random().below(4) != 0 ? work.kept : work.b_values;
    for (int v = 0; v < 2; ++v) multiply(v, *b);
  }
  const char* name() const override { return "matrix instruction"; }

 private:
  void multiply(int v, const std::array<std::vector<float>, 2>& b_halves) {
    Work& work = *work_;
    TensorMemory& memory = tensor_memory(*work.pair[v]);
    const int n = work.instruction.n;
    const int k = work.instruction.k_bytes * (work.a_kind == Kind::kE2m1 ? 2 : 1);
    const std::vector<float>& a = (*work.a_values)[v];
    static std::vector<float> b;  // [k][n]
    b.resize(static_cast<size_t>(k) * n);
    for (int column = 0; column < n; ++column) {
      const float* row = b_halves[column / (n / 2)].data() + static_cast<size_t>(column % (n / 2)) * k;
      float scale = 1.0f;
      for (int i = 0; i < k; ++i) {
        if (work.scales.used && i % 16 == 0) {
          scale = scale_at(memory, column % 32, work.scales.b + static_cast<uint32_t>(column / 32), n / 32,
                           work.instruction.scale_byte_b + i / 16);
        }
        b[static_cast<size_t>(i) * n + column] = row[i] * scale;
      }
    }
    std::vector<float> sum(n);
    for (int r = 0; r < 128; ++r) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      float scale = 1.0f;
      for (int i = 0; i < k; ++i) {
        if (work.scales.used && i % 16 == 0) {
          scale = scale_at(memory, r, work.scales.a + static_cast<uint32_t>(r / 32), 4, work.instruction.scale_byte_a + i / 16);
        }
        const float left = a[static_cast<size_t>(r) * k + i] * scale;
        const float* right = b.data() + static_cast<size_t>(i) * n;
        for (int column = 0; column < n; ++column) sum[column] += left * right[column];
      }
      for (int column = 0; column < n; ++column) {
        uint32_t& cell = memory.at(r, static_cast<int>(work.d) + column);
        float value = sum[column];
        if (work.accumulate) {
          float before;
          std::memcpy(&before, &cell, 4);
          value += before;
        }
        std::memcpy(&cell, &value, 4);
      }
    }
  }

  std::shared_ptr<Work> work_;
};

class CopyScales : public Operation {
 public:
  CopyScales(Pair pair, TensorOperand source, uint32_t column, Place place)
      : Operation(pair[0]->cluster, place), pair_(pair), source_(source), column_(column) {}
  void run() override {
    for (Block* home : pair_) {
      TensorMemory& memory = tensor_memory(*home);
      for (int row = 0; row < 32; ++row) {
        const uint8_t* bytes = home->shared + source_.at(row, 0);
        for (int word = 0; word < 4; ++word) {
          uint32_t value;
          std::memcpy(&value, bytes + 4 * word, 4);
          for (int quarter = 0; quarter < 4; ++quarter) memory.at(quarter * 32 + row, static_cast<int>(column_) + word) = value;
        }
      }
    }
  }
  const char* name() const override { return "tcgen05.cp"; }

 private:
  Pair pair_;
  TensorOperand source_;
  uint32_t column_;
};

// Arrives at barriers when what was issued before has finished, or has read A.
class Commit : public Operation {
 public:
  Commit(Block& leader, std::vector<Barrier*> barriers, bool a_read, Tick copies, Snapshot known, Place place)
      : Operation(leader.cluster, place), leader_(leader), barriers_(std::move(barriers)), a_read_(a_read), copies_(copies),
        known_(std::move(known)) {
    for (Barrier* barrier : barriers_) ++barrier->arrivals_on_the_way;
  }
  void run() override {
    TensorEngine& engine = tensor_engine(leader_);
    Knowledge known = *known_;
    if (a_read_) {
      known.order.set(engine.reads.agent, engine.reads.done);
    } else {
      world().drain(engine.copies, copies_);
      known.order.set(engine.copies.agent, copies_);
      known.order.set(engine.products.agent, engine.products.done);
      known.order.set(engine.reads.agent, std::max(known.order.at(engine.reads.agent), reads));
    }
    for (Barrier* barrier : barriers_) {
      --barrier->arrivals_on_the_way;
      arrive(*barrier, 1, known, place);
    }
  }
  const char* name() const override { return a_read_ ? "commit of reads of A" : "tcgen05.commit"; }
  Tick reads = 0;

 private:
  Block& leader_;
  std::vector<Barrier*> barriers_;
  bool a_read_;
  Tick copies_;
  Snapshot known_;
};

Pair leading_pair(const char* what, Place place) {
  const Pair pair = pair_of(block(), place);
  if (&block() != pair[0]) fail(Detector::kTensorMemory, format("%s outside of the leading block", what), place);
  if (pair[1]->live == 0) fail(Detector::kExited, format("%s after the pair's other block has ended", what), place);
  return pair;
}

bool wide_start() { return world().device.minor == 7; }

}  // namespace

void tensor_copy_scales(uint32_t address, uint64_t descriptor, Place place) {
  const Pair pair = leading_pair("tcgen05.cp", place);
  TensorEngine& engine = tensor_engine(block());
  Warp& warp = *world().lane().warp;
  const TensorOperand source = TensorOperand::decode(descriptor, wide_start(), false, place);
  if (address >> 16 != 0) fail(Detector::kTensorMemory, "scales start in lane 0", place);
  const Tick tick = engine.copies.issued + 1;
  const Access from{engine.copies.agent, tick, &warp.known, true, place};
  const Access to{engine.copies.agent, tick, &warp.tensor_known, false, place};
  for (Block* home : pair) {
    note_read(*home, source, 32, 16, from);
    tensor_memory(*home).check(address, 4, place);
    for (int quarter = 0; quarter < 4; ++quarter) {
      tensor_memory(*home).shadow.write(TensorMemory::place_of(quarter, static_cast<int>(address)), 16, to);
    }
  }
  world().start(engine.copies, std::make_unique<CopyScales>(pair, source, address, place));
  world().point();
}

namespace {

void note_tensor_accesses(const Work& work, const TensorEngine& engine, Tick tick, Place place) {
  Warp& warp = *world().lane().warp;
  Knowledge known = warp.tensor_known;
  known.order.set(engine.copies.agent, engine.copies.issued);  // copies of the same thread come first
  const Access access{engine.products.agent, tick, &known, false, place};
  const int n = work.instruction.n;
  for (Block* home : work.pair) {
    TensorMemory& memory = tensor_memory(*home);
    const auto touch = [&](uint32_t column, int columns, bool reads, bool writes) {
      memory.check(column, columns, place);
      for (int quarter = 0; quarter < 4; ++quarter) {
        const uint32_t at = TensorMemory::place_of(quarter, static_cast<int>(column));
        if (reads) memory.shadow.read(at, static_cast<uint32_t>(columns) * 4, access);
        if (writes) memory.shadow.write(at, static_cast<uint32_t>(columns) * 4, access);
      }
    };
    if (work.scales.used) {
      const int scales = work.instruction.k_bytes / 8;
      touch(work.scales.a, 4 * ((work.instruction.scale_byte_a + scales + 3) / 4), true, false);
      touch(work.scales.b, n / 32 * ((work.instruction.scale_byte_b + scales + 3) / 4), true, false);
    }
    touch(work.d, n, work.accumulate, true);
  }
}

void use_collector(Work& work, TensorEngine& engine, uint64_t b, uint32_t instruction, Place place) {
  if (work.use != CollectorUse::kNone && world().device.minor != 7) fail(Detector::kCollector, "keeping B is of sm_107", place);
  if (work.use == CollectorUse::kLastUseB) {
    if (!engine.filled) fail(Detector::kCollector, "B is used from the collector, but nothing has filled it", place);
    if (engine.filled_descriptor != b || ((engine.filled_instruction ^ instruction) & 0x007e0000u) != 0) {
      fail(Detector::kCollector, "B is used from the collector, which was filled with another", place);
    }
    work.kept = engine.kept_b;
  }
  engine.filled = work.use == CollectorUse::kFillB;
  if (!engine.filled) return;
  engine.filled_descriptor = b;
  engine.filled_instruction = instruction;
  engine.kept_b = work.kept = std::make_shared<std::array<std::vector<float>, 2>>();
}

}  // namespace

void tensor_multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, TensorScales scales, bool accumulate, CollectorUse use,
                     Place place) {
  auto work = std::make_shared<Work>();
  work->pair = leading_pair("tcgen05.mma", place);
  TensorEngine& engine = tensor_engine(block());
  Warp& warp = *world().lane().warp;
  const int minor = world().device.minor;
  work->instruction = scales.used ? TensorInstruction::decode_fp4(instruction, minor, place)
                                  : TensorInstruction::decode_fp8(instruction, minor, place);
  const bool onward = work->instruction.k_bytes == 48;
  work->a = TensorOperand::decode(a, wide_start(), onward, place);
  work->b = TensorOperand::decode(b, wide_start(), onward, place);
  work->d = d;
  work->scales = scales;
  work->accumulate = accumulate;
  work->use = use;
  work->a_kind = scales.used ? Kind::kE2m1 : work->instruction.a_e5m2 ? Kind::kE5m2 : Kind::kE4m3;
  work->b_kind = scales.used ? Kind::kE2m1 : work->instruction.b_e5m2 ? Kind::kE5m2 : Kind::kE4m3;
  if (d >> 16 != 0) fail(Detector::kTensorMemory, "an accumulator of a pair starts in lane 0", place);
  use_collector(*work, engine, b, instruction, place);
  const Access reads_a{engine.reads.agent, engine.reads.issued + 1, &warp.known, true, place};
  const Access reads_b{engine.products.agent, engine.products.issued + 1, &warp.known, true, place};
  for (Block* home : work->pair) {
    note_read(*home, work->a, 128, work->instruction.k_bytes, reads_a);
    note_read(*home, work->b, work->instruction.n / 2, work->instruction.k_bytes, reads_b);
  }
  note_tensor_accesses(*work, engine, reads_b.tick, place);
  world().start(engine.reads, std::make_unique<ReadA>(work, place));
  work->reads = engine.reads.issued;
  work->copies = engine.copies.issued;
  world().start(engine.products, std::make_unique<Multiply>(work, place));
  world().point();
}

void tensor_commit(uint32_t address, uint32_t mask, bool wide_mask, bool a_read, Place place) {
  const Pair pair = leading_pair("tcgen05.commit", place);
  if ((a_read || wide_mask) && world().device.minor != 7) fail(Detector::kUnsupported, "this commit is of sm_107", place);
  TensorEngine& engine = tensor_engine(block());
  Warp& warp = *world().lane().warp;
  const SharedPlace at = locate(block(), address, 8, 8, place);
  Cluster& cluster = *block().cluster;
  std::vector<Barrier*> barriers;
  if (mask == 0) {
    barriers.push_back(&barrier_at(address, place));
  } else {
    if (mask >> cluster.blocks.size() != 0) fail(Detector::kDescriptor, format("mask 0x%x names blocks outside of the cluster", mask), place);
    for (size_t rank = 0; rank < cluster.blocks.size(); ++rank) {
      if (!(mask >> rank & 1u)) continue;
      if (cluster.blocks[rank]->live == 0) fail(Detector::kExited, format("a commit to rank %zu, which has ended", rank), place);
      barriers.push_back(&barrier_in(*cluster.blocks[rank], at.offset, place));
    }
  }
  auto commit = std::make_unique<Commit>(*pair[0], std::move(barriers), a_read, engine.copies.issued, snapshot(warp), place);
  commit->reads = engine.reads.issued;
  world().start(a_read ? engine.reads : engine.products, std::move(commit));
  advance(warp);
  world().point();
}

}  // namespace tilewright::emulator
