// Launches one tile of gemm_fp8.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "driver.h"
#include "tile.h"
#include "tilewright/gemm_fp8/args.h"
#include "tilewright/gemm_fp8/config.h"

extern "C" int tilewright_driver_launch(const void* given) {
  using namespace tilewright;
  const auto& assignments = *static_cast<const emulator::Assignments*>(given);
  GemmFp8Args arguments{};
  for (int i = 0; i < assignments.count; ++i) {
    TILEWRIGHT_ASSIGN(a);
    TILEWRIGHT_ASSIGN(b);
    TILEWRIGHT_ASSIGN(scale_a);
    TILEWRIGHT_ASSIGN(scale_b);
    TILEWRIGHT_ASSIGN(bias);
    TILEWRIGHT_ASSIGN(out);
    TILEWRIGHT_ASSIGN(m);
    TILEWRIGHT_ASSIGN(n);
    TILEWRIGHT_ASSIGN(k);
    TILEWRIGHT_ASSIGN(lda);
    TILEWRIGHT_ASSIGN(ldb);
    TILEWRIGHT_ASSIGN(ldo);
    TILEWRIGHT_ASSIGN(scale_a_m);
    TILEWRIGHT_ASSIGN(scale_a_k);
    TILEWRIGHT_ASSIGN(scale_b_n);
    TILEWRIGHT_ASSIGN(scale_b_k);
    TILEWRIGHT_ASSIGN(b_group_stride);
    TILEWRIGHT_ASSIGN(scale_b_group);
    TILEWRIGHT_ASSIGN(bias_group);
    TILEWRIGHT_ASSIGN(group_ends);
    TILEWRIGHT_ASSIGN(group_rows);
    TILEWRIGHT_ASSIGN(groups);
    TILEWRIGHT_ASSIGN(grouping);
    TILEWRIGHT_ASSIGN(scaling);
    TILEWRIGHT_ASSIGN(a_type);
    TILEWRIGHT_ASSIGN(dtype);
    TILEWRIGHT_ASSIGN(fast_accum);
    TILEWRIGHT_ASSIGN(fresh_weights);
    TILEWRIGHT_ASSIGN(num_sms);
    TILEWRIGHT_ASSIGN(workspace);
    TILEWRIGHT_ASSIGN(workspace_bytes);
  }
  using Config = GemmFp8Config<EmulatedTile, EmulatedElement>;
  return gemm_fp8::EngineLauncher<Config::kEngine>::template launch<Config>(arguments, nullptr);
}
