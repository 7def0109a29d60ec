// Launches one tile of gemm_4bit. Compiled per tile: TILEWRIGHT_TILE_HEADER and TILEWRIGHT_TILE name it, TILEWRIGHT_ELEMENT
// the element type.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include TILEWRIGHT_TILE_HEADER
#include "tilewright/gemm_4bit/config.h"
#include TILEWRIGHT_ENGINE_HEADER

extern "C" int tilewright_driver_launch(const void* arguments) {
  using namespace tilewright;
  using Config = Gemm4bitConfig<TILEWRIGHT_TILE, TILEWRIGHT_ELEMENT>;
  return EngineLauncher<Config::kEngine>::template launch<Config>(*static_cast<const Gemm4bitArgs*>(arguments), nullptr);
}
