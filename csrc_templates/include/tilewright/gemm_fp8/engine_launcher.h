// What an engine of gemm_fp8 specialises:
// `template <class Config> static cudaError_t launch(const GemmFp8Args&, cudaStream_t)`.
#pragma once

#include "tilewright/types.h"

namespace tilewright::gemm_fp8 {

template <Engine kEngine>
struct EngineLauncher;

}  // namespace tilewright::gemm_fp8
