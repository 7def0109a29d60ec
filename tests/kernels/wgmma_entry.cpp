// The C functions of the wgmma harness over all groups of tiles. Each returns a cudaError_t value unless it says otherwise.
#include <chrono>

#include "wgmma_harness.h"

namespace {

using tilewright::test::WgmmaEntry;
using tilewright::test::WgmmaGroup;

// The entry of `tile`, counted over the groups in order, or null.
const WgmmaEntry* entry_of(int tile) {
  using namespace tilewright::test;
  for (const WgmmaGroup group : {wgmma_group_0(), wgmma_group_1(), wgmma_group_2(), wgmma_group_3()}) {
    if (tile >= 0 && tile < group.count) return group.entries + tile;
    tile -= group.count;
  }
  return nullptr;
}

}  // namespace

extern "C" {

int tw_wgmma_count() {
  int count = 0;
  while (entry_of(count) != nullptr) ++count;
  return count;
}

const char* tw_wgmma_name(int tile) { return entry_of(tile)->name; }

int tw_wgmma_half() { return entry_of(0)->launch[0] != nullptr; }

void tw_wgmma_info(int tile, tilewright::test::WgmmaTileInfo* info) { *info = entry_of(tile)->info; }

int tw_wgmma_launch(int tile, const tilewright::Gemm4bitArgs* args, void* stream) {
  const WgmmaEntry* entry = entry_of(tile);
  if (entry == nullptr || args->dtype == tilewright::DType::kF32) return cudaErrorInvalidValue;
  const auto launch = entry->launch[static_cast<int>(args->dtype)];
  if (launch == nullptr) return cudaErrorNotSupported;
  return launch(*args, static_cast<cudaStream_t>(stream));
}

// Host nanoseconds per launch, or minus a cudaError_t value. `launches` stays under the queue's length.
double tw_wgmma_host_ns(int tile, const tilewright::Gemm4bitArgs* args, void* stream, int launches) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) {
    if (const int error = tw_wgmma_launch(tile, args, stream)) return -error;
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / launches;
}

const char* tw_wgmma_error(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }

}  // extern "C"
