#include "binding_tuned.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "binding_control.h"

#define TILEWRIGHT_EXPORT extern "C" __attribute__((visibility("default")))

namespace tilewright::binding {

namespace {

struct Table {
  Arch arch;
  int num_sms;
  int count;
  TunedEntry* entries;  // in the order of `before`, without overlap
};

// A table that was replaced is kept: another thread may be reading it, and tables are loaded a few times at most.
std::atomic<const Table*> current{nullptr};

// By weight and types first, then by M.
int compare(const TunedEntry& entry, const Problem& p) {
  if (entry.n != p.N) return entry.n < p.N ? -1 : 1;
  if (entry.k != p.K) return entry.k < p.K ? -1 : 1;
  if (entry.dtype != static_cast<int32_t>(p.dtype)) return entry.dtype < static_cast<int32_t>(p.dtype) ? -1 : 1;
  const int32_t quant_type = static_cast<int32_t>(p.quant_type);
  if (entry.quant_type != quant_type) return entry.quant_type < quant_type ? -1 : 1;
  const int32_t layout = static_cast<int32_t>(p.layout);
  if (entry.layout != layout) return entry.layout < layout ? -1 : 1;
  if (entry.blocksize != p.blocksize) return entry.blocksize < p.blocksize ? -1 : 1;
  if (p.M < entry.m_min) return 1;
  return p.M > entry.m_max ? -1 : 0;
}

const TunedEntry* find(const Table& table, const Problem& problem) {
  int low = 0;
  int high = table.count;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const int order = compare(table.entries[middle], problem);
    if (order == 0) return &table.entries[middle];
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return nullptr;
}

Problem problem_of(const TunedEntry& entry, int64_t m, int num_sms) {
  Problem problem{};
  problem.M = m;
  problem.N = entry.n;
  problem.K = entry.k;
  problem.blocksize = entry.blocksize;
  problem.num_sms = num_sms;
  problem.dtype = static_cast<DType>(entry.dtype);
  problem.quant_type = static_cast<QuantType>(entry.quant_type);
  problem.layout = static_cast<WeightLayout>(entry.layout);
  return problem;
}

bool runs(int32_t choice, Arch arch, const Problem& problem) {
  if (!within_limits(problem)) return false;
  if (choice == kForceFallback) return true;
  return choice >= 0 && choice < kTileCount && tile_legal(static_cast<Tile>(choice), arch, problem);
}

bool in_order(const TunedEntry& entry, const TunedEntry& next) {
  return compare(entry, problem_of(next, next.m_min, 1)) < 0;
}

// The first entry that cannot be used, or -1.
int first_wrong(Arch arch, int num_sms, const TunedEntry* entries, int count) {
  for (int i = 0; i < count; ++i) {
    const TunedEntry& entry = entries[i];
    const bool ordered = entry.m_min <= entry.m_max && (i == 0 || in_order(entries[i - 1], entry));
    if (!ordered || !runs(entry.choice, arch, problem_of(entry, entry.m_min, num_sms)) ||
        !runs(entry.choice, arch, problem_of(entry, entry.m_max, num_sms))) {
      return i;
    }
  }
  return -1;
}

}  // namespace

bool tuned_decision(Arch arch, const Problem& problem, Decision& decision) {
  const Table* table = current.load(std::memory_order_acquire);
  if (table == nullptr || table->arch != arch || table->num_sms != problem.num_sms) return false;
  const TunedEntry* entry = find(*table, problem);
  if (entry == nullptr || !runs(entry->choice, arch, problem)) return false;
  decision.path = entry->choice == kForceFallback ? Path::kFallback : Path::kCustom;
  if (decision.path == Path::kCustom) decision.tile = static_cast<Tile>(entry->choice);
  return true;
}

}  // namespace tilewright::binding

namespace binding = tilewright::binding;

constexpr int kTunedLoaded = -1;
constexpr int kTunedUnknownArch = -2;
constexpr int kTunedNoMemory = -3;

// Replaces the table; no entries: takes it away. Returns kTunedLoaded, the index of the first entry that is out of
// order or that its tile cannot run, or one of the other constants. On failure the table before stays.
TILEWRIGHT_EXPORT int tilewright_set_tuned(const char* arch, int num_sms, const binding::TunedEntry* entries,
                                           int count) {
  using binding::Arch;
  if (count == 0) {
    binding::current.store(nullptr, std::memory_order_release);
    return kTunedLoaded;
  }
  int index = 0;
  while (index < binding::kArchCount && std::strcmp(binding::arch_name(static_cast<Arch>(index)), arch) != 0) ++index;
  if (index == binding::kArchCount || binding::image_of(static_cast<Arch>(index)) < 0) return kTunedUnknownArch;
  const int wrong = binding::first_wrong(static_cast<Arch>(index), num_sms, entries, count);
  if (wrong >= 0) return wrong;
  const size_t bytes = static_cast<size_t>(count) * sizeof(binding::TunedEntry);
  auto* table = static_cast<binding::Table*>(std::malloc(sizeof(binding::Table)));
  auto* copy = static_cast<binding::TunedEntry*>(std::malloc(bytes));
  if (table == nullptr || copy == nullptr) {
    std::free(table);
    std::free(copy);
    return kTunedNoMemory;
  }
  std::memcpy(copy, entries, bytes);
  *table = {static_cast<Arch>(index), num_sms, count, copy};
  binding::current.store(table, std::memory_order_release);
  return kTunedLoaded;
}
