// The C interface that python/tilewright/_native.py calls through ctypes.
#include "binding_control.h"

#include <atomic>
#include <cstdio>

#include "binding_device.h"

#define TILEWRIGHT_EXPORT extern "C" __attribute__((visibility("default")))

namespace tilewright::binding {

const char* register_with_torch();

namespace {

std::atomic<int> forced[kFamilyCount] = {kForceNothing, kForceNothing, kForceNothing};
thread_local DecisionRecord last_decision{};

}  // namespace

// A family as Python lists it. Archs and images are the same in all.
struct FamilyNames {
  const char* name;
  int tiles;
  const char* (*tile)(int);
};

template <class Tile>
const char* name_of(int tile) {
  return tile_name(static_cast<Tile>(tile));
}

constexpr FamilyNames kFamilies[kFamilyCount] = {
    {"gemm_4bit", kTileCount, name_of<Tile>},
    {"gemm_fp8", gemm_fp8::kTileCount, name_of<gemm_fp8::Tile>},
    {"gemm_nvfp4", gemm_nvfp4::kTileCount, name_of<gemm_nvfp4::Tile>},
};

int forced_tile(int family) { return forced[family].load(std::memory_order_relaxed); }

void record_decision(DecisionRecord record) {
  record.serial = last_decision.serial + 1;
  last_decision = record;
}

}  // namespace tilewright::binding

namespace binding = tilewright::binding;

// Registers torch.ops.tilewright; null on success, else the reason. `import torch` must have run.
TILEWRIGHT_EXPORT const char* tilewright_register_torch() { return binding::register_with_torch(); }

TILEWRIGHT_EXPORT int tilewright_tile_count() { return binding::kTileCount; }

TILEWRIGHT_EXPORT const char* tilewright_tile_name(int tile) {
  return tile >= 0 && tile < binding::kTileCount ? binding::tile_name(static_cast<binding::Tile>(tile)) : nullptr;
}

TILEWRIGHT_EXPORT const char* tilewright_arch_name(int arch) {
  return arch >= 0 && arch < binding::kArchCount ? binding::arch_name(static_cast<binding::Arch>(arch)) : nullptr;
}

TILEWRIGHT_EXPORT const char* tilewright_spec_digest() { return binding::kSpecDigest; }

TILEWRIGHT_EXPORT void tilewright_images(char* out, int size) {
  binding::describe_images(out, static_cast<size_t>(size));
}

// Name of the rule set that a device of this compute capability is served by, or null.
TILEWRIGHT_EXPORT const char* tilewright_arch_for(int cc_major, int cc_minor) {
  const int image = binding::best_image(cc_major, cc_minor);
  return image < 0 ? nullptr : binding::arch_name(binding::kImages[image].arch);
}

// Whether no kernel of this library runs on a device; then `out` says why. Makes a context on the device.
TILEWRIGHT_EXPORT int tilewright_device_refusal(int index, char* out, int size) {
  binding::Device device;
  if (!binding::device_properties(index, device)) {
    std::snprintf(out, static_cast<size_t>(size), "%s", binding::last_error());
    return 1;
  }
  if (device.image >= 0) return 0;
  binding::describe_refusal(index, device, out, static_cast<size_t>(size));
  return 1;
}

// Number of the image that a device of this compute capability takes, in the order of tilewright_images, or -1.
TILEWRIGHT_EXPORT int tilewright_image_for(int cc_major, int cc_minor) {
  return binding::best_image(cc_major, cc_minor);
}

// Takes a tile index or one of the kForce constants; returns the value that was set before.
TILEWRIGHT_EXPORT int tilewright_force_tile(int tile) { return binding::forced[binding::kGemm4bit].exchange(tile); }

TILEWRIGHT_EXPORT int tilewright_force_family_tile(int family, int tile) {
  return family >= 0 && family < binding::kFamilyCount ? binding::forced[family].exchange(tile)
                                                       : binding::kForceNothing;
}

TILEWRIGHT_EXPORT const char* tilewright_family_name(int family) {
  return family >= 0 && family < binding::kFamilyCount ? binding::kFamilies[family].name : nullptr;
}

TILEWRIGHT_EXPORT int tilewright_family_tile_count(int family) {
  return family >= 0 && family < binding::kFamilyCount ? binding::kFamilies[family].tiles : 0;
}

TILEWRIGHT_EXPORT const char* tilewright_family_tile_name(int family, int tile) {
  return tile >= 0 && tile < tilewright_family_tile_count(family) ? binding::kFamilies[family].tile(tile) : nullptr;
}

TILEWRIGHT_EXPORT void tilewright_last_decision(binding::DecisionRecord* out) { *out = binding::last_decision; }

// Makes `count` decisions over varying sizes, for benchmarks/host_overhead.py; returns a value that depends on all.
TILEWRIGHT_EXPORT int tilewright_select_many(int count) {
  binding::Problem problem{};
  problem.blocksize = 64;
  problem.num_sms = 132;
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    problem.M = 1 + i % 512;
    problem.N = 64 * (1 + i % 97);
    problem.K = 64 * (1 + i % 61);
    sum += static_cast<int>(binding::select(binding::kImages[0].arch, problem).tile);
  }
  return sum;
}
