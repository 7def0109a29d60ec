// The compile-time interface between launch_gemm_4bit and the engines.
#pragma once

#include "tilewright/gemm_4bit/args.h"

namespace tilewright {

// Specialised per engine with `template <class Config> static cudaError_t launch(const Gemm4bitArgs&, cudaStream_t)`.
template <Engine engine>
struct EngineLauncher;

}  // namespace tilewright
