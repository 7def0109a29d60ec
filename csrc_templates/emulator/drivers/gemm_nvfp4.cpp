// Launches one tile of gemm_nvfp4.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "driver.h"
#include "tile.h"
#include "tilewright/gemm_nvfp4/args.h"
#include "tilewright/gemm_nvfp4/config.h"

extern "C" int tilewright_driver_launch(const void* given) {
  using namespace tilewright;
  const auto& assignments = *static_cast<const emulator::Assignments*>(given);
  GemmNvfp4Args arguments{};
  for (int i = 0; i < assignments.count; ++i) {
    TILEWRIGHT_ASSIGN(a);
    TILEWRIGHT_ASSIGN(b);
    TILEWRIGHT_ASSIGN(scale_a);
    TILEWRIGHT_ASSIGN(scale_b);
    TILEWRIGHT_ASSIGN(global_a);
    TILEWRIGHT_ASSIGN(global_b);
    TILEWRIGHT_ASSIGN(bias);
    TILEWRIGHT_ASSIGN(out);
    TILEWRIGHT_ASSIGN(m);
    TILEWRIGHT_ASSIGN(n);
    TILEWRIGHT_ASSIGN(k);
    TILEWRIGHT_ASSIGN(ldo);
    TILEWRIGHT_ASSIGN(dtype);
    TILEWRIGHT_ASSIGN(num_sms);
    TILEWRIGHT_ASSIGN(workspace);
    TILEWRIGHT_ASSIGN(workspace_bytes);
  }
  using Config = GemmNvfp4Config<EmulatedTile, EmulatedElement>;
  return gemm_nvfp4::EngineLauncher<Config::kEngine>::template launch<Config>(arguments, nullptr);
}
