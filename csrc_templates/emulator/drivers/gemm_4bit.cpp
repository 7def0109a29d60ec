// Launches one tile of gemm_4bit.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "driver.h"
#include "tile.h"
#include "tilewright/gemm_4bit/config.h"

extern "C" int tilewright_driver_launch(const void* given) {
  using namespace tilewright;
  const auto& assignments = *static_cast<const emulator::Assignments*>(given);
  Gemm4bitArgs arguments{};
  for (int i = 0; i < assignments.count; ++i) {
    TILEWRIGHT_ASSIGN(a);
    TILEWRIGHT_ASSIGN(b);
    TILEWRIGHT_ASSIGN(scales);
    TILEWRIGHT_ASSIGN(nested_absmax);
    TILEWRIGHT_ASSIGN(nested_code);
    TILEWRIGHT_ASSIGN(offset);
    TILEWRIGHT_ASSIGN(bias);
    TILEWRIGHT_ASSIGN(out);
    TILEWRIGHT_ASSIGN(m);
    TILEWRIGHT_ASSIGN(n);
    TILEWRIGHT_ASSIGN(k);
    TILEWRIGHT_ASSIGN(lda);
    TILEWRIGHT_ASSIGN(blocksize);
    TILEWRIGHT_ASSIGN(dtype);
    TILEWRIGHT_ASSIGN(quant_type);
    TILEWRIGHT_ASSIGN(num_sms);
    TILEWRIGHT_ASSIGN(workspace);
    TILEWRIGHT_ASSIGN(workspace_bytes);
    TILEWRIGHT_ASSIGN(layout);
    TILEWRIGHT_ASSIGN(fresh_weights);
  }
  using Config = Gemm4bitConfig<EmulatedTile, EmulatedElement>;
  return EngineLauncher<Config::kEngine>::template launch<Config>(arguments, nullptr);
}
