// Matrix instructions, copies and commits of tcgen05 as operations in flight.
#include "tensor_operations.h"

#include <algorithm>
#include <cstring>

#include "barriers.h"
#include "formats.h"
#include "tensor_memory.h"

namespace tilewright::emulator {

namespace {

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
  Multiply(std::shared_ptr<Work> work, Place place)
      : Operation(work->pair[0]->cluster, place), work_(std::move(work)) {}
  void run() override {
    Work& work = *work_;
    TensorEngine& engine = tensor_engine(*work.pair[0]);
    world().drain(engine.copies, work.copies);
    world().drain(engine.reads, work.reads);
    for (int v = 0; v < 2; ++v) {
      (*work.b_values)[v] =
          values_of(*work.pair[v], work.b, work.instruction.n / 2, work.instruction.k_bytes, work.b_kind);
    }
    if (work.use == CollectorUse::kFillB) *work.kept = *work.b_values;
    // The collector may have lost B; then it is read from shared memory again.
    const Operand& b =
        work.use == CollectorUse::kLastUseB && world().random().below(4) != 0 ? work.kept : work.b_values;
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
          scale = scale_at(memory, r, work.scales.a + static_cast<uint32_t>(r / 32), 4,
                           work.instruction.scale_byte_a + i / 16);
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
          for (int quarter = 0; quarter < 4; ++quarter)
            memory.at(quarter * 32 + row, static_cast<int>(column_) + word) = value;
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
  Commit(Block& leader, std::vector<Barrier*> barriers, Before before, Snapshot known, Place place)
      : Operation(leader.cluster, place), leader_(leader), barriers_(std::move(barriers)), before_(before),
        known_(std::move(known)) {
    for (Barrier* barrier : barriers_) ++barrier->arrivals_on_the_way;
  }
  void run() override {
    TensorEngine& engine = tensor_engine(leader_);
    Knowledge known = *known_;
    if (before_.a_read) {
      known.order.set(engine.reads.agent, engine.reads.done);
    } else {
      world().drain(engine.copies, before_.copies);
      known.order.set(engine.copies.agent, before_.copies);
      known.order.set(engine.products.agent, engine.products.done);
      known.order.set(engine.reads.agent, std::max(known.order.at(engine.reads.agent), before_.reads));
    }
    for (Barrier* barrier : barriers_) {
      --barrier->arrivals_on_the_way;
      arrive(*barrier, 1, known, place);
    }
  }
  const char* name() const override { return before_.a_read ? "commit of reads of A" : "tcgen05.commit"; }

 private:
  Block& leader_;
  std::vector<Barrier*> barriers_;
  Before before_;
  Snapshot known_;
};

}  // namespace

std::unique_ptr<Operation> read_a(std::shared_ptr<Work> work, Place place) {
  return std::make_unique<ReadA>(std::move(work), place);
}
std::unique_ptr<Operation> multiply(std::shared_ptr<Work> work, Place place) {
  return std::make_unique<Multiply>(std::move(work), place);
}
std::unique_ptr<Operation> copy_scales(Pair pair, TensorOperand source, uint32_t column, Place place) {
  return std::make_unique<CopyScales>(pair, source, column, place);
}
std::unique_ptr<Operation> commit(Block& leader, std::vector<Barrier*> barriers, Before before, Snapshot known,
                                  Place place) {
  return std::make_unique<Commit>(leader, std::move(barriers), before, std::move(known), place);
}

}  // namespace tilewright::emulator
