// mma.sync: products of fragments that the lanes of a warp hold.
#include "formats.h"
#include "meeting.h"
#include "primitives.h"

namespace tilewright::emulator {

namespace {

// Elements of a register.
int per_register(Format format) {
  return format == Format::kE2m1 ? 8 : format == Format::kE4m3 || format == Format::kE5m2 ? 4 : 2;
}

float element(uint32_t word, int index, Format format) {
  const ByteTables& tables = byte_tables();
  switch (format) {
    case Format::kF16: return half_value(static_cast<uint16_t>(word >> 16 * index));
    case Format::kBf16: return bf16_value(static_cast<uint16_t>(word >> 16 * index));
    case Format::kE4m3: return tables.e4m3[word >> 8 * index & 255];
    case Format::kE5m2: return tables.e5m2[word >> 8 * index & 255];
    case Format::kE2m1: return tables.e2m1[word >> 4 * index & 15];
  }
  return 0.0f;
}

struct Slot {
  float* acc;
  uint32_t a[4];
  uint32_t b[2];
  uint32_t scale_a, scale_b;
};

struct Scales {
  int byte_a, thread_a, byte_b, thread_b;
};

// Scale of row (or column) `index` for element k; `thread` says which lanes of a quad hold it.
float scale_of(void** slots, bool of_a, int index, int k, Format format, const Scales& which) {
  const int byte = of_a ? which.byte_a : which.byte_b;
  const int thread = of_a ? which.thread_a : which.thread_b;
  // A: rows g and g + 8 come from lanes 2 thread and 2 thread + 1 of quad g. B: column g from lane `thread`.
  const int lane = of_a ? (index & 7) * 4 + 2 * thread + (index >> 3) : index * 4 + thread;
  const auto* slot = static_cast<const Slot*>(slots[lane]);
  const uint32_t word = of_a ? slot->scale_a : slot->scale_b;
  const ByteTables& tables = byte_tables();
  if (format == Format::kE2m1) return tables.e4m3[word >> 8 * (k / 16) & 0x7f];
  return tables.ue8m0[word >> 8 * byte & 255];
}

void multiply(void** slots, Format a_format, Format b_format, const Scales* scales) {
  const int each = per_register(a_format);
  const int k_size = 8 * each;
  float a[16][64], b[8][64];
  for (int lane = 0; lane < 32; ++lane) {
    const auto* slot = static_cast<const Slot*>(slots[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int e = 0; e < each; ++e) {
      const int k = each * t + e;
      a[g][k] = element(slot->a[0], e, a_format);
      a[g + 8][k] = element(slot->a[1], e, a_format);
      a[g][k + 4 * each] = element(slot->a[2], e, a_format);
      a[g + 8][k + 4 * each] = element(slot->a[3], e, a_format);
      b[g][k] = element(slot->b[0], e, b_format);
      b[g][k + 4 * each] = element(slot->b[1], e, b_format);
    }
  }
  if (scales != nullptr) {
    for (int k = 0; k < k_size; ++k) {
      for (int row = 0; row < 16; ++row) a[row][k] *= scale_of(slots, true, row, k, a_format, *scales);
      for (int column = 0; column < 8; ++column) b[column][k] *= scale_of(slots, false, column, k, a_format, *scales);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    float* acc = static_cast<Slot*>(slots[lane])->acc;
    for (int i = 0; i < 4; ++i) {
      const float* row = a[lane / 4 + (i >= 2 ? 8 : 0)];
      const float* column = b[lane % 4 * 2 + i % 2];
      double sum = 0.0;
      for (int k = 0; k < k_size; ++k) sum += static_cast<double>(row[k]) * column[k];
      acc[i] = static_cast<float>(acc[i] + sum);
    }
  }
}

}  // namespace

void warp_mma(float* acc, const uint32_t* a, uint32_t b0, uint32_t b1, Format a_format, Format b_format, Place place) {
  Slot own{acc, {a[0], a[1], a[2], a[3]}, {b0, b1}, 0, 0};
  meet("mma.sync", kFullMask, &own, place, [&](void** slots) { multiply(slots, a_format, b_format, nullptr); });
}

void warp_mma_scaled(float* acc, const uint32_t* a, uint32_t b0, uint32_t b1, Format format, uint32_t scale_a,
                     int byte_a, int thread_a, uint32_t scale_b, int byte_b, int thread_b, Place place) {
  Slot own{acc, {a[0], a[1], a[2], a[3]}, {b0, b1}, scale_a, scale_b};
  const Scales scales{byte_a, thread_a, byte_b, thread_b};
  meet("mma.sync block_scale", kFullMask, &own, place, [&](void** slots) { multiply(slots, format, format, &scales); });
}

}  // namespace tilewright::emulator
