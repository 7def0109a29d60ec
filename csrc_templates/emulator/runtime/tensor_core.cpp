// Matrix instructions of tcgen05 with their copies and completions, as one thread of the leading block issues them.
#include "barriers.h"
#include "matrix_descriptor.h"
#include "primitives.h"
#include "tensor_memory.h"
#include "tensor_operations.h"

namespace tilewright::emulator {

namespace {

// Notes that an engine reads the operand; ends the launch when it may not.
void note_read(Block& home, const TensorOperand& operand, int rows, int k_bytes, const Access& access) {
  for (int row = 0; row < rows; ++row) {
    for (int chunk = 0; chunk < k_bytes / 16; ++chunk) {
      const uint32_t offset = operand.at(row, chunk);
      if (offset < 1024 || offset + 16 > home.shared_bytes) {
        fail(Detector::kBounds, format("a matrix instruction reads shared offset 0x%x, outside of the block's", offset),
             access.place);
      }
      home.shadow.read(offset, 16, access);
    }
  }
}

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
  world().start(engine.copies, copy_scales(pair, source, address, place));
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
  if (work.use != CollectorUse::kNone && world().device.minor != 7)
    fail(Detector::kCollector, "keeping B is of sm_107", place);
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

void tensor_multiply(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, TensorScales scales, bool accumulate,
                     CollectorUse use, Place place) {
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
  world().start(engine.reads, read_a(work, place));
  work->reads = engine.reads.issued;
  work->copies = engine.copies.issued;
  world().start(engine.products, multiply(work, place));
  world().point();
}

void tensor_commit(uint32_t address, uint32_t mask, bool wide_mask, bool a_read, Place place) {
  const Pair pair = leading_pair("tcgen05.commit", place);
  if ((a_read || wide_mask) && world().device.minor != 7)
    fail(Detector::kUnsupported, "this commit is of sm_107", place);
  TensorEngine& engine = tensor_engine(block());
  Warp& warp = *world().lane().warp;
  const SharedPlace at = locate(block(), address, 8, 8, place);
  Cluster& cluster = *block().cluster;
  std::vector<Barrier*> barriers;
  if (mask == 0) {
    barriers.push_back(&barrier_at(address, place));
  } else {
    if (mask >> cluster.blocks.size() != 0)
      fail(Detector::kDescriptor, format("mask 0x%x names blocks outside of the cluster", mask), place);
    for (size_t rank = 0; rank < cluster.blocks.size(); ++rank) {
      if (!(mask >> rank & 1u)) continue;
      if (cluster.blocks[rank]->live == 0)
        fail(Detector::kExited, format("a commit to rank %zu, which has ended", rank), place);
      barriers.push_back(&barrier_in(*cluster.blocks[rank], at.offset, place));
    }
  }
  const Before before{a_read, engine.copies.issued, engine.reads.issued};
  auto operation = commit(*pair[0], std::move(barriers), before, snapshot(warp), place);
  world().start(a_read ? engine.reads : engine.products, std::move(operation));
  advance(warp);
  world().point();
}

}  // namespace tilewright::emulator
