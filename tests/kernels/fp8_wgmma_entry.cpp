// The C functions of the gemm_fp8 wgmma harness over all groups of tiles. Each returns a cudaError_t value unless it
// says otherwise.
#include <chrono>

#include "fp8_wgmma_harness.h"

namespace {

using tilewright::test::Fp8WgmmaEntry;
using tilewright::test::Fp8WgmmaGroup;

// The entry of `tile`, counted over the groups in order, or null.
const Fp8WgmmaEntry* entry_of(int tile) {
  using namespace tilewright::test;
  for (const Fp8WgmmaGroup group :
       {fp8_wgmma_group_0(), fp8_wgmma_group_1(), fp8_wgmma_group_2(), fp8_wgmma_group_3()}) {
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

void tw_fp8_info(int tile, tilewright::test::Fp8WgmmaTileInfo* info) { *info = entry_of(tile)->info; }

int tw_fp8_launch(int tile, const tilewright::GemmFp8Args* args, void* stream) {
  const Fp8WgmmaEntry* entry = entry_of(tile);
  if (entry == nullptr) return cudaErrorInvalidValue;
  const auto launch = entry->launch[static_cast<int>(args->dtype)];
  if (launch == nullptr) return cudaErrorNotSupported;
  return launch(*args, static_cast<cudaStream_t>(stream));
}

// Host nanoseconds per launch, or minus a cudaError_t value. `launches` stays under the queue's length.
double tw_fp8_host_ns(int tile, const tilewright::GemmFp8Args* args, void* stream, int launches) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) {
    if (const int error = tw_fp8_launch(tile, args, stream)) return -error;
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / launches;
}

const char* tw_fp8_error(int error) { return cudaGetErrorName(static_cast<cudaError_t>(error)); }

}  // extern "C"
