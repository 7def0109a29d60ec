// State that Python reads and sets through ctypes: the forced tile and the last decision of each thread.
#pragma once

#include "binding_generated.h"

namespace tilewright::binding {

inline constexpr int kForceNothing = -1;
inline constexpr int kForceFallback = -2;

// What made a decision: DecisionRecord::by.
inline constexpr int kByRules = 0;
inline constexpr int kByForce = 1;
inline constexpr int kByTable = 2;

// Families by number, as C and Python see them.
inline constexpr int kGemm4bit = 0;
inline constexpr int kGemmFp8 = 1;
inline constexpr int kGemmNvfp4 = 2;
inline constexpr int kFamilyCount = 3;

// The tile index to use in a family instead of the selector's choice, or one of the constants above.
int forced_tile(int family = kGemm4bit);

// One decision, as C sees it and as python/tilewright/_native.py mirrors it.
struct DecisionRecord {
  int64_t serial;  // how many decisions this thread has made; 0 before the first
  int64_t m, n, k;
  int32_t device;
  int32_t arch;     // index of the rule set used, -1 if no image loads on the device
  int32_t path;     // 0 fallback, 1 custom
  int32_t tile;     // -1 for the fallback
  int32_t by;       // kByRules, kByForce (force_tile) or kByTable (load_tuned)
  int32_t dtype;
  int32_t family = kGemm4bit;
  int32_t layout = 0;  // WeightLayout of gemm_4bit
};

void record_decision(DecisionRecord record);

}  // namespace tilewright::binding
