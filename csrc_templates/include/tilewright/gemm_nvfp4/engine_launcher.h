// What an engine of gemm_nvfp4 specialises:
// `template <class Config> static cudaError_t launch(const GemmNvfp4Args&, cudaStream_t)`.
#pragma once

#include "tilewright/types.h"

namespace tilewright::gemm_nvfp4 {

template <Engine kEngine>
struct EngineLauncher;

}  // namespace tilewright::gemm_nvfp4
