// The C functions of the gemm_fp8 mma.sync and decode harness over all groups of tiles.
#include "fp8_mma_harness.h"

namespace {

using namespace tilewright::test;

// The entry of `tile`, counted over the groups in order, or null.
const Fp8Entry* entry_of(int tile) {
  for (const Fp8Group group : {fp8_group_0(), fp8_group_1(), fp8_group_2(), fp8_group_3()}) {
    if (tile >= 0 && tile < group.count) return group.entries + tile;
    tile -= group.count;
  }
  return nullptr;
}

}  // namespace

extern "C" {

int tw_fp8_count() {
  int count = 0;
  while (entry_of(count) != nullptr) ++count;
  return count;
}

const char* tw_fp8_name(int tile) { return entry_of(tile)->name; }

void tw_fp8_info(int tile, Fp8TileInfo* info) { *info = entry_of(tile)->info; }

// A cudaError_t; -1 where the dtype is not built.
int tw_fp8_launch(int tile, const tilewright::GemmFp8Args* args, void* stream) {
  const Fp8Entry* entry = entry_of(tile);
  if (entry == nullptr || entry->launch[static_cast<int>(args->dtype)] == nullptr) return -1;
  return entry->launch[static_cast<int>(args->dtype)](*args, static_cast<cudaStream_t>(stream));
}

const char* tw_fp8_error(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }

}  // extern "C"
