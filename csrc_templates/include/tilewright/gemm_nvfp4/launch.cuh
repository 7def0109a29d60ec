// Entry of the gemm_nvfp4 family: one host function per Config, dispatched on its engine at compile time.
//
// An engine header specialises EngineLauncher for its Engine and is included here.
#pragma once

#include <cuda_runtime.h>

#include "tilewright/gemm_nvfp4/args.h"
#include "tilewright/gemm_nvfp4/config.h"
#include "tilewright/gemm_nvfp4/engine_launcher.h"
#include "tilewright/gemm_nvfp4/mma_block_scaled.cuh"
#include "tilewright/gemm_nvfp4/tcgen05.cuh"

namespace tilewright::gemm_nvfp4 {

// Launches Config's kernel on `stream` of the current device and returns without waiting.
//
// Every engine returns, having launched nothing:
//   cudaErrorInvalidValue       sizes, strides, pointers or types that no kernel of the family takes
//   cudaErrorNotSupported       this engine does not take the problem; another may
//   cudaErrorMisalignedAddress  a pointer or stride breaks the engine's alignment; the caller makes an aligned copy
//   cudaErrorInvalidConfiguration  the grid would be larger than CUDA allows
// and passes on what the CUDA runtime says of the launch itself. A problem with m == 0 or n == 0 is a success.
template <class Config>
cudaError_t launch_gemm_nvfp4(const GemmNvfp4Args& args, cudaStream_t stream) {
  return EngineLauncher<Config::kEngine>::template launch<Config>(args, stream);
}

}  // namespace tilewright::gemm_nvfp4
