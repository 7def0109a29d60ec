// Entry of the gemm_4bit family: one host function per Config, dispatched on its engine at compile time.
//
// An engine header specialises EngineLauncher for its Engine and is included here.
#pragma once

#include <cuda_runtime.h>

#include "tilewright/gemm_4bit/args.h"
#include "tilewright/gemm_4bit/config.h"
#include "tilewright/gemm_4bit/decode.cuh"
#include "tilewright/gemm_4bit/engine_launcher.h"
#include "tilewright/gemm_4bit/mma_m16n8k16.cuh"
#include "tilewright/gemm_4bit/simt.cuh"
#include "tilewright/gemm_4bit/wgmma.cuh"

namespace tilewright {

// Launches Config's kernel on `stream` of the current device and returns without waiting.
//
// Every engine returns, having launched nothing:
//   cudaErrorInvalidValue       a size, blocksize or dtype that no kernel of the family takes
//   cudaErrorNotSupported       this engine does not take the problem (mma engines: K % 32 != 0); another may
//   cudaErrorMisalignedAddress  a pointer or lda breaks the engine's alignment; the caller makes an aligned copy of A
//   cudaErrorInvalidConfiguration  the grid would be larger than CUDA allows
// and passes on what the CUDA runtime says of the launch itself. A problem with m == 0 or n == 0 is a success.
template <class Config>
cudaError_t launch_gemm_4bit(const Gemm4bitArgs& args, cudaStream_t stream) {
  return EngineLauncher<Config::kEngine>::template launch<Config>(args, stream);
}

}  // namespace tilewright
