// What the products of all families share: the decision for a device, forcing it, and saying what went wrong.
//
// A Family names its generated types: `Arch`, `Problem`, `Tile`, `Decision`, and has `kNumber`, `kName`, `kTileCount`,
// `arch(image)` and `text(problem, out, size)`. Its generated functions are found by their argument types.
#pragma once

#include <cuda_runtime_api.h>

#include <cinttypes>
#include <cstdio>

#include "binding_control.h"
#include "binding_device.h"

namespace tilewright::binding {

template <class Family>
struct FamilyCall {
  Device device;
  typename Family::Problem problem{};
  typename Family::Decision decision{};
  int forced = kForceNothing;
  void* stream = nullptr;

  bool custom() const { return decision.path == decltype(decision.path)::kCustom; }
  typename Family::Arch arch() const { return Family::arch(device.image); }
};

template <class Family>
bool force_decision(FamilyCall<Family>& call) {
  using Path = decltype(call.decision.path);
  if (call.forced == kForceFallback) {
    call.decision.path = Path::kFallback;
    return true;
  }
  const auto tile = static_cast<typename Family::Tile>(call.forced);
  if (!tile_legal(tile, call.arch(), call.problem)) {
    char text[160];
    Family::text(call.problem, text, sizeof text);
    return fail(
        "%s: the forced tile %s cannot run %s on %s: it is not built for this arch, or the problem does not meet "
        "what it requires",
        Family::kName, tile_name(tile), text, arch_name(call.arch()));
  }
  call.decision.path = Path::kCustom;
  call.decision.tile = tile;
  return true;
}

template <class Family>
void record(const FamilyCall<Family>& call, const View& a, int64_t rows) {
  DecisionRecord found{};
  found.m = rows;
  found.n = call.problem.N;
  found.k = call.problem.K;
  found.device = a.device;
  found.arch = static_cast<int32_t>(call.arch());
  found.path = call.custom() ? 1 : 0;
  found.tile = call.custom() ? static_cast<int32_t>(call.decision.tile) : -1;
  found.by = call.forced == kForceNothing ? kByRules : kByForce;
  found.dtype = static_cast<int32_t>(call.problem.dtype);
  found.family = Family::kNumber;
  record_decision(found);
}

// Decides for the device of `a`, whose `problem` is filled in but for the SM count, and records it with the rows of A.
template <class Family>
bool decide_family(FamilyCall<Family>& call, const View& a, int64_t rows) {
  using Path = decltype(call.decision.path);
  if (!prepare_device(Family::kName, a, call.device, call.stream)) return false;
  call.problem.num_sms = call.device.num_sms;
  call.decision.path = Path::kFallback;
  if (within_limits(call.problem)) call.decision = select(call.arch(), call.problem);
  call.forced = forced_tile(Family::kNumber);
  if (call.forced != kForceNothing && !force_decision(call)) return false;
  record(call, a, rows);
  return true;
}

// After a launch that failed: true, and the decision is now the fallback, where the tile's engine does not take the
// problem and no force asked for it; otherwise the text is recorded.
template <class Family>
bool recover(cudaError_t error, FamilyCall<Family>& call, const View& a, int64_t rows) {
  (void)cudaGetLastError();
  if (error == cudaErrorNotSupported && call.forced == kForceNothing) {
    call.decision.path = decltype(call.decision.path)::kFallback;
    record(call, a, rows);
    return true;
  }
  char problem[160];
  char text[640];
  Family::text(call.problem, problem, sizeof problem);
  const auto tile = call.decision.tile;
  if (error == cudaErrorSymbolNotFound) {
    describe_unbuilt(tile, call.arch(), call.problem, text, sizeof text);
  } else if (error == cudaErrorNotSupported) {
    std::snprintf(text, sizeof text, "%s: the tile %s cannot run %s: its engine does not take this problem.",
                  Family::kName, tile_name(tile), problem);
  } else {
    std::snprintf(text, sizeof text, "%s: the launch of tile %s failed: %s (%s).", Family::kName, tile_name(tile),
                  cudaGetErrorString(error), problem);
  }
  return fail("%s This is a dispatch-table bug; attach the output of: tilewright explain --family %s %" PRId64
              " %" PRId64 " %" PRId64,
              text, Family::kName, static_cast<int64_t>(call.problem.M), static_cast<int64_t>(call.problem.N),
              static_cast<int64_t>(call.problem.K));
}

// Answers a product of `in`, whose first operand has `rows` rows in all: by `custom(prepared, out)`, which may change
// its copy of the arguments and `recover`, or by `fallback(out)`.
template <class Family, class Inputs, class Custom, class Fallback>
bool answer(FamilyCall<Family>& call, const Inputs& in, int64_t rows, Owned& out, Custom custom, Fallback fallback) {
  if (!decide_family(call, in.a, rows)) return false;
  const DeviceGuard guard(in.a.device);
  if (call.custom()) {
    Inputs prepared = in;
    if (!custom(prepared, out)) return false;
    if (call.custom()) return true;
    if (Handle refused = out.release()) shim.delete_tensor(refused);
  }
  return fallback(out);
}

}  // namespace tilewright::binding
