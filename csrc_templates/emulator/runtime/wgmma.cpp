// Warpgroup multiplication (sm_90a): descriptors decoded, operands read through their swizzle, each warp's 16 rows at a
// time of their own.
#include <algorithm>
#include <array>

#include "formats.h"
#include "meeting.h"
#include "primitives.h"
#include "tensor_map.h"

namespace tilewright::emulator {

namespace {

// A K-major operand in shared memory.
struct MatrixDescriptor {
  uint32_t start, leading, stride;
  int pattern;

  static MatrixDescriptor decode(uint64_t bits, Place place) {
    constexpr int kPatterns[4] = {0, 128, 64, 32};
    MatrixDescriptor d{static_cast<uint32_t>(bits & 0x3fffu) << 4, static_cast<uint32_t>(bits >> 16 & 0x3fffu) << 4,
                       static_cast<uint32_t>(bits >> 32 & 0x3fffu) << 4, kPatterns[bits >> 62]};
    const uint32_t base_offset = static_cast<uint32_t>(bits >> 49 & 7u);
    if ((bits >> 14 & 3u) != 0 || (bits >> 30 & 3u) != 0 || (bits >> 46 & 7u) != 0 || (bits >> 52 & 0x3ffu) != 0) {
      fail(Detector::kDescriptor, format("matrix descriptor 0x%016lx sets reserved bits", bits), place);
    }
    if (d.stride == 0)
      fail(Detector::kDescriptor, "a matrix descriptor without a stride between groups of 8 rows", place);
    if (d.pattern != 0) {
      // The pattern comes from address bits, so groups of 8 rows start where it repeats.
      const uint32_t row = d.start & ~static_cast<uint32_t>(d.pattern - 1);
      const uint32_t repeat = 8u * static_cast<uint32_t>(d.pattern);
      if (row / 128 % 8 % (repeat / 128) != base_offset || d.stride % repeat != 0) {
        fail(Detector::kDescriptor,
             format("a matrix under the %d-byte swizzle starts at 0x%x with a stride of %u: its groups of 8 "
                    "rows do not start where the pattern repeats",
                    d.pattern, d.start, d.stride),
             place);
      }
    }
    return d;
  }

  // Shared offset of 16 bytes: row `row`, byte 16 * chunk along k.
  uint32_t at(int row, int chunk) const {
    const auto r = static_cast<uint32_t>(row), c = static_cast<uint32_t>(chunk);
    if (pattern == 0) return start + r / 8 * stride + r % 8 * 16 + c * leading;
    return swizzled(start + r / 8 * stride + r % 8 * static_cast<uint32_t>(pattern) + c * 16, pattern);
  }
};

int element_bytes(Format format) { return format == Format::kF16 || format == Format::kBf16 ? 2 : 1; }

void unpack(const uint8_t* bytes, float* values, Format format) {
  const ByteTables& tables = byte_tables();
  if (element_bytes(format) == 1) {
    const float* table = format == Format::kE4m3 ? tables.e4m3 : tables.e5m2;
    for (int i = 0; i < 16; ++i) values[i] = table[bytes[i]];
    return;
  }
  for (int i = 0; i < 8; ++i) {
    const auto bits = static_cast<uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8);
    values[i] = format == Format::kF16 ? half_value(bits) : bf16_value(bits);
  }
}

constexpr int kMaxN = 256;

struct LaneRegisters {
  float* acc;
  const uint32_t* a;
};

// One warp's part of one multiplication.
class Product : public Operation {
 public:
  Product(Block& home, int first_row, int n, Format a_format, Format b_format, bool keep, Place place)
      : Operation(home.cluster, place),
        home_(home),
        first_row_(first_row),
        n_(n),
        a_format_(a_format),
        b_format_(b_format),
        keep_(keep) {}
  void run() override {
    const int k = 32 / element_bytes(b_format_);
    static float a[16][32], b[32][kMaxN], sum[16][kMaxN];
    load_a(a);
    float row[16];
    for (int column = 0; column < n_; ++column) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        unpack(home_.shared + b_.at(column, chunk), row, b_format_);
        for (int i = 0; i < k / 2; ++i) b[chunk * k / 2 + i][column] = row[i];
      }
    }
    for (int r = 0; r < 16; ++r) {
      float* target = sum[r];
      std::fill(target, target + n_, 0.0f);
      for (int i = 0; i < k; ++i) {
        const float left = a[r][i];
        const float* right = b[i];
        for (int column = 0; column < n_; ++column) target[column] += left * right[column];
      }
    }
    for (int lane = 0; lane < 32; ++lane) {
      float* acc = registers[lane].acc;
      for (int i = 0; i < n_ / 2; ++i) {
        const float value = sum[lane / 4 + (i & 2 ? 8 : 0)][i / 4 * 8 + lane % 4 * 2 + (i & 1)];
        acc[i] = keep_ ? acc[i] + value : value;
      }
    }
  }
  const char* name() const override { return "wgmma"; }

  std::array<LaneRegisters, 32> registers{};
  MatrixDescriptor a_{}, b_{};
  bool a_shared = false;

 private:
  void load_a(float (&a)[16][32]) const {
    if (a_shared) {
      const int k = 32 / element_bytes(a_format_);
      for (int r = 0; r < 16; ++r) {
        for (int chunk = 0; chunk < 2; ++chunk)
          unpack(home_.shared + a_.at(first_row_ + r, chunk), a[r] + chunk * k / 2, a_format_);
      }
      return;
    }
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = registers[lane].a[i];
        for (int half = 0; half < 2; ++half) {
          const auto bits = static_cast<uint16_t>(word >> 16 * half);
          const float value = a_format_ == Format::kF16 ? half_value(bits) : bf16_value(bits);
          a[lane / 4 + (i & 1) * 8][lane % 4 * 2 + half + (i >> 1) * 8] = value;
        }
      }
    }
  }

  Block& home_;
  int first_row_, n_;
  Format a_format_, b_format_;
  bool keep_;
};

void note_registers(Lane& lane, const void* begin, size_t bytes, bool writes, Tick tick) {
  const char* first = static_cast<const char*>(begin);
  for (RegisterUse& use : lane.registers) {
    if (use.begin == first && use.end == first + bytes) {
      use.tick = tick;
      use.writes |= writes;
      return;
    }
  }
  if (lane.registers.size() >= 24) lane.registers.erase(lane.registers.begin());
  lane.registers.push_back({first, first + bytes, writes, tick});
}

void read_shared(const MatrixDescriptor& matrix, int first, int rows, const Access& access) {
  for (int r = first; r < first + rows; ++r) {
    for (int chunk = 0; chunk < 2; ++chunk) {
      const uint32_t offset = matrix.at(r, chunk);
      if (offset < 1024 || offset + 16 > block().shared_bytes) {
        fail(Detector::kBounds, format("wgmma reads shared offset 0x%x, outside of the block's", offset), access.place);
      }
      block().shadow.read(offset, 16, access);
    }
  }
}

void issue(float* acc, int n, const uint32_t* a_registers, uint64_t a, uint64_t b, Format a_format, Format b_format,
           bool keep, Place place) {
  LaneRegisters own{acc, a_registers};
  meet("wgmma.mma_async", kFullMask, &own, place, [&](void** slots) {
    Warp& warp = *world().lane().warp;
    if (!warp.wgmma_fenced) {
      fail(Detector::kRegisters, "wgmma.fence is missing: registers were written since the last one", place);
    }
    if (warp.lanes.size() != 32 || warp.block->warps.size() < static_cast<size_t>(warp.index / 4 * 4 + 4)) {
      fail(Detector::kWarp, "wgmma needs four whole warps", place);
    }
    const int first_row = warp.index % 4 * 16;
    auto product = std::make_unique<Product>(*warp.block, first_row, n, a_format, b_format, keep, place);
    const Tick tick = warp.wgmma.issued + 1;
    const Access access = asynchronous(warp.wgmma.agent, tick, place);
    product->b_ = MatrixDescriptor::decode(b, place);
    read_shared(product->b_, 0, n, access);
    if (a_registers == nullptr) {
      product->a_shared = true;
      product->a_ = MatrixDescriptor::decode(a, place);
      read_shared(product->a_, first_row, 16, access);
    }
    for (int lane = 0; lane < 32; ++lane) {
      product->registers[lane] = *static_cast<LaneRegisters*>(slots[lane]);
      note_registers(warp.lanes[lane], product->registers[lane].acc, sizeof(float) * n / 2, true, tick);
      if (a_registers != nullptr) note_registers(warp.lanes[lane], product->registers[lane].a, 16, false, tick);
    }
    world().start(warp.wgmma, std::move(product));
  });
  world().point();
}

}  // namespace

void wgmma_fence(Place place) {
  meet("wgmma.fence", kFullMask, nullptr, place, [](void**) { world().lane().warp->wgmma_fenced = true; });
}

void wgmma_commit(Place place) {
  meet("wgmma.commit_group", kFullMask, nullptr, place, [](void**) {
    Warp& warp = *world().lane().warp;
    warp.wgmma_groups.push_back(warp.wgmma.issued);
  });
}

void wgmma_wait(int pending, Place place) {
  meet("wgmma.wait_group", kFullMask, nullptr, place, [pending](void**) {
    Warp& warp = *world().lane().warp;
    const int done = std::max(0, static_cast<int>(warp.wgmma_groups.size()) - pending);
    if (done == 0) return;
    const Tick tick = warp.wgmma_groups[static_cast<size_t>(done) - 1];
    warp.wgmma_groups.erase(warp.wgmma_groups.begin(), warp.wgmma_groups.begin() + done);
    world().drain(warp.wgmma, tick);
    warp.wgmma_known = tick;
    warp.known.order.set(warp.wgmma.agent, tick);
    warp.snapshot.reset();
  });
  world().point();
}

void wgmma_registers(float* acc, int n, const uint32_t* a, uint64_t b, Format format, Place place) {
  issue(acc, n, a, 0, b, format, format, true, place);
}

void wgmma_shared(float* acc, int n, uint64_t a, uint64_t b, Format a_format, Format b_format, bool keep, Place place) {
  issue(acc, n, nullptr, a, b, a_format, b_format, keep, place);
}

}  // namespace tilewright::emulator
