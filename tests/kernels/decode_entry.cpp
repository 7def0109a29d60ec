// The C functions of the decode harness over all groups of shapes. Each returns a cudaError_t value unless it says otherwise.
#include "decode_harness.h"

namespace {

using namespace tilewright::test;

// The entry of `shape`, counted over the groups in order, or null.
const DecodeEntry* entry_of(int shape) {
  for (const DecodeGroup group : {decode_group_0(), decode_group_1(), decode_group_2(), decode_group_3()}) {
    if (shape >= 0 && shape < group.count) return group.entries + shape;
    shape -= group.count;
  }
  return nullptr;
}

}  // namespace

extern "C" {

int tw_decode_count() {
  int count = 0;
  while (entry_of(count) != nullptr) ++count;
  return count;
}

const char* tw_decode_name(int shape) { return entry_of(shape)->name; }

void tw_decode_info(int shape, DecodeShapeInfo* info) { *info = entry_of(shape)->info; }

int tw_decode_launch(int shape, const tilewright::Gemm4bitArgs* args, int cluster, int ring_kb, int per_sm,
                     void* stream) {
  const DecodeEntry* entry = entry_of(shape);
  if (entry == nullptr || args->dtype == tilewright::DType::kF32) return cudaErrorInvalidValue;
  const auto launch = entry->launch[static_cast<int>(args->dtype)];
  if (launch == nullptr) return cudaErrorNotSupported;
  return launch(*args, {cluster, ring_kb, per_sm}, static_cast<cudaStream_t>(stream));
}

const char* tw_decode_error(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }

}  // extern "C"
